"""Checks the arguments of a call against the schema that its tool showed the model, without the tool's own code.

A world's chat makes this check before it accepts a call, and the result is part of the chat's history. So the result
depends on the schema and the arguments alone, not on the version of a library, and **the result for a given pair
must never change**. The check covers types, required, unknown and listed values, and bounds of numbers and lengths.
Everything else in a schema is left to the runner, which checks each call again with the tool's own types. This check
is never stricter than the runner, which also accepts null for an optional field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["may_fit"]

MAX_STEPS = 20_000
"""The maximum number of values that are checked; the rest is left to the runner."""


def may_fit(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """Returns False if `arguments`, parsed JSON, break `schema`; True if they fit it, or if this check cannot tell."""
    try:
        return _Check(schema).fits(schema, arguments)
    except (_Undecidable, RecursionError):
        return True


class _Undecidable(Exception):
    """The schema uses a keyword that this check does not support, or has too many values to check."""


class _Check:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._steps = 0

    def fits(self, schema: Any, value: Any) -> bool:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _Undecidable
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping) or "$id" in schema or "$dynamicRef" in schema:
            raise _Undecidable
        if "$ref" in schema:
            return self.fits(self._at(schema["$ref"]), value)
        if not _is_of_type(schema.get("type"), value) or not _is_listed(schema, value):
            return False
        options = schema.get("anyOf")
        if isinstance(options, list) and not any(self.fits(option, value) for option in options):
            return False
        if isinstance(value, Mapping):
            return self._object(schema, value)
        if isinstance(value, list):
            return _has_length(schema, value, "minItems", "maxItems") and self._items(schema, value)
        if isinstance(value, str):
            return _has_length(schema, value, "minLength", "maxLength")
        return isinstance(value, bool) or value is None or _is_in_range(schema, value)

    def _object(self, schema: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
        named = schema.get("properties", {})
        required = schema.get("required", ())
        if not isinstance(named, Mapping) or not isinstance(required, list | tuple):
            raise _Undecidable
        if any(name not in value for name in required):
            return False
        others = schema.get("additionalProperties", True)
        if "patternProperties" in schema:
            others = True
        sent = [(name, part) for name, part in value.items() if part is not None or name in required]
        return all(self.fits(named.get(name, others), part) for name, part in sent)

    def _items(self, schema: Mapping[str, Any], value: list[Any]) -> bool:
        items = schema.get("items", True)
        if isinstance(items, list) or "prefixItems" in schema:
            raise _Undecidable
        return items is True or all(self.fits(items, part) for part in value)

    def _at(self, ref: Any) -> Any:
        if not isinstance(ref, str) or not ref.startswith("#/") or "%" in ref:
            raise _Undecidable
        found: Any = self._root
        for step in ref[2:].split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or name not in found:
                raise _Undecidable
            found = found[name]
            if isinstance(found, Mapping) and "$id" in found:
                raise _Undecidable
        return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: _is_number(value) and value == value // 1,
    "null": lambda value: value is None,
    "number": _is_number,
    "object": lambda value: isinstance(value, Mapping),
    "string": lambda value: isinstance(value, str),
}


def _is_of_type(wanted: Any, value: Any) -> bool:
    if wanted is None:
        return True
    names = wanted if isinstance(wanted, list) else [wanted]
    if not all(isinstance(name, str) and name in _TYPES for name in names):
        raise _Undecidable
    return any(_TYPES[name](value) for name in names)


def _is_listed(schema: Mapping[str, Any], value: Any) -> bool:
    """Returns whether `value` is one of the values of `enum` or `const`. Lists and objects among those are left to
    the runner."""
    listed = schema.get("enum", ())
    if "const" in schema:
        listed = [schema["const"]]
    elif not isinstance(listed, list) or not listed:
        return True
    return any(isinstance(option, list | Mapping) or _is_same(option, value) for option in listed)


def _is_same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _has_length(schema: Mapping[str, Any], value: str | list[Any], least: str, most: str) -> bool:
    low, high = schema.get(least, 0), schema.get(most, len(value))
    return not (_is_number(low) and len(value) < low) and not (_is_number(high) and len(value) > high)


def _is_in_range(schema: Mapping[str, Any], value: float) -> bool:
    for name, breaks in _BOUNDS.items():
        bound = schema.get(name)
        if _is_number(bound) and breaks(value, bound):
            return False
    return True


_BOUNDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "exclusiveMaximum": lambda value, bound: value >= bound,
    "exclusiveMinimum": lambda value, bound: value <= bound,
    "maximum": lambda value, bound: value > bound,
    "minimum": lambda value, bound: value < bound,
}
