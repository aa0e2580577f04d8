"""Turns what pydantic says of the arguments of a call into faults: the field, and the rule of the tool's schema.

A bound is the schema's, because that is what the model saw; a rule that the schema cannot say (the digits of a
decimal) has the bound that pydantic enforces. Of what a validator raises only a ToolValidationError is repeated, which
is deliberate text; any other exception may hold a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from demiurge.tools.argument_faults import ArgumentFault, field_path, rule_words, unknown_fields
from demiurge.tools.authoring.schema import DECIMAL
from demiurge.tools.errors import ToolValidationError

__all__ = ["fault_of_error", "fault_of_rule"]

_UNKNOWN_FIELD: Final = frozenset(["extra_forbidden", "unexpected_keyword_argument", "unexpected_positional_argument"])
_RULES: Final[Mapping[str, tuple[str, str]]] = {
    "bytes_too_long": ("maxLength", "max_length"),
    "bytes_too_short": ("minLength", "min_length"),
    "enum": ("enum", ""),
    "greater_than": ("exclusiveMinimum", "gt"),
    "greater_than_equal": ("minimum", "ge"),
    "int_from_float": ("type", ""),
    "less_than": ("exclusiveMaximum", "lt"),
    "less_than_equal": ("maximum", "le"),
    "literal_error": ("enum", ""),
    "missing": ("required", ""),
    "missing_argument": ("required", ""),
    "missing_keyword_only_argument": ("required", ""),
    "multiple_of": ("multipleOf", "multiple_of"),
    "none_required": ("type", ""),
    "string_pattern_mismatch": ("pattern", "pattern"),
    "string_too_long": ("maxLength", "max_length"),
    "string_too_short": ("minLength", "min_length"),
    "too_long": ("maxItems", "max_length"),
    "too_short": ("minItems", "min_length"),
}
"""Kinds of pydantic's errors -> the keyword of JSON Schema, and the name of its bound in pydantic's error."""

_TYPES: Final[Mapping[str, str]] = {
    "bool_type": "boolean",
    "dataclass_exact_type": "object",
    "dataclass_type": "object",
    "dict_type": "object",
    "float_type": "number",
    "frozen_set_type": "array",
    "int_from_float": "integer",
    "int_type": "integer",
    "list_type": "array",
    "model_type": "object",
    "none_required": "null",
    "set_type": "array",
    "string_type": "string",
    "tuple_type": "array",
}
"""Kinds of pydantic's errors -> the type that was wanted, if the schema does not say it."""

_OTHER: Final[Mapping[str, str]] = {
    "date_future": "must be in the future",
    "date_past": "must be in the past",
    "datetime_future": "must be in the future",
    "datetime_past": "must be in the past",
    "decimal_max_digits": "must have at most {max_digits} digits",
    "decimal_max_places": "must have at most {decimal_places} digits after the point",
    "decimal_whole_digits": "must have at most {whole_digits} digits before the point",
    "finite_number": "must be a finite number",
    "int_parsing_size": "has too many digits",
    "string_unicode": "must be text that UTF-8 can encode",
    "timezone_aware": "must have a time zone",
    "timezone_naive": "must have no time zone",
    "url_scheme": "must begin with {expected_schemes}",
}
"""Rules that JSON Schema has no keyword for."""


def fault_of_error(schema: Mapping[str, Any], error: Mapping[str, Any]) -> ArgumentFault:
    """Returns the fault in one of pydantic's `errors()`. `schema`: the compiled schema of the arguments."""
    location, kind, context = error["loc"], error["type"], error.get("ctx", {})
    if kind in _UNKNOWN_FIELD:
        path, node = _place(schema, location[:-1])
        return unknown_fields(path, [str(location[-1])], node.get("properties", {}))
    path, node = _place(schema, location)
    raised = context.get("error")
    if isinstance(raised, ToolValidationError):
        return ArgumentFault(path, raised.message)
    if kind in _OTHER:
        return ArgumentFault(path, _OTHER[kind].format_map(context))
    keyword, name = _RULES.get(kind, ("", ""))
    if node.get("type") == "object" and keyword in ("maxItems", "minItems"):
        keyword = keyword.replace("Items", "Properties")
    if not keyword:
        keyword = _keyword_of_text(kind, node)
    rule = node.get(keyword, context.get(name))
    if keyword == "type":
        rule = node.get("type", _TYPES.get(kind))
    return ArgumentFault(path, _words(keyword, rule))


def fault_of_rule(schema: Mapping[str, Any], location: Sequence[int | str], keyword: str) -> ArgumentFault:
    """Returns the fault of a value that breaks a keyword of the compiled schema."""
    path, node = _place(schema, location)
    return ArgumentFault(path, _words(keyword, node.get(keyword)))


def _words(keyword: str, rule: Any) -> str:
    if keyword == "pattern" and rule == DECIMAL:
        return "must be a decimal number in a string, such as 12.50"
    return rule_words(keyword, rule)


def _keyword_of_text(kind: str, node: Mapping[str, Any]) -> str:
    """Returns the keyword that an error about a type or its text is about: `format` and `pattern` say more than the
    type of a date or a decimal does."""
    if "format" in node and kind.startswith(("date", "time", "url", "uuid")):
        return "format"
    if "pattern" in node and kind.startswith("decimal"):
        return "pattern"
    return "type" if kind.endswith("_type") else ""


def _place(schema: Mapping[str, Any], location: Iterable[int | str]) -> tuple[str, Mapping[str, Any]]:
    """Returns the path of a location, with declared names and indexes only, and the schema there."""
    path = ""
    node: Any = schema
    for segment in location:
        node = node if isinstance(node, Mapping) else {}
        properties = node.get("properties", {})
        if isinstance(segment, int):
            path, node = field_path(path, segment), node.get("items")
        elif segment in properties:
            path, node = field_path(path, segment), properties[segment]
        elif "additionalProperties" in node and not properties:
            path, node = f"{path}[*]", node["additionalProperties"]
    return path, node if isinstance(node, Mapping) else {}
