"""Which part of a result is public (seed 003 #4). An allowlist: what it does not name is stripped.

Redaction is data, applied by the runner and by nothing else, so no tool can forget it. It decides what UI,
CLI, events, telemetry and logs may see; the model's own text is another thing (architecture, section 4).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from demiurge.errors import InvalidValue

__all__ = ["Redaction", "RedactionMode"]

RedactionMode = Literal["drop_all", "message_only", "paths", "top_level"]

_Tree: TypeAlias = dict[str, "_Tree | None"]
_SEGMENT = re.compile(r"[^.\s]+")
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Redaction:
    """`mode` is `top_level`, `paths`, `message_only` or `drop_all`; `fields` are what it lets through. Make one
    with `allow`, `paths`, `message_only` or `drop_all`. Raises InvalidValue."""

    mode: RedactionMode = "message_only"
    fields: tuple[str, ...] = ()
    _tree: _Tree = field(init=False, repr=False, compare=False)

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
            segments = [name] if self.mode == "top_level" else name.split(".") if isinstance(name, str) else [""]
            odd = not all(isinstance(part, str) and _SEGMENT.fullmatch(part) for part in segments)
            if odd or (self.mode == "top_level" and name == "*"):
                raise InvalidValue("a public field is a name, or dotted names and '*' in mode 'paths'", path="fields")
            _grow(tree, segments)
        object.__setattr__(self, "_tree", tree)

    @classmethod
    def allow(cls, *fields: str) -> Redaction:
        """Only these top-level fields are public (of each item, when the value is a list)."""
        return cls("top_level", fields)

    @classmethod
    def paths(cls, *paths: str) -> Redaction:
        """Only these dotted paths are public: `user.name`, `hits.path`; `*` is any key. Lists are walked
        through."""
        return cls("paths", paths)

    @classmethod
    def message_only(cls) -> Redaction:
        """The message is public, no field of the value is."""
        return cls("message_only")

    @classmethod
    def drop_all(cls) -> Redaction:
        """Nothing is public but that the call was answered."""
        return cls("drop_all")

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

    def to_json(self) -> dict[str, Any]:
        return {"mode": self.mode, "fields": sorted(self.fields)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Redaction:
        """Inverse of `to_json`. Raises InvalidValue."""
        if set(data) - {"mode", "fields"} or "mode" not in data:
            raise InvalidValue("a redaction has 'mode' and 'fields'")
        fields = data.get("fields", [])
        if not isinstance(fields, list | tuple):
            raise InvalidValue("'fields' is a list of names", path="fields")
        return cls(data["mode"], tuple(fields))


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
