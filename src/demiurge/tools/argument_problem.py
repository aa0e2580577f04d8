"""Checks the arguments of a call that a person changed, without the tool's code: says which argument does not fit the
schema of the tool, and what the schema wants there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from demiurge.tools.argument_check import may_fit
from demiurge.tools.argument_faults import ArgumentFault, field_path, phrase_of, rule_words, unknown_fields

__all__ = ["argument_problem"]

_KEYWORDS: Final = (
    *("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"),
    *("maxItems", "maxLength", "minItems", "minLength"),
)


def argument_problem(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Returns the first thing in `arguments` that breaks `schema`, such as `address.street: must be a string`; "" if
    `may_fit` finds nothing. An unknown field is named, because the person who wrote it reads the text."""
    return "" if may_fit(schema, arguments) else phrase_of(_fault(schema, schema, arguments, ""), names=True)


def _fault(root: Mapping[str, Any], schema: Any, value: Any, path: str) -> ArgumentFault:
    if not isinstance(schema, Mapping):
        return ArgumentFault(path, "is not allowed")
    schema = _resolved(root, schema)
    options = [option for option in schema.get("anyOf", []) if _fits_type(root, option, value)]
    if len(options) == 1 and not _fits(root, options[0], value):
        return _fault(root, options[0], value, path)
    if isinstance(value, Mapping):
        required = schema.get("required", ())
        for name in required:
            if name not in value:
                return ArgumentFault(field_path(path, name), rule_words("required"))
        named, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        is_closed = others is False and "patternProperties" not in schema
        unknown = [name for name in value if name not in named and value[name] is not None]
        if is_closed and unknown:
            return unknown_fields(path, unknown, named)
        for name, part in value.items():
            wanted = named.get(name, others)
            if (part is not None or name in required) and not _fits(root, wanted, part):
                return _fault(root, wanted, part, field_path(path, name))
    if isinstance(value, list):
        for index, part in enumerate(value):
            if not _fits(root, schema.get("items", True), part):
                return _fault(root, schema["items"], part, field_path(path, index))
    return ArgumentFault(path, _wanted(root, schema, value))


def _wanted(root: Mapping[str, Any], schema: Any, value: Any) -> str:
    """Returns what the first keyword that `value` breaks wants of it."""
    if not isinstance(schema, Mapping):
        return "is not allowed"
    schema = _resolved(root, schema)
    options = schema.get("anyOf", [])
    if options and not any(_fits(root, option, value) for option in options):
        first, *others = dict.fromkeys(_wanted(root, option, value) for option in options)
        return " or ".join([first, *(words.removeprefix("must be ") for words in others)])
    if not _fits_type(root, schema, value):
        return rule_words("type", schema["type"])
    listed = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if listed and not _fits(root, {"enum": listed}, value):
        return rule_words("enum", listed)
    broken = (name for name in _KEYWORDS if name in schema and not _fits(root, {name: schema[name]}, value))
    return next((rule_words(name, schema[name]) for name in broken), "is not valid")


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
