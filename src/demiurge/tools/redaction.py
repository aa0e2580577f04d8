"""Which part of a result, and of a call's arguments, is public. An allowlist: what it does not name is
stripped.

Redaction is data, applied by the runner and by nothing else, so no tool can forget it. It decides what UI,
CLI, events, telemetry and logs may see; the model's own text is another thing (architecture, section 4).
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
"""Of a call's public arguments, in bytes of compact JSON in UTF-8."""

OMITTED_ARGUMENTS_KEY = "omitted_arguments_bytes"
"""The one key of what is shown in the place of longer ones; its value is how many bytes those have."""

RedactionMode = Literal["drop_all", "message_only", "paths", "top_level"]

_Tree: TypeAlias = dict[str, "_Tree | None"]
_SEGMENT = re.compile(r"[^.\s]+")
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Redaction:
    """`mode` is `top_level`, `paths`, `message_only` or `drop_all`; `fields` are what it lets through of a result,
    `arguments` the dotted paths that it lets through of a call's arguments (none, unless they are named). Make one with
    `allow`, `paths`, `message_only` or `drop_all`. Raises InvalidValue."""

    mode: RedactionMode = "message_only"
    fields: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    _tree: _Tree = field(init=False, repr=False, compare=False)
    _arguments: _Tree = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.mode not in get_args(RedactionMode):
            raise InvalidValue("a redaction mode is one of drop_all, message_only, paths, top_level", path="mode")
        if not isinstance(self.fields, list | tuple):
            raise InvalidValue("the public fields are a tuple of names", path="fields")
        object.__setattr__(self, "fields", tuple(self.fields))
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
            _grow(tree, segments)
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
            _grow(tree, segments)
        return tree

    @classmethod
    def allow(cls, *fields: str, arguments: tuple[str, ...] = ()) -> Redaction:
        """Only these top-level fields are public (of each item, when the value is a list), and these arguments."""
        return cls("top_level", fields, arguments)

    @classmethod
    def paths(cls, *paths: str, arguments: tuple[str, ...] = ()) -> Redaction:
        """Only these dotted paths are public: `user.name`, `hits.path`; `*` is any key. Lists are walked
        through. And these arguments."""
        return cls("paths", paths, arguments)

    @classmethod
    def message_only(cls, *, arguments: tuple[str, ...] = ()) -> Redaction:
        """The message is public, no field of the value is; and these arguments."""
        return cls("message_only", (), arguments)

    @classmethod
    def drop_all(cls, *, arguments: tuple[str, ...] = ()) -> Redaction:
        """Nothing of the result is public but that the call was answered; and these arguments."""
        return cls("drop_all", (), arguments)

    @property
    def shows_message(self) -> bool:
        """Is the message public? If not, a failure that a handler reports says the table's sentence."""
        return self.mode == "message_only"

    def apply(self, message: str, value: Any) -> Any:
        """The public view of a result, JSON-ready. `value` is JSON-ready and owned by the caller.

        Modes `top_level` and `paths` give the value with every other field stripped (None when it has no fields),
        `message_only` gives `{"message": ...}`, `drop_all` gives `{}`."""
        match self.mode:
            case "message_only":
                return {"message": message}
            case "drop_all":
                return {}
            case _:
                kept = _keep(value, self._tree)
                return None if kept is _ABSENT else kept

    def public_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The public part of a call's arguments, which are JSON-ready: only what `arguments` names. More than
        `MAX_PUBLIC_ARGUMENTS` gives way to `{OMITTED_ARGUMENTS_KEY: bytes}`; nothing is cut inside."""
        if not self.arguments:
            return {}
        shown: dict[str, Any] = _keep(dict(arguments), self._arguments)
        size = len(json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass"))
        return shown if size <= MAX_PUBLIC_ARGUMENTS else {OMITTED_ARGUMENTS_KEY: size}

    def to_json(self) -> dict[str, Any]:
        """`arguments` only where there are some, so that a redaction without them has the digest that it always had."""
        node: dict[str, Any] = {"mode": self.mode, "fields": sorted(self.fields)}
        return {**node, "arguments": sorted(self.arguments)} if self.arguments else node

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Redaction:
        """Inverse of `to_json`. Raises InvalidValue."""
        if set(data) - {"mode", "fields", "arguments"} or "mode" not in data:
            raise InvalidValue("a redaction has 'mode' and 'fields', and may have 'arguments'")
        fields, arguments = data.get("fields", []), data.get("arguments", [])
        if not isinstance(fields, list | tuple):
            raise InvalidValue("'fields' is a list of names", path="fields")
        if not isinstance(arguments, list | tuple):
            raise InvalidValue("'arguments' is a list of paths", path="arguments")
        return cls(data["mode"], tuple(fields), tuple(arguments))


def _segments(path: object) -> list[str]:
    return path.split(".") if isinstance(path, str) else [""]


def _are_names(segments: list[str]) -> bool:
    return all(isinstance(part, str) and _SEGMENT.fullmatch(part) for part in segments)


def _grow(tree: _Tree, segments: list[str]) -> None:
    """Adds one path. A shorter path wins over a longer one: it already lets everything below through."""
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
