"""The typed edge of a tool: JSON text in, a value of the declared type; a value out, JSON.

Both directions are strict: no `"5"` for 5, no unknown fields, no value that its own type would not accept
back. What a failure may say is decided here too: the path of a *declared* field and a fixed phrase, never a
value, a key that the model made up, or an exception's text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError

from demiurge.errors import InvalidValue
from demiurge.tools.errors import ToolValidationError

__all__ = ["ParamsCodec", "ResultCodec"]

_MOST_FIELDS = 8
_PHRASES: Mapping[str, str] = {
    "missing": "is required",
    "missing_argument": "is required",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "tuple_type": "must be an array",
    "set_type": "must be an array",
    "frozen_set_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "dataclass_type": "must be an object",
    "dataclass_exact_type": "must be an object",
    "enum": "must be one of the listed values",
    "literal_error": "must be one of the listed values",
    "string_too_short": "is too short",
    "string_too_long": "is too long",
    "string_pattern_mismatch": "does not match its pattern",
    "too_short": "has too few items",
    "too_long": "has too many items",
    "greater_than": "is out of range",
    "greater_than_equal": "is out of range",
    "less_than": "is out of range",
    "less_than_equal": "is out of range",
}
_UNKNOWN_FIELD = frozenset(["extra_forbidden", "unexpected_keyword_argument", "unexpected_positional_argument"])


class ParamsCodec:
    """Parses a tool's arguments. `schema` is the compiled input schema: it says which names may be told.

    Raises InvalidValue when pydantic can't handle the type."""

    def __init__(self, params_type: Any, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._empty = params_type is None or params_type is type(None)
        self._validate = _adapter(dict[str, Any] if self._empty else params_type).validator.validate_json

    def parse(self, text: str | bytes) -> Any:
        """The arguments as a value of the declared type; None for a tool without parameters.

        `text` is one JSON object already parsed strictly. Raises ToolValidationError with safe `fields`."""
        try:
            value = self._validate(text, strict=True, extra="forbid")
        except ValidationError as error:
            raise ToolValidationError("arguments break their type", fields=self._phrases(error)) from error
        if self._empty:
            if value:
                raise ToolValidationError("arguments given", fields=("the tool takes no arguments",))
            return None
        return value

    def _phrases(self, error: ValidationError) -> tuple[str, ...]:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        phrases = dict.fromkeys(_phrase(self._schema, entry["loc"], entry["type"]) for entry in details)
        listed = tuple(phrases)[:_MOST_FIELDS]
        return listed if len(phrases) <= _MOST_FIELDS else (*listed, "and more")


class ResultCodec:
    """Checks a tool's result and turns it into JSON. Raises InvalidValue when pydantic can't handle the
    type."""

    def __init__(self, result_type: Any) -> None:
        adapter = _adapter(type(None) if result_type is None else result_type)
        self._dump: Callable[..., bytes] = adapter.serializer.to_json
        self._validate = adapter.validator.validate_json

    def dump(self, value: Any) -> bytes:
        """The value as JSON bytes that its own type accepts back. Raises ToolValidationError."""
        try:
            encoded = self._dump(value, warnings="error", by_alias=True)
            self._validate(encoded, strict=True)
        except (PydanticSerializationError, ValidationError, ValueError, TypeError, RecursionError) as error:
            raise ToolValidationError("the result breaks its declared type") from error
        return encoded

    def load(self, encoded: bytes) -> Any:
        """A value of the declared type from what `dump` made. Raises ToolValidationError."""
        try:
            return self._validate(encoded, strict=True)
        except ValidationError as error:
            raise ToolValidationError("the stored result breaks its declared type") from error


def _adapter(kind: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(kind)
    except (PydanticSchemaGenerationError, PydanticUserError, NameError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidValue(f"{kind!r} can't be checked: {reason}") from error


def _phrase(schema: Mapping[str, Any], location: Sequence[int | str], kind: str) -> str:
    """`items[2].n must be an integer`: declared names and indexes only."""
    unknown = kind in _UNKNOWN_FIELD
    place = _path(schema, location[:-1] if unknown else location)
    if unknown:
        return f"{place} has an unknown field" if place else "there is an unknown field"
    phrase = _PHRASES.get(kind, "is not valid")
    return f"{place} {phrase}" if place else f"the object {phrase}"


def _path(schema: Mapping[str, Any], location: Sequence[int | str]) -> str:
    path = ""
    node: Any = schema
    for segment in location:
        properties = node.get("properties", {}) if isinstance(node, Mapping) else {}
        if isinstance(segment, int):
            path += f"[{segment}]"
            node = node.get("items", {}) if isinstance(node, Mapping) else {}
        elif segment in properties:
            path += f".{segment}" if path else segment
            node = properties[segment]
        elif isinstance(node, Mapping) and "additionalProperties" in node and not properties:
            path += "[*]"
            node = node["additionalProperties"]
    return path
