"""Validates arguments against a foreign JSON Schema without risk to the process.

The schema's size is limited when it is accepted, and the work of every check is bounded before it begins
(`schema_graph`): no `$ref` is fetched, patterns run on an engine whose time is linear in the text, and formats are
annotations unless `check_formats` is set. A failure is worded as that of an authored tool is (`argument_faults`).

A pattern that the linear engine does not support (lookaround, a backreference, a program over 64 KiB) is not checked
here; the author of the schema checks it. If leaving the pattern out would refuse what the schema accepts, the schema
is refused instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from demiurge.errors import InvalidValue, Unavailable
from demiurge.tools.argument_faults import ArgumentFault, explained, field_path, rule_words, unknown_fields
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
_MAX_NAME = 64

_BOUNDS: Mapping[str, str] = {
    "const": "expected_value",
    "enum": "options",
    "format": "format",
    "multipleOf": "multiple_of",
    "pattern": "pattern",
    "type": "types",
}
"""Keywords -> the name of their value in an error of the validator. That of all others is `limit`."""


class ForeignSchema:
    """A schema and its validator. `verbatim`: a copy of the schema as it was given; with type object at the top, if it
    says less. The draft is the one that `$schema` names; without it 2020-12, or the newest of 2020-12, 7 and 4 in which
    the schema is valid.

    `check_formats`: whether `format` is a rule. `any_type`: the top may be of another type than object, as for results.
    Raises InvalidValue for data that is not a schema, does not accept objects at the top, is too large, or has hidden
    characters; Unavailable without the extra `foreign`."""

    def __init__(self, schema: Mapping[str, Any], *, check_formats: bool = False, any_type: bool = False) -> None:
        text = _checked_text(schema)
        self.verbatim: dict[str, Any] = json.loads(text)
        if not any_type and self.verbatim.get("type") != "object":
            self.verbatim = _of_objects(self.verbatim)
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
            fields = ("the object is not valid, and too large to say where",)
            raise ToolValidationError("arguments break their schema", fields=fields)
        found = explained(self._faults(self._validator.iter_errors(value), value))
        raise ToolValidationError("arguments break their schema", fields=found.fields, for_model=found.for_model)

    def _faults(self, errors: Iterable[ValidationError], value: Any) -> Iterator[ArgumentFault]:
        for error in errors:
            path, kind, said = self._path(error.instance_path, value), error.kind.name, error.kind.as_dict()
            match kind:
                case "anyOf" | "oneOf":
                    yield from self._explain_union(error, path, value)
                case "required":
                    name = said["property"] if _can_be_shown(said["property"]) else "a field"
                    yield ArgumentFault(field_path(path, name), rule_words("required"))
                case "additionalProperties" | "unevaluatedProperties":
                    known = self._known(error.schema_path) if kind == "additionalProperties" else None
                    yield unknown_fields(path, said["unexpected"], known)
                case "propertyNames":
                    inner = said["error"].kind
                    words = rule_words(inner.name, inner.as_dict().get(_BOUNDS.get(inner.name, "limit")))
                    yield ArgumentFault(path, f"has a field whose name {words}")
                case _:
                    yield ArgumentFault(path, rule_words(kind, said.get(_BOUNDS.get(kind, "limit"))))

    def _known(self, schema_path: Sequence[str | int]) -> list[str] | None:
        """Returns the fields that the schema names at the place of an error about unknown ones; None if that cannot be
        told, or others are allowed by a pattern."""
        node: Any = self.verbatim
        try:
            for segment in schema_path[:-1]:
                node = node[segment]
        except (KeyError, IndexError, TypeError):  # the path of another resource, by `$id`
            return None
        if (
            not isinstance(node, Mapping)
            or node.get("additionalProperties") is not False
            or "patternProperties" in node
        ):
            return None
        return list(filter(_can_be_shown, node.get("properties", ())))

    def _explain_union(self, error: ValidationError, path: str, value: Any) -> Iterator[ArgumentFault]:
        """Explains a failed union by the one arm that was meant: the only one whose type, or whose constants, fit."""
        arms: list[list[ValidationError]] = error.kind.as_dict()["context"]
        depth = len(error.instance_path)
        meant = [arm for arm in arms if not any(_is_type(fault, depth) for fault in arm)]
        if len(meant) > 1:
            meant = [arm for arm in meant if not any(_is_constant(fault, depth) for fault in arm)]
        if not all(arms):
            yield ArgumentFault(path, "fits more than one of its forms")
        elif len(meant) == 1:
            yield from self._faults(meant[0], value)
        elif all(len(arm) == 1 and _is_type(arm[0], depth) for arm in arms):
            types = [name for arm in arms for name in arm[0].kind.as_dict()["types"]]
            yield ArgumentFault(path, rule_words("type", types))
        else:
            yield ArgumentFault(path, "fits none of its forms")

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
            path = field_path(path, name) if name in self._names and _can_be_shown(name) else f"{path}[*]"
        return path


def _of_objects(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema that accepts objects, and says so nowhere or among other types, with type object alone:
    arguments are always an object. Raises InvalidValue for a schema of other types."""
    types = schema.get("type", ["object"])
    if not isinstance(types, list) or "object" not in types:
        raise InvalidValue("the top of the schema must accept objects: have type 'object', or no type")
    return {"type": "object", **{name: value for name, value in schema.items() if name != "type"}}


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


def _can_be_shown(name: str) -> bool:
    return 0 < len(name) <= _MAX_NAME and name.isprintable() and without_hidden(name) == name


def _shown_segment(segment: str | int) -> str:
    text = str(segment)
    return text if _can_be_shown(text) else "?"
