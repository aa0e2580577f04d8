"""The compiler from a Python type to the JSON Schema that a model sees. There is no other.

pydantic describes the type; this module narrows the description to the subset that every provider accepts: no
`oneOf`, `anyOf`, `allOf`, `not`, `if`, `patternProperties` or `$ref`. Nested types are inlined, an optional field is
simply not required, every object is closed, keys are sorted, and titles, defaults and `$schema` are dropped. A type
that the subset cannot express, or whose values JSON cannot hold, is refused when the tool is made, not when a
provider refuses the request.

null is allowed only if it has a meaning: an optional field whose default is None is left out instead. The values of
a Literal are sorted; those of an Enum keep their order.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import unicodedata
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, get_args, get_type_hints

from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from demiurge.errors import InvalidValue
from demiurge.tools.authoring.adapters import adapter_of
from demiurge.tools.authoring.docstring import read_docstring
from demiurge.values import canonical_json

__all__ = ["compile_schema", "reason", "validate_tool_schema_p0"]

EMPTY_OBJECT: dict[str, Any] = {"additionalProperties": False, "properties": {}, "type": "object"}

FORBIDDEN = frozenset(
    [
        "$defs",
        "$ref",
        "allOf",
        "anyOf",
        "definitions",
        "dependencies",
        "dependentSchemas",
        "else",
        "if",
        "not",
        "oneOf",
        "patternProperties",
        "prefixItems",
        "then",
    ]
)
"""Keywords outside the subset."""

DECIMAL = r"^-?[0-9]+(\.[0-9]+)?$"
"""The form of a decimal in arguments."""

_KEPT = frozenset(
    [
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "type",
        "uniqueItems",
    ]
)
_DROPPED = frozenset(
    [
        "$defs",
        "$schema",
        "contentEncoding",
        "contentMediaType",
        "default",
        "deprecated",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    ]
)
_SCALARS = frozenset(["boolean", "integer", "number", "string"])

_UNKNOWN = re.compile(r"Unable to generate pydantic-core schema for (?:<class ')?([\w.]+)")
_INSTEAD = {
    **dict.fromkeys(("bytearray", "memoryview"), "bytes"),
    **dict.fromkeys(("AsyncGenerator", "AsyncIterable", "AsyncIterator", "Collection", "Iterator"), "list"),
    **dict.fromkeys(("Awaitable", "Coroutine"), "the type of what it comes to, with `async def`"),
}
"""The type to write in place of one that pydantic does not support."""


def compile_schema(params_type: Any) -> dict[str, Any]:
    """Returns the JSON Schema (draft 7) of a dataclass or pydantic model; an empty object for None. Equal types give
    equal bytes.

    Raises InvalidValue, naming the field, if the subset cannot express the type."""
    if params_type is None or params_type is type(None):
        return {**EMPTY_OBJECT, "properties": {}}
    try:
        raw = adapter_of(params_type).json_schema(schema_generator=_Describer)
    except (PydanticSchemaGenerationError, PydanticUserError, KeyError, NameError) as error:
        raise InvalidValue(f"{params_type!r} can't be described as JSON Schema: {reason(error)}") from error
    schema, _ = _narrow(raw, raw.get("$defs", {}), "", ())
    schema.pop("description", None)
    if schema.get("type") != "object" or "properties" not in schema:
        raise InvalidValue(f"{params_type!r} does not describe an object with named fields")
    validate_tool_schema_p0(schema)
    return schema


def reason(error: Exception) -> str:
    """Returns why pydantic does not support a type, in one line. If pydantic's own line does not fit a tool, it says
    what to do."""
    if getattr(error, "code", None) in ("class-not-fully-defined", "undefined-annotation"):
        return "it names a type that can't be found from there; define it at module level"
    line = str(error).splitlines()[0]
    if (unknown := _UNKNOWN.match(line)) is None:
        return line
    instead = _INSTEAD.get(unknown[1].rpartition(".")[2], "a dataclass, a pydantic model or a type of JSON")
    return f"{unknown[1]} has no form in JSON; use {instead}"


def validate_tool_schema_p0(schema: object) -> None:
    """Checks a tool's input schema against the subset for tools (docs/tool-schemas.md): the top is a closed object,
    there is no forbidden keyword anywhere, and no property names a connection. Raises InvalidValue that lists all
    mistakes."""
    if not isinstance(schema, Mapping):
        raise InvalidValue("a tool's input schema is an object", code="tool_schema")
    problems = list(_problems(schema, "$"))
    if schema.get("type") != "object":
        problems.insert(0, "$: the top level must have type 'object'")
    try:
        canonical_json.encode(schema)
    except Exception:  # noqa: BLE001  (whatever the encoder raises, the schema is not portable JSON)
        problems.append("$: not JSON that can be hashed")
    if problems:
        raise InvalidValue("; ".join(problems), code="tool_schema")


def _problems(node: Any, path: str) -> Iterator[str]:
    if isinstance(node, bool):
        return
    if not isinstance(node, Mapping):
        yield f"{path}: a schema is an object"
        return
    for keyword in sorted(FORBIDDEN.intersection(node)):
        yield f"{path}: '{keyword}' is not supported"
    properties = node.get("properties", {})
    if not isinstance(properties, Mapping):
        yield f"{path}: 'properties' is an object"
        return
    if properties and node.get("additionalProperties") is not False:
        yield f"{path}: 'additionalProperties' must be false"
    for name, child in properties.items():
        if _names_connection(name):
            yield f"{path}.{name}: a connection is named by the caller, never by the model"
        yield from _problems(child, f"{path}.{name}")
    for keyword in ("items", "additionalItems", "additionalProperties", "contains", "propertyNames"):
        if keyword in node:
            yield from _problems(node[keyword], f"{path}[*]")


def _names_connection(name: object) -> bool:
    """Returns whether the name reads as `connection_id`, `connectionIds`, `Connection-ID` or the like."""
    letters = "".join(filter(str.isalnum, unicodedata.normalize("NFKD", str(name)))).casefold()
    return letters in ("connectionid", "connectionids")


class _Describer(GenerateJsonSchema):
    """pydantic's generator, with two additions: the field descriptions of `Annotated[str, "text"]` and of the class
    docstring, and decimals as text, so that they need no union. It refuses types whose values JSON cannot hold."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _described(super().dataclass_schema(schema), schema["cls"], _core_fields(schema))

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _described(super().model_schema(schema), schema["cls"], _core_fields(schema))

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        return {"pattern": DECIMAL, "type": "string"}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        if schema.get("keys_schema", {"type": "any"})["type"] not in ("any", "str"):
            raise InvalidValue("the keys of a map must be text")
        return super().dict_schema(schema)

    def generator_schema(self, schema: core_schema.GeneratorSchema) -> JsonSchemaValue:
        raise InvalidValue("an Iterable would be checked while the handler runs; use a list")

    def is_subclass_schema(self, schema: core_schema.IsSubclassSchema) -> JsonSchemaValue:
        raise InvalidValue("a class can't be written in JSON")

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        if any(isinstance(value, Enum) and not isinstance(value, int | str) for value in schema["expected"]):
            raise InvalidValue("a Literal of an enum's member can't be read from JSON; name its value")
        for value in schema["expected"]:
            if not isinstance(value, Enum) and type(value) not in (str, int, bool, type(None)):
                shown = value.__name__ if isinstance(value, type) else repr(value)
                raise InvalidValue(
                    f"Literal[{shown}] names no value; a Literal has texts, whole numbers, True or False"
                )
        return super().literal_schema({**schema, "expected": sorted(schema["expected"], key=_order)})

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        return {**inner, "default": None} if schema.get("default", ...) is None else inner

    def model_field_schema(self, schema: core_schema.ModelField) -> JsonSchemaValue:
        if not isinstance(schema.get("validation_alias", ""), str):
            raise InvalidValue("a field must have one name, not AliasChoices or AliasPath")
        return super().model_field_schema(schema)


def _core_fields(schema: Any) -> dict[str, Any]:
    """Returns pydantic's description of each field of a class, from within the validators around it."""
    while schema["type"] not in ("dataclass-args", "model-fields") and "schema" in schema:
        schema = schema["schema"]
    fields = schema.get("fields", {})
    return fields if isinstance(fields, dict) else {entry["name"]: entry for entry in fields}


def _described(schema: JsonSchemaValue, cls: type, fields: Mapping[str, Any]) -> JsonSchemaValue:
    """Returns the schema with the descriptions of its fields, with its own docstring cut to the first paragraph, and
    without the fields that a call cannot set (`init=False`)."""
    doc = inspect.cleandoc(cls.__doc__ or "")
    if schema.get("description") == doc:
        schema["description"] = read_docstring(doc).summary
    properties = schema.get("properties", {})
    texts = field_texts(cls)
    for name, entry in fields.items():
        property_name = entry.get("validation_alias", name)
        if not entry.get("init", True):
            properties.pop(property_name, None)
        elif name in texts and property_name in properties:
            properties[property_name].setdefault("description", texts[name])
    return schema


def field_texts(cls: type) -> dict[str, str]:
    """Returns the descriptions of a class's fields that pydantic does not read, by field name."""
    texts = dict(read_docstring(inspect.getdoc(cls) or "").parameters)
    try:
        hints = get_type_hints(cls, include_extras=True)
    except (NameError, TypeError):
        hints = {}
    for name, hint in hints.items():
        for extra in get_args(hint)[1:] if hasattr(hint, "__metadata__") else ():
            text = extra if isinstance(extra, str) else getattr(extra, "documentation", None)
            if isinstance(text, str):
                texts[name] = text
    if dataclasses.is_dataclass(cls):
        for entry in dataclasses.fields(cls):
            text = entry.metadata.get("description")
            if isinstance(text, str):
                texts[entry.name] = text
    return texts


def _narrow(node: Any, defs: Mapping[str, Any], path: str, seen: tuple[str, ...]) -> tuple[dict[str, Any], bool]:
    """Returns the node narrowed to the subset, and whether null is also a value of it."""
    if not isinstance(node, Mapping):
        return {}, False
    if "$ref" in node:
        return _inline(node, defs, path, seen)
    if "anyOf" in node:
        return _collapse(node, defs, path, seen)
    unknown = set(node) - _KEPT - _DROPPED - {"additionalProperties", "const", "items", "properties", "required"}
    if unknown:
        raise InvalidValue(_advice(sorted(unknown)[0]), path=path or "$")
    result: dict[str, Any] = {key: node[key] for key in sorted(node) if key in _KEPT}
    if "const" in node:
        result["enum"] = [node["const"]]
    if "enum" in result:
        result["type"] = _type_of(result["enum"], path)
    if "items" in node:
        result["items"] = _strict(node["items"], defs, f"{path}[*]", seen)
    if node.get("type") == "object":
        _close(result, node, defs, path, seen)
    return dict(sorted(result.items())), False


def _close(
    result: dict[str, Any], node: Mapping[str, Any], defs: Mapping[str, Any], path: str, seen: tuple[str, ...]
) -> None:
    """Sets the properties and `additionalProperties` of an object: closed if it has named fields, else a map."""
    values = node.get("additionalProperties", False)
    if "properties" not in node and values is not False:
        result["additionalProperties"] = _strict(values, defs, f"{path}[*]", seen) or True
        return
    if isinstance(values, Mapping) or values is True:
        raise InvalidValue("an object with named fields can't have others as well", path=path or "$")
    required = []
    properties = {}
    for name, child in sorted(node.get("properties", {}).items()):
        below = f"{path}.{name}" if path else name
        narrowed, nullable = _narrow(child, defs, below, seen)
        if name in node.get("required", ()):
            required.append(name)
        left_out = name not in required and child.get("default", ...) is None
        properties[name] = _with_null(narrowed) if nullable and not left_out else narrowed
    result["additionalProperties"] = False
    result["properties"] = properties
    if required:
        result["required"] = required


def _strict(node: Any, defs: Mapping[str, Any], path: str, seen: tuple[str, ...]) -> dict[str, Any]:
    narrowed, nullable = _narrow(node, defs, path, seen)
    return _with_null(narrowed) if nullable else narrowed


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema with null allowed too, as a list of types."""
    if "type" not in schema:
        return schema
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "null" in kinds:
        return schema
    merged = {**schema, "type": [*kinds, "null"]}
    if "enum" in merged:
        merged["enum"] = [*merged["enum"], None]
    return merged


def _inline(
    node: Mapping[str, Any], defs: Mapping[str, Any], path: str, seen: tuple[str, ...]
) -> tuple[dict[str, Any], bool]:
    name = str(node["$ref"]).rpartition("/")[2]
    if name in seen:
        raise InvalidValue(f"'{name}' contains itself, which a tool's schema can't say", path=path or "$")
    narrowed, nullable = _narrow(defs[name], defs, path, (*seen, name))
    if "description" in node:
        narrowed["description"] = node["description"]
    return dict(sorted(narrowed.items())), nullable


def _collapse(
    node: Mapping[str, Any], defs: Mapping[str, Any], path: str, seen: tuple[str, ...]
) -> tuple[dict[str, Any], bool]:
    """Narrows a union: null makes it optional, bare scalars become a list of types, enums are joined. Any other
    union is refused."""
    arms = []
    nullable = False
    for arm in node["anyOf"]:
        narrowed, also_null = _narrow(arm, defs, path, seen)
        is_null = narrowed.get("type") == "null"
        nullable = nullable or also_null or is_null
        if not is_null:
            arms.append(narrowed)
    if len(arms) <= 1:
        result = arms[0] if arms else {"type": "null"}
    elif all(set(arm) == {"type"} and arm["type"] in _SCALARS for arm in arms):
        result = {"type": sorted({arm["type"] for arm in arms})}
    elif all(set(arm) == {"enum", "type"} for arm in arms):
        unique = {(type(value), value): value for arm in arms for value in arm["enum"]}
        values = sorted(unique.values(), key=_order)
        result = {"enum": values, "type": _type_of(values, path)}
    else:
        raise InvalidValue(_advice("anyOf"), path=path or "$")
    if "description" in node:
        result = {**result, "description": node["description"]}
    return dict(sorted(result.items())), nullable


def _order(value: Any) -> tuple[str, Any]:
    """Returns a sort key for values of Literals and unions: Python treats them as equal in any order, and returns
    the order that it saw first."""
    return type(value).__name__, "" if value is None else value


def _type_of(values: list[Any], path: str) -> str | list[str]:
    if not values:
        raise InvalidValue("a choice without members has no values", path=path or "$")
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    try:
        kinds = sorted({names[type(value)] for value in values})
    except KeyError:
        raise InvalidValue("a choice must be text, a number or a boolean", path=path or "$") from None
    return kinds[0] if len(kinds) == 1 else kinds


def _advice(keyword: str) -> str:
    match keyword:
        case "anyOf" | "oneOf":
            return "a union of several types can't be said; use one type, or separate optional fields"
        case "prefixItems":
            return "a tuple of fixed length can't be said; use a dataclass or a list"
        case _:
            return f"'{keyword}' is outside the supported JSON Schema"
