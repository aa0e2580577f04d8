"""Finds arguments that strict pydantic accepts although the schema, which is all that the model saw, does not.

In Python true equals 1, a set silently drops duplicates, and a number is accepted for the text of a decimal,
although it lost digits on the way. pydantic accepts digits for a date, and `12:00` for a duration. The arguments are
checked once more for these cases alone. Whether a schema has any of them is computed when the tool is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from demiurge.tools.authoring.schema import DECIMAL

__all__ = ["inexact", "may_be_inexact"]

_Inexact: TypeAlias = tuple[tuple[int | str, ...], str]
"""The location of a value, and the keyword of the schema that it breaks."""

_DECIMAL = re.compile(DECIMAL)
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_FORMATS = {
    "date": re.compile(_DATE),
    "date-time": re.compile(_DATE + r"[Tt ][0-9]{2}:[0-9]{2}.*", re.DOTALL),
    "duration": re.compile(r"[+-]?P.*", re.DOTALL),
    "time": re.compile(r"[0-9]{2}:[0-9]{2}.*", re.DOTALL),
}
"""The form of the text of each format. Whether the text is valid in detail, pydantic has already checked."""


def may_be_inexact(schema: Any) -> bool:
    """Returns whether a compiled schema has anything that pydantic checks too loosely."""
    if not isinstance(schema, Mapping):
        return False
    if schema.get("uniqueItems") or schema.get("pattern") == DECIMAL or schema.get("format") in _FORMATS:
        return True
    if any(isinstance(option, int | float) for option in schema.get("enum", ())):
        return True
    children = (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties"))
    return any(may_be_inexact(child) for child in children)


def inexact(schema: Any, value: Any, location: tuple[int | str, ...] = ()) -> Iterator[_Inexact]:
    """Yields the places where `value`, JSON that pydantic accepted for `schema`, breaks a keyword of it."""
    if not isinstance(schema, Mapping):
        return
    if isinstance(value, int | float) and not any(_equal(value, option) for option in schema.get("enum", (value,))):
        yield location, "enum"
    if schema.get("pattern") == DECIMAL and value is not None:
        if not isinstance(value, str):
            yield location, "type"
        elif not _DECIMAL.fullmatch(value):
            yield location, "pattern"
    form = _FORMATS.get(schema.get("format", ""))
    if form is not None and isinstance(value, str) and not form.fullmatch(value):
        yield location, "format"
    if isinstance(value, dict):
        named = schema.get("properties", {})
        for key, item in value.items():
            yield from inexact(named.get(key, schema.get("additionalProperties")), item, (*location, key))
    elif isinstance(value, list):
        if schema.get("uniqueItems") and len({_identity(item) for item in value}) < len(value):
            yield location, "uniqueItems"
        for index, item in enumerate(value):
            yield from inexact(schema.get("items"), item, (*location, index))


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _identity(item: Any) -> Any:
    """Returns a key that is equal for items that are equal in JSON."""
    return json.dumps(item, sort_keys=True) if isinstance(item, list | dict) else (isinstance(item, bool), item)
