"""Validates arguments against a foreign JSON Schema without risk to the process.

The schema's size is limited when it is accepted, and the work of every check is bounded before it begins
(`schema_graph`): no `$ref` is fetched, patterns run on an engine whose time is linear in the text, and formats are
annotations unless `check_formats` is set. A failure says what `params` says for an authored tool: declared names and
indexes, never a value or a key that the model invented.

A pattern that the linear engine does not support (lookaround, a backreference, a program over 64 KiB) is not checked
here; the author of the schema checks it. If leaving the pattern out would refuse what the schema accepts, the schema
is refused instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from demiurge.errors import InvalidValue, Unavailable
from demiurge.tools.authoring.hidden_text import hidden_in, without_hidden
from demiurge.tools.errors import ToolValidationError
from demiurge.tools.foreign.schema_graph import SchemaGraph, as_uri, json_depth, json_size
from demiurge.values import canonical_json

if TYPE_CHECKING:
    from jsonschema_rs import RegexOptions, ValidationError, Validator

__all__ = ["MAX_SCHEMA_BYTES", "MAX_SCHEMA_DEPTH", "MAX_SCHEMA_VALUES", "ForeignSchema"]

MAX_SCHEMA_BYTES = 131_072
"""The maximum size of a schema, in UTF-8 bytes of compact JSON."""
MAX_SCHEMA_DEPTH = 64
MAX_SCHEMA_VALUES = 10_000
"""The maximum number of JSON values in a schema."""
_MAX_PATTERNS = 256

_MAX_STEPS = 1_000_000
"""The maximum work for one value, in the steps of `SchemaGraph`."""
_MAX_EXPLAINED = 4_000
"""The maximum work for a value whose faults are listed, which costs a thousand times as much."""
_PATTERN_BYTES = 65_536
_MAX_FIELDS = 8
_MAX_NAME = 64

_PHRASES: Mapping[str, str] = {
    "additionalItems": "has too many items",
    "additionalProperties": "has an unknown field",
    "const": "must be one of the listed values",
    "contains": "lacks an item that has to be there",
    "enum": "must be one of the listed values",
    "exclusiveMaximum": "is out of range",
    "exclusiveMinimum": "is out of range",
    "falseSchema": "is not allowed",
    "format": "does not have its format",
    "maxItems": "has too many items",
    "maxLength": "is too long",
    "maxProperties": "has too many fields",
    "maximum": "is out of range",
    "minItems": "has too few items",
    "minLength": "is too short",
    "minProperties": "has too few fields",
    "minimum": "is out of range",
    "multipleOf": "is not a multiple of its step",
    "not": "is not allowed",
    "pattern": "does not match its pattern",
    "propertyNames": "has a field of a wrong name",
    "unevaluatedItems": "has too many items",
    "unevaluatedProperties": "has an unknown field",
    "uniqueItems": "has the same item twice",
}
_TYPES: Mapping[str, str] = {
    "array": "an array",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


class ForeignSchema:
    """A schema and its validator. `verbatim`: a copy of the schema as it was given. The draft is the one that
    `$schema` names; without it 2020-12, or the newest of 2020-12, 7 and 4 in which the schema is valid.

    `check_formats`: whether `format` is a rule. Raises InvalidValue for data that is not a schema, is not of type
    object at the top, is too large, or has hidden characters; Unavailable without the extra `foreign`."""

    def __init__(self, schema: Mapping[str, Any], *, check_formats: bool = False) -> None:
        text = _checked_text(schema)
        self.verbatim: dict[str, Any] = json.loads(text)
        if self.verbatim.get("type") != "object":
            raise InvalidValue("the top of the schema must have type 'object'")
        checked: dict[str, Any] = json.loads(text)
        self._graph = SchemaGraph(checked)
        self._names = self._graph.names()
        self._validator = _compile(checked, self._graph, check_formats)

    def check(self, value: Any, size: int) -> None:
        """Checks `value`, which is JSON with a text of length `size`. Raises ToolValidationError with safe `fields`."""
        unfolded = self._graph.unfolded
        known_small = unfolded is not None and unfolded * size <= _MAX_STEPS
        if not known_small and self._graph.steps(value, _MAX_STEPS) > _MAX_STEPS:
            raise ToolValidationError("too much work", fields=("the object is too large to be checked",))
        if self._validator.is_valid(value):
            return
        if self._graph.steps(value, _MAX_EXPLAINED, matching=False) > _MAX_EXPLAINED:
            fields: tuple[str, ...] = ("the object is not valid, and too large to say where",)
        else:
            found = dict.fromkeys(self._phrases(self._validator.iter_errors(value), value))
            fields = tuple(islice(found, _MAX_FIELDS)) + (("and more",) if len(found) > _MAX_FIELDS else ())
        raise ToolValidationError("arguments break their schema", fields=fields)

    def _phrases(self, errors: Iterable[ValidationError], value: Any) -> Iterator[str]:
        for error in errors:
            place = self._path(error.instance_path, value)
            match error.kind.name:
                case "anyOf" | "oneOf":
                    yield from self._explain_union(error, place, value)
                case "required":
                    missing = error.kind.as_dict()["property"]
                    name = missing if _can_be_shown(missing) else "a field"
                    yield f"{place}.{name} is required" if place else f"{name} is required"
                case "type":
                    yield _sentence(place, f"must be {_listed(error.kind.as_dict()['types'])}")
                case kind:
                    yield _sentence(place, _PHRASES.get(kind, "is not valid"))

    def _explain_union(self, error: ValidationError, place: str, value: Any) -> Iterator[str]:
        """Explains a failed union by the one arm that was meant: the only one whose type, or whose constants, fit."""
        arms: list[list[ValidationError]] = error.kind.as_dict()["context"]
        depth = len(error.instance_path)
        meant = [arm for arm in arms if not any(_is_type(fault, depth) for fault in arm)]
        if len(meant) > 1:
            meant = [arm for arm in meant if not any(_is_constant(fault, depth) for fault in arm)]
        if not all(arms):
            yield _sentence(place, "fits more than one of its forms")
        elif len(meant) == 1:
            yield from self._phrases(meant[0], value)
        elif all(len(arm) == 1 and _is_type(arm[0], depth) for arm in arms):
            types = [name for arm in arms for name in arm[0].kind.as_dict()["types"]]
            yield _sentence(place, f"must be {_listed(types)}")
        else:
            yield _sentence(place, "fits none of its forms")

    def _path(self, location: Sequence[str | int], value: Any) -> str:
        """Returns the path of `location` in `value`. The validator writes a property that looks like a number as
        that number (`007` as 7), so the path follows `value`."""
        path = ""
        for segment in location:
            if isinstance(value, list) and isinstance(segment, int):
                path += f"[{segment}]"
                value = value[segment]
                continue
            name = str(segment)
            value = value.get(name) if isinstance(value, dict) else None
            if name in self._names and _can_be_shown(name):
                path += f".{name}" if path else name
            else:
                path += "[*]"
        return path


def _checked_text(schema: Mapping[str, Any]) -> bytes:
    """Returns the schema as JSON text. Raises InvalidValue if it is not JSON, or exceeds a limit."""
    if not isinstance(schema, Mapping):
        raise InvalidValue("a schema must be an object")
    try:
        text = json.dumps(dict(schema), allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidValue("the schema is not JSON") from None
    if len(text) > MAX_SCHEMA_BYTES:
        raise InvalidValue(f"the schema has {len(text)} bytes, more than the {MAX_SCHEMA_BYTES} allowed")
    copied = json.loads(text)
    if (count := json_size(copied)) > MAX_SCHEMA_VALUES:
        raise InvalidValue(f"the schema has {count} values, more than the {MAX_SCHEMA_VALUES} allowed")
    if json_depth(copied) > MAX_SCHEMA_DEPTH:
        raise InvalidValue(f"the schema is nested deeper than {MAX_SCHEMA_DEPTH} levels")
    if hidden := hidden_in(copied):
        raise InvalidValue("the schema has the invisible character {1} at {0}".format(*hidden))
    try:
        canonical_json.encode(copied)
    except InvalidValue:
        raise InvalidValue("the schema has an integer beyond 2^53 - 1, which JSON readers read differently") from None
    return text


def _compile(schema: dict[str, Any], graph: SchemaGraph, check_formats: bool) -> Validator:
    try:  # imported here, from an extra: only a process with foreign tools needs its 15 MB and 25 ms
        import jsonschema_rs
    except ModuleNotFoundError:
        raise Unavailable("Foreign tools need one more package: pip install 'demiurge-runtime[foreign]'") from None

    patterns = jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
    _leave_out_patterns(graph, patterns)
    for node in graph.nodes:
        if "$ref" in node.schema:
            node.schema["$ref"] = as_uri(node.schema["$ref"])
    drafts: tuple[Callable[..., Validator], ...] = (jsonschema_rs.validator_for,)
    if "$schema" not in schema:
        drafts = (
            jsonschema_rs.Draft202012Validator,
            jsonschema_rs.Draft7Validator,
            jsonschema_rs.Draft4Validator,
        )
    first: jsonschema_rs.ValidationError | None = None
    for draft in drafts:
        try:
            return draft(schema, validate_formats=check_formats, offline=True, pattern_options=patterns)
        except jsonschema_rs.ValidationError as error:
            first = first or error
    assert first is not None
    place = "/".join(["#", *(_shown_segment(segment) for segment in first.instance_path)])
    raise InvalidValue(f"not a valid JSON Schema at {place}")


def _leave_out_patterns(graph: SchemaGraph, options: RegexOptions) -> None:
    """Removes the patterns that cannot be checked from the schemas of `graph`. Raises InvalidValue."""
    patterned = [node for node in graph.nodes if isinstance(node.schema.get("pattern"), str)]
    keys = [key for node in graph.nodes for key in node.schema.get("patternProperties", ())]
    if len(patterned) + len(keys) > _MAX_PATTERNS:
        raise InvalidValue(f"the schema has more than {_MAX_PATTERNS} patterns")
    if not all(_is_linear(key, options) for key in keys):
        raise InvalidValue("a pattern for names needs lookaround, a backreference or too much memory")
    exact = graph.exact()
    for node in patterned:
        if not _is_linear(node.schema["pattern"], options):
            if node in exact:
                raise InvalidValue("a pattern under 'not', 'if', 'oneOf' or 'contains' can't be left unchecked")
            del node.schema["pattern"]


def _is_linear(pattern: str, options: RegexOptions) -> bool:
    import jsonschema_rs

    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, offline=True, pattern_options=options)
    except jsonschema_rs.ValidationError:
        return False
    return True


def _is_type(fault: ValidationError, depth: int) -> bool:
    return fault.kind.name == "type" and len(fault.instance_path) == depth


def _is_constant(fault: ValidationError, depth: int) -> bool:
    return fault.kind.name in ("const", "enum") and len(fault.instance_path) <= depth + 1


def _sentence(place: str, phrase: str) -> str:
    if place:
        return f"{place} {phrase}"
    return "there is an unknown field" if phrase == "has an unknown field" else f"the object {phrase}"


def _listed(types: list[str]) -> str:
    names = sorted(set(types), key=lambda name: (name == "null", name))
    return " or ".join(_TYPES.get(name, "another type") for name in names)


def _can_be_shown(name: str) -> bool:
    return 0 < len(name) <= _MAX_NAME and name.isprintable() and without_hidden(name) == name


def _shown_segment(segment: str | int) -> str:
    text = str(segment)
    return text if _can_be_shown(text) else "?"
