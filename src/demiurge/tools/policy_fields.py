"""Reads the fields of a tool policy: closed objects, and lists of names, tool ids or effects. Each error names its
place.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, Final, Literal

from demiurge.errors import InvalidValue
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ids import UNNAMED, canonical_id
from demiurge.values.frozen_json import frozen

__all__ = ["WHEN_TAINTED", "WhenTainted", "closed", "effects", "ids", "names", "people", "when_tainted"]

WhenTainted = Mapping[Any, Literal["ask", "deny"]]
"""The answer to a call of a tainted run that would be allowed, by the effect level of its tool (or its text)."""

WHEN_TAINTED: Final[WhenTainted] = frozen({ToolEffect.EXTERNAL_SIDE_EFFECT: "ask"})
"""The default."""

_EFFECTS = frozenset(effect.value for effect in ToolEffect)


def closed(data: object, known: Set[str], path: str) -> dict[str, Any]:
    """Returns the object's fields. Raises InvalidValue for a key that is not `known`."""
    if not isinstance(data, Mapping):
        raise InvalidValue("must be an object", path=path)
    unknown = sorted(str(key) for key in data if key not in known)
    if unknown:
        raise InvalidValue(f"unknown key {unknown[0]!r}; known: {', '.join(sorted(known))}", path=path)
    return dict(data)


def names(value: object, path: str) -> tuple[str, ...]:
    """Returns a list of text as a tuple; a set is sorted. Raises InvalidValue."""
    if isinstance(value, str | bytes) or not isinstance(value, list | tuple | set | frozenset):
        raise InvalidValue("must be a list", path=path)
    if not all(isinstance(item, str) for item in value):
        raise InvalidValue("must hold only names", path=path)
    return tuple(sorted(value) if isinstance(value, set | frozenset) else value)


def ids(value: object, path: str) -> tuple[str, ...]:
    """Returns tool ids in their canonical form. Raises InvalidValue."""
    found = tuple(canonical_id(item) for item in names(value, path))
    if UNNAMED in found:
        raise InvalidValue("a tool id is 1 to 64 letters, digits, '_' or '-'", path=path)
    return found


def effects(value: object, path: str) -> tuple[ToolEffect, ...]:
    """Returns effect levels. Raises InvalidValue."""
    found = names(value, path)
    if not _EFFECTS.issuperset(found):
        raise InvalidValue(f"an effect is one of {', '.join(sorted(_EFFECTS))}", path=path)
    return tuple(ToolEffect(effect) for effect in found)


def when_tainted(value: object, path: str) -> WhenTainted:
    """Returns the answers by effect level, read-only and in the order of the levels. Raises InvalidValue."""
    given = closed(value, _EFFECTS, path)
    for effect, answer in given.items():
        if answer not in ("ask", "deny"):
            raise InvalidValue(
                "must be ask or deny; leave the level out to let such calls run", path=f"{path}.{effect}"
            )
    answers: WhenTainted = frozen({effect: given[effect] for effect in ToolEffect if effect in given})
    return answers


def people(value: object, path: str) -> tuple[str, ...]:
    """Returns names of roles, tenants or actors: printable, not empty, and without blanks around them. Raises
    InvalidValue."""
    found = names(value, path)
    for name in found:
        if not name or name != name.strip() or not name.isprintable():
            raise InvalidValue(
                f"{name!r} cannot be a caller's name; it must be printable, not empty, and without blanks around it",
                path=path,
            )
    return found
