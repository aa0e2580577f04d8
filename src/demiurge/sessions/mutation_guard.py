"""Detects whether a reducer changed its arguments in place, and undoes the change.

Snapshots and open calls share values with the present state, so changing a value in place also changes the past, and
no roll-back can undo it. Frozen classes are trusted. For dataclasses and pydantic models that are not frozen, the
fields are compared, and the items of fields that are lists, dicts or sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from operator import is_
from typing import Any

from pydantic import BaseModel

__all__ = ["MutationGuard"]

_CONTAINERS = (list, dict, set)


class MutationGuard:
    """Remembers the present content of the mutable values among `things`."""

    def __init__(self, values: Sequence[object]) -> None:
        changeable = {kind for kind in set(map(type, values)) if _can_change(kind)}
        watched = [target for target in values if type(target) in changeable] if changeable else []
        self._before = [(target, _attributes(target)) for target in watched]

    def restore(self) -> bool:
        """Restores the values. Returns whether one of them had changed. The items of a container are put back into
        the same container."""
        changed = [(target, before) for target, before in self._before if not _same(before, _attributes(target))]
        for target, before in changed:
            for name, (value, items) in before.items():
                object.__setattr__(target, name, value)
                _fill(value, items)
        return bool(changed)


def _can_change(kind: type[Any]) -> bool:
    if is_dataclass(kind):
        return not kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return issubclass(kind, BaseModel) and not kind.model_config.get("frozen", False)


def _attributes(target: Any) -> dict[str, tuple[Any, Any]]:
    """Returns each field, and a copy of its items if it is a container. Other attributes may be caches and are
    ignored."""
    names: list[str]
    if is_dataclass(target):
        names = [field.name for field in fields(target)]
    else:
        names = [*type(target).model_fields, "__pydantic_extra__"]
    present = {name: getattr(target, name) for name in names if hasattr(target, name)}
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
