"""A result as JSON that every reader reads alike: what RFC 8785 can write.

JSON text has room for more than its readers: integers that a double can't hold, numbers beyond any double,
nesting without end. Such a value would be told to the model today and refused tomorrow, by whoever stores or
signs it. So a result is made portable while its call can still say so.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values.canonical_json import MAX_DEPTH, MAX_INTEGER

__all__ = ["MAX_INTEGER", "copied", "portable"]


def copied(value: Any) -> Any:
    """A copy of a portable value, so that nothing that a listener does to its event is in the record."""
    if type(value) is dict:
        return {name: copied(item) for name, item in value.items()}
    return [copied(item) for item in value] if type(value) is list else value


def portable(value: Any, depth: int = 0) -> Any:
    """`value`, which is JSON-ready, with integers beyond ±(2^53 - 1) as decimal text, in its containers.

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
