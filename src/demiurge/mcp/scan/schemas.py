"""Finds parameters of a tool that take more than the tool needs: secrets, conversations, paths, programs, anything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from demiurge.mcp.definition import ToolDefinition
from demiurge.mcp.scan.finding import Severity
from demiurge.mcp.scan.texts import MAX_DEPTH, place
from demiurge.values import canonical_json

__all__ = ["LARGE_SCHEMA", "LONG_TEXT", "SchemaParameter", "parameters_of", "schema_remarks", "words_of_name"]

LONG_TEXT: Final = 4096
"""Characters of a description above which a person is told that it is long."""
LARGE_SCHEMA: Final = 32_768
"""Bytes of an input schema, as canonical JSON, above which a person is told that it is large."""


class SchemaParameter(NamedTuple):
    """A property of an input schema: its place, name and schema. `depth` is 1 for an argument of the tool itself."""

    place: str
    name: str
    schema: Mapping[str, Any]
    depth: int


class SchemaRemark(NamedTuple):
    """A remark about the value at `place`. `start` and `end` count characters of `text`."""

    code: str
    severity: Severity
    place: str
    text: str
    start: int
    end: int
    rule: str


_NAMES: Final[tuple[tuple[str, Severity, str, str], ...]] = (
    (
        "secret_parameter",
        "medium",
        r"(?:.* )?(?:api ?keys?|apikey|password|passwd|passphrase|secret|secret key|private key|ssh key|"
        r"access token|auth token|bearer token|bearer|refresh token|credentials?|seed phrase|mnemonic|"
        r"client secret|access key|secret access key|auth|authorization|cookie|cookies|session token|pat|"
        r"personal access token|otp|pin code|cvv)",
        "The parameter's name asks for a secret.",
    ),
    (
        "conversation_parameter",
        "medium",
        r"(?:.* )?(?:system prompt|system message|system instructions|developer prompt|conversation|conversations|"
        r"conversation history|chat history|chat log|message history|full context|conversation context|chat context|"
        r"transcript|previous messages|prior messages|all messages|user messages|side ?notes?|scratch ?pad|"
        r"chain of thought|model reasoning|internal reasoning|thoughts|prompt history)",
        "The parameter's name asks for a conversation, a prompt or a model's thoughts.",
    ),
    (
        "conversation_parameter",
        "low",
        r"context|messages|history|memory|reasoning|user prompt|original prompt|extra context|additional context",
        "The parameter's name leaves open how much of a conversation it takes.",
    ),
    (
        "code_parameter",
        "low",
        r"command|cmd|shell|shell command|bash|script|code|python code|javascript|expression to eval|eval|sql|"
        r"sql query|raw query|exec",
        "The parameter's name asks for a program or a command.",
    ),
    (
        "path_parameter",
        "low",
        r"(?:.* )?(?:file ?path|file ?paths|file ?name|path|paths|directory|folder|repo path|source file|target file)",
        "The parameter's name asks for a place in a file system.",
    ),
)
_SECRET_TEXT: Final = re.compile(
    r"(?<![a-z])(?:(?:user'?s?|your|their|account|login|mail|bank|admin)\s+(?:\w+\s+){0,2}?(?:password|passphrase|"
    r"pin code|api[ _-]?key|private key|secret key|access token|seed phrase|credentials)"
    r"|password (?:of|for) the)(?![a-z])",
    re.IGNORECASE,
)
_TEXT_TYPES: Final = frozenset({"string", "object", "array"})


def schema_remarks(definition: ToolDefinition) -> Iterator[SchemaRemark]:
    """Returns the remarks about the input schema and the length of the texts."""
    for parameter in parameters_of(definition.input_schema):
        yield from _about_name(parameter)
        yield from _about_text(parameter)
        yield from _about_object(parameter)
    yield from _free(definition.input_schema, "inputSchema")
    yield from _sizes(definition)


def parameters_of(schema: Mapping[str, Any]) -> Iterator[SchemaParameter]:
    """Returns the properties of a schema at all depths, also those of list items, alternatives and definitions."""
    yield from _parameters(schema, "inputSchema", 1)


def words_of_name(name: str) -> str:
    """Returns the words of a name in lower case with spaces between them: `apiKey` and `api-key` are `api key`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return re.sub(r"[\W_]+", " ", spaced).strip().lower()


def _parameters(node: Any, at: str, depth: int) -> Iterator[SchemaParameter]:
    if not isinstance(node, Mapping) or depth > MAX_DEPTH:
        return
    properties = node.get("properties")
    if isinstance(properties, Mapping):
        for name, schema in properties.items():
            below = place(at, "properties", str(name))
            yield SchemaParameter(below, str(name), schema if isinstance(schema, Mapping) else {}, depth)
            yield from _parameters(schema, below, depth + 1)
    for key in ("items", "additionalProperties", "not", "if", "then", "else"):
        yield from _parameters(node.get(key), place(at, key), depth + 1)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        children = node.get(key)
        for number, child in enumerate(children if isinstance(children, list | tuple) else ()):
            yield from _parameters(child, place(at, key, number), depth + 1)
    for key in ("$defs", "definitions", "patternProperties"):
        children = node.get(key)
        for name, child in (children if isinstance(children, Mapping) else {}).items():
            yield from _parameters(child, place(at, key, str(name)), depth + 1)


def _about_name(parameter: SchemaParameter) -> Iterator[SchemaRemark]:
    types = _types(parameter.schema)
    if types and types.isdisjoint(_TEXT_TYPES):
        return
    words = words_of_name(parameter.name)
    for code, severity, pattern, rule in _NAMES:
        if re.fullmatch(pattern, words):
            yield SchemaRemark(code, severity, parameter.place, parameter.name, 0, len(parameter.name), rule)
            return


def _about_text(parameter: SchemaParameter) -> Iterator[SchemaRemark]:
    text = parameter.schema.get("description")
    if isinstance(text, str) and (found := _SECRET_TEXT.search(text)):
        rule = "The parameter's description asks for a secret."
        yield SchemaRemark(
            "secret_parameter", "medium", place(parameter.place, "description"), text, *found.span(), rule
        )


def _about_object(parameter: SchemaParameter) -> Iterator[SchemaRemark]:
    schema, name = parameter.schema, parameter.name
    yield from _free(schema, parameter.place)
    if "object" in _types(schema) and not any(
        key in schema
        for key in (
            "properties",
            "additionalProperties",
            "patternProperties",
            "$ref",
            "anyOf",
            "oneOf",
            "allOf",
            "enum",
            "const",
        )
    ):
        rule = "The parameter is an object whose properties the schema does not say."
        yield SchemaRemark("unbounded_object", "low", parameter.place, name, 0, len(name), rule)


def _free(schema: Mapping[str, Any], at: str) -> Iterator[SchemaRemark]:
    free = schema.get("additionalProperties")
    if free is True or (isinstance(free, Mapping) and not free):
        rule = "`additionalProperties` allows arguments of any name and type."
        yield SchemaRemark("free_properties", "low", place(at, "additionalProperties"), "true", 0, 4, rule)


def _types(schema: Mapping[str, Any]) -> set[str]:
    """Returns the types that a schema allows, also those of its alternatives; an empty set if it does not say."""
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list | tuple) else (kind,)
    found = {one for one in kinds if isinstance(one, str)}
    for key in ("anyOf", "oneOf"):
        children = schema.get(key)
        for child in children if isinstance(children, list | tuple) else ():
            found |= _types(child) if isinstance(child, Mapping) else set()
    return found


def _sizes(definition: ToolDefinition) -> Iterator[SchemaRemark]:
    text = definition.description or ""
    if len(text) > LONG_TEXT:
        rule = f"The description has {len(text)} characters; more than {LONG_TEXT} are rare."
        yield SchemaRemark("long_text", "medium", "description", text, LONG_TEXT, len(text), rule)
    size = len(canonical_json.encode(definition.to_json()["inputSchema"]))
    if size > LARGE_SCHEMA:
        rule = f"The input schema has {size} bytes; more than {LARGE_SCHEMA} are rare."
        yield SchemaRemark("large_schema", "medium", "inputSchema", "", 0, 0, rule)
