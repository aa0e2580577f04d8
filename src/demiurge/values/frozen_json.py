"""Read-only JSON: subclasses of `dict` and `list` that refuse every change, at every level.

Invariant: the value that `frozen` returns never changes. So it can be shared without a copy, and a hash of it stays
true. `json.dumps`, `==` and `isinstance` treat it as the plain value; `copy.deepcopy` returns a plain one that can be
changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from demiurge.errors import InvalidValue

__all__ = ["frozen", "thawed"]


def _refuse(self: object, *args: object, **named: object) -> NoReturn:
    raise TypeError("this is read-only; copy.deepcopy gives one that can be changed")


class _FrozenDict(dict[str, Any]):
    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: object) -> dict[str, Any]:
        plain: dict[str, Any] = thawed(self)
        return plain

    def __reduce__(self) -> tuple[Any, ...]:
        return frozen, (thawed(self),)


class _FrozenList(list[Any]):
    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __deepcopy__(self, memo: object) -> list[Any]:
        plain: list[Any] = thawed(self)
        return plain

    def __reduce__(self) -> tuple[Any, ...]:
        return frozen, (thawed(self),)


def frozen(value: Any) -> Any:
    """Returns a read-only copy of JSON, or `value` itself if it is read-only already. A tuple becomes an array.

    Raises InvalidValue (`invalid_json`) for a value that is nested too deep or contains itself.
    """
    try:
        return _frozen(value)
    except RecursionError:
        raise InvalidValue("nested too deep", code="invalid_json") from None


def thawed(value: Any) -> Any:
    """Returns a copy in plain dicts and lists."""
    if isinstance(value, dict):
        return {name: thawed(item) for name, item in value.items()}
    return [thawed(item) for item in value] if isinstance(value, list) else value


def _frozen(value: Any) -> Any:
    kind = type(value)
    if kind in _NEVER_CHANGES:
        return value
    if kind is dict or isinstance(value, Mapping):
        return _FrozenDict({name: _frozen(item) for name, item in value.items()})
    return _FrozenList([_frozen(item) for item in value]) if isinstance(value, list | tuple) else value


_NEVER_CHANGES = frozenset([str, int, float, bool, type(None), _FrozenDict, _FrozenList])
