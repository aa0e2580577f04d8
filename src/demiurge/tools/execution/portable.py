"""Makes a result portable: JSON that every reader reads alike, which RFC 8785 can write.

JSON text can hold what many readers cannot: integers that a double cannot hold, numbers beyond any double, unlimited
nesting. Such a value would reach the model now and be refused later, when somebody stores or signs it. So a result
is made portable while its call can still fail for it.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values.canonical_json import MAX_DEPTH, MAX_INTEGER

__all__ = ["MAX_INTEGER", "copied", "portable"]


def copied(value: Any) -> Any:
    """Returns a copy of a portable value, so that a listener that changes its event does not change the record."""
    if type(value) is dict:
        return {name: copied(item) for name, item in value.items()}
    return [copied(item) for item in value] if type(value) is list else value


def portable(value: Any, depth: int = 0) -> Any:
    """Returns `value`, which is JSON-ready, with integers beyond ±(2^53 - 1) as decimal text. Changes its containers
    in place.

    Raises InvalidValue (`invalid_json`) for NaN, infinities and nesting deeper than `MAX_DEPTH`."""
    kind = type(value)
    if kind is dict or kind is list:
        if depth == MAX_DEPTH:
            raise InvalidValue(f"nested deeper than {MAX_DEPTH} levels", code="invalid_json")
        for key, item in value.items() if kind is dict else enumerate(value):
            if type(item) is not str:
                value[key] = portable(item, depth + 1)
        return value
    if kind is int:
        return value if -MAX_INTEGER <= value <= MAX_INTEGER else str(value)
    if kind is float and not isfinite(value):
        raise InvalidValue("not a finite number", code="invalid_json")
    return value
