"""Says which argument of a call does not fit the schema of its tool, and what the schema wants there.

The text names arguments and repeats parts of the schema, never a value that was sent: a value may be a secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from demiurge.tools.argument_check import may_fit

__all__ = ["argument_problem"]

TYPES: Final[Mapping[str, str]] = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a text",
}

BOUNDS: Final[Mapping[str, str]] = {
    "exclusiveMaximum": "less than {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "maxItems": "a list of at most {} values",
    "maxLength": "a text of at most {} characters",
    "minimum": "at least {}",
    "minItems": "a list of at least {} values",
    "minLength": "a text of at least {} characters",
}
"""The demand that each keyword of a schema makes on a value, in words."""


def argument_problem(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Returns the first thing in `arguments` that breaks `schema`, such as `address.street must be a text`; "" if
    `may_fit` finds nothing."""
    return "" if may_fit(schema, arguments) else _problem(schema, schema, arguments, "")


def _problem(root: Mapping[str, Any], schema: Any, value: Any, path: str) -> str:
    if not isinstance(schema, Mapping):
        return f"{path} is not in the schema"
    schema = _resolved(root, schema)
    options = [option for option in schema.get("anyOf", []) if _fits_type(root, option, value)]
    if len(options) == 1 and not _fits(root, options[0], value):
        return _problem(root, options[0], value, path)
    if isinstance(value, Mapping):
        required = schema.get("required", ())
        for name in required:
            if name not in value:
                return f"{_join(path, name)} is missing"
        named, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, part in value.items():
            wanted = named.get(name, others)
            if (part is not None or name in required) and not _fits(root, wanted, part):
                return _problem(root, wanted, part, _join(path, name))
    if isinstance(value, list):
        for index, part in enumerate(value):
            if not _fits(root, schema.get("items", True), part):
                return _problem(root, schema["items"], part, f"{path}[{index}]")
    return f"{path or 'the whole'} must be {_wanted(root, schema, value)}"


def _wanted(root: Mapping[str, Any], schema: Any, value: Any) -> str:
    """Returns what the first keyword that `value` breaks wants of it."""
    if not isinstance(schema, Mapping):
        return "as its schema says"
    schema = _resolved(root, schema)
    options = schema.get("anyOf", [])
    if options and not any(_fits(root, option, value) for option in options):
        return " or ".join(dict.fromkeys(_wanted(root, option, value) for option in options))
    types = schema.get("type", [])
    if not _fits_type(root, schema, value):
        return " or ".join(TYPES[name] for name in ([types] if isinstance(types, str) else types))
    listed = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if listed and not _fits(root, {"enum": listed}, value):
        return "one of " + ", ".join(json.dumps(option, ensure_ascii=False) for option in listed)
    broken = (name for name in BOUNDS if name in schema and not _fits(root, {name: schema[name]}, value))
    return next((BOUNDS[name].format(schema[name]) for name in broken), "as its schema says")


def _fits(root: Mapping[str, Any], schema: Any, value: Any) -> bool:
    kept = {name: root[name] for name in ("$defs", "definitions") if name in root}
    return may_fit({**kept, "properties": {"value": schema}, "required": ["value"]}, {"value": value})


def _fits_type(root: Mapping[str, Any], schema: Any, value: Any) -> bool:
    """Returns whether `value` is of the type that `schema` names, if it names one."""
    types = _resolved(root, schema).get("type") if isinstance(schema, Mapping) else None
    return types is None or _fits(root, {"type": types}, value)


def _resolved(root: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the definition that `schema` refers to, if it does so by `#/$defs/NAME`, and `schema` otherwise."""
    start, _, name = str(schema.get("$ref", "")).rpartition("/")
    found = root.get(start.removeprefix("#/"), {}).get(name) if start in ("#/$defs", "#/definitions") else None
    return _resolved(root, found) if isinstance(found, Mapping) else schema


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
