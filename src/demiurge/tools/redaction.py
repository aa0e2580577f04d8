"""Redaction: which part of a result, and of a call's arguments, is public. It is an allowlist: all other parts are
removed.

Redaction is data, and the runner applies it, so no tool can forget it. It decides what user interfaces, the command
line, events, telemetry and logs may see; it does not change the model's own text (`docs/redaction.md`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from demiurge.errors import InvalidValue

__all__ = ["MAX_PUBLIC_ARGUMENTS", "OMITTED_ARGUMENTS_KEY", "Redaction", "RedactionMode"]

MAX_PUBLIC_ARGUMENTS = 8 * 1024
"""The maximum size of a call's public arguments, in bytes of compact JSON in UTF-8."""

OMITTED_ARGUMENTS_KEY = "omitted_arguments_bytes"
"""The only key of the object that replaces larger public arguments; its value is their size in bytes."""

RedactionMode = Literal["drop_all", "message_only", "paths", "top_level"]

_Tree: TypeAlias = dict[str, "_Tree | None"]
_SEGMENT = re.compile(r"[^.\s]+")
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Redaction:
    """The public part of a tool's results and arguments. `mode` is `top_level`, `paths`, `message_only` or `drop_all`;
    `fields` are the public fields of a result, `arguments` the dotted paths of the public arguments (none by default);
    `parts`: whether the images, sounds and files of a result are public. Make one with `allow`, `paths`, `message_only`
    or `drop_all`. Raises InvalidValue."""

    mode: RedactionMode = "message_only"
    fields: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    parts: bool = False
    _tree: _Tree = field(init=False, repr=False, compare=False)
    _arguments: _Tree = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.mode not in get_args(RedactionMode):
            raise InvalidValue("a redaction mode is one of drop_all, message_only, paths, top_level", path="mode")
        if not isinstance(self.fields, list | tuple):
            raise InvalidValue("the public fields are a tuple of names", path="fields")
        object.__setattr__(self, "fields", tuple(self.fields))
        if type(self.parts) is not bool:
            raise InvalidValue("must be True or False", path="parts")
        takes_fields = self.mode in ("paths", "top_level")
        if takes_fields and not self.fields:
            raise InvalidValue(f"redaction '{self.mode}' needs at least one field", path="fields")
        if not takes_fields and self.fields:
            raise InvalidValue(f"redaction '{self.mode}' takes no fields", path="fields")
        tree: _Tree = {}
        for name in self.fields:
            segments = [name] if self.mode == "top_level" else _segments(name)
            if not _are_names(segments) or (self.mode == "top_level" and name == "*"):
                raise InvalidValue("a public field is a name, or dotted names and '*' in mode 'paths'", path="fields")
            _add_path(tree, segments)
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "_arguments", self._argument_tree())

    def _argument_tree(self) -> _Tree:
        if not isinstance(self.arguments, list | tuple):
            raise InvalidValue("the public arguments are a tuple of paths", path="arguments")
        object.__setattr__(self, "arguments", tuple(self.arguments))
        tree: _Tree = {}
        for path in self.arguments:
            segments = _segments(path)
            if not _are_names(segments):
                raise InvalidValue("a public argument is a name, or dotted names and '*'", path="arguments")
            _add_path(tree, segments)
        return tree

    @classmethod
    def allow(cls, *fields: str, arguments: tuple[str, ...] = (), parts: bool = False) -> Redaction:
        """Makes only these top-level fields public (of each item, if the value is a list), and these arguments."""
        return cls("top_level", fields, arguments, parts)

    @classmethod
    def paths(cls, *paths: str, arguments: tuple[str, ...] = (), parts: bool = False) -> Redaction:
        """Makes only these dotted paths public: `user.name`, `hits.path`; `*` is any key, and a list stands for its
        items. And these arguments."""
        return cls("paths", paths, arguments, parts)

    @classmethod
    def message_only(cls, *, arguments: tuple[str, ...] = (), parts: bool = False) -> Redaction:
        """Makes the message public and no field of the value; and these arguments."""
        return cls("message_only", (), arguments, parts)

    @classmethod
    def drop_all(cls, *, arguments: tuple[str, ...] = (), parts: bool = False) -> Redaction:
        """Makes nothing of the result public except that the call was answered; and these arguments."""
        return cls("drop_all", (), arguments, parts)

    @property
    def shows_message(self) -> bool:
        """True if the message is public. If not, a failure that a handler reports shows the table's sentence."""
        return self.mode == "message_only"

    def apply(self, message: str, value: Any) -> Any:
        """Returns the public view of a result, JSON-ready. `value` is JSON-ready and owned by the caller.

        Modes `top_level` and `paths` return the value without all other fields (None if it has no fields),
        `message_only` returns `{"message": ...}`, `drop_all` returns `{}`."""
        match self.mode:
            case "message_only":
                return {"message": message}
            case "drop_all":
                return {}
            case _:
                kept = _keep(value, self._tree)
                return None if kept is _ABSENT else kept

    def public_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the public part of a call's arguments, which are JSON-ready: only what `arguments` names. If it
        exceeds `MAX_PUBLIC_ARGUMENTS`, returns `{OMITTED_ARGUMENTS_KEY: bytes}` instead."""
        if not self.arguments:
            return {}
        shown: dict[str, Any] = _keep(dict(arguments), self._arguments)
        size = len(json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass"))
        return shown if size <= MAX_PUBLIC_ARGUMENTS else {OMITTED_ARGUMENTS_KEY: size}

    def to_json(self) -> dict[str, Any]:
        """Returns the redaction as JSON. `arguments` and `parts` are present only if they make something public: older
        redactions had neither, and their digest must not change."""
        node: dict[str, Any] = {"mode": self.mode, "fields": sorted(self.fields)}
        if self.arguments:
            node["arguments"] = sorted(self.arguments)
        return {**node, "parts": True} if self.parts else node

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Redaction:
        """Inverse of `to_json`. Raises InvalidValue."""
        if set(data) - {"mode", "fields", "arguments", "parts"} or "mode" not in data:
            raise InvalidValue("a redaction has 'mode' and 'fields', and may have 'arguments' and 'parts'")
        fields, arguments = data.get("fields", []), data.get("arguments", [])
        if not isinstance(fields, list | tuple):
            raise InvalidValue("'fields' is a list of names", path="fields")
        if not isinstance(arguments, list | tuple):
            raise InvalidValue("'arguments' is a list of paths", path="arguments")
        return cls(data["mode"], tuple(fields), tuple(arguments), data.get("parts", False))


def _segments(path: object) -> list[str]:
    return path.split(".") if isinstance(path, str) else [""]


def _are_names(segments: list[str]) -> bool:
    return all(isinstance(part, str) and _SEGMENT.fullmatch(part) for part in segments)


def _add_path(tree: _Tree, segments: list[str]) -> None:
    """Adds one path to the tree. A shorter path wins over a longer one, because it already makes everything below it
    public."""
    node = tree
    for segment in segments[:-1]:
        below = node.setdefault(segment, {})
        if below is None:
            return
        node = below
    node[segments[-1]] = None


def _keep(value: Any, tree: _Tree | None) -> Any:
    if tree is None:
        return value
    if isinstance(value, dict):
        kept = {}
        for key, item in value.items():
            branch = tree.get(key, _ABSENT)
            if branch is _ABSENT:
                branch = tree.get("*", _ABSENT)
            if branch is _ABSENT:
                continue
            below = item if branch is None else _keep(item, branch)  # type: ignore[arg-type]  # a sentinel is excluded above
            if below is not _ABSENT:
                kept[key] = below
        return kept
    if isinstance(value, list):
        items = (_keep(item, tree) for item in value)
        return [item for item in items if item is not _ABSENT]
    return _ABSENT
