"""Did a reducer change in place what it was given? Then the values are put back as they were.

Snapshots and open calls share values with the present state, so a value that changes changes the past, and no
roll-back can bring it back. Frozen classes are trusted; of dataclasses and pydantic models that are not frozen the
fields are compared, and the items of those that are lists, dicts or sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from operator import is_
from typing import Any

from pydantic import BaseModel

__all__ = ["Watch"]

_CONTAINERS = (list, dict, set)


class Watch:
    """What the changeable ones among `things` look like now."""

    def __init__(self, things: Sequence[object]) -> None:
        changeable = {kind for kind in set(map(type, things)) if _can_change(kind)}
        watched = [thing for thing in things if type(thing) in changeable] if changeable else []
        self._before = [(thing, _attributes(thing)) for thing in watched]

    def put_back(self) -> bool:
        """Makes them as they were; True if one of them was not. What a container held is put back into it."""
        changed = [(thing, before) for thing, before in self._before if not _same(before, _attributes(thing))]
        for thing, before in changed:
            for name, (value, items) in before.items():
                object.__setattr__(thing, name, value)
                _fill(value, items)
        return bool(changed)


def _can_change(kind: type[Any]) -> bool:
    if is_dataclass(kind):
        return not kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return issubclass(kind, BaseModel) and not kind.model_config.get("frozen", False)


def _attributes(thing: Any) -> dict[str, tuple[Any, Any]]:
    """Each field, and a copy of its items if it is a container. What else is there may be a cache."""
    names: list[str]
    if is_dataclass(thing):
        names = [field.name for field in fields(thing)]
    else:
        names = [*type(thing).model_fields, "__pydantic_extra__"]
    present = {name: getattr(thing, name) for name in names if hasattr(thing, name)}
    return {name: (value, _items(value)) for name, value in present.items()}


def _items(value: Any) -> Any:
    return value.copy() if type(value) in _CONTAINERS else None


def _same(before: dict[str, tuple[Any, Any]], after: dict[str, tuple[Any, Any]]) -> bool:
    return before.keys() == after.keys() and all(
        before[name][0] is after[name][0] and _same_items(before[name][1], after[name][1]) for name in before
    )


def _same_items(before: Any, after: Any) -> bool:
    if before is None or after is None:
        return before is after
    return len(before) == len(after) and all(map(is_, _flat(before), _flat(after)))


def _flat(items: Any) -> Iterator[Any]:
    for item in items:
        yield item
        if type(items) is dict:
            yield items[item]


def _fill(container: Any, items: Any) -> None:
    if items is None:
        return
    container.clear()
    if type(container) is list:
        container.extend(items)
    else:
        container.update(items)
