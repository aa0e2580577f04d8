"""Compiles a type to a validator that returns a value's normal form.

Equal values must have equal bytes and iterate in equal order, live or decoded from the journal. So sets are sorted
lists without duplicates, maps and records have their keys in canonical order, variants are `{"$tag", "$value"}`, bytes
are bytes.

A type becomes one pydantic-core schema. Each leaf has its own error sentence, so that no message can hold the value
that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from itertools import pairwise
from typing import Any

from pydantic_core import CoreSchema, PydanticCustomError, SchemaValidator, ValidationError
from pydantic_core import core_schema as cs

from demiurge.values import cbor, formats
from demiurge.values.type_expr import Definitions, TypeExpr, kind_of, reachable
from demiurge.values.vector import Vector


def compiled(expr: TypeExpr, defs: Definitions) -> SchemaValidator:
    """Returns the validator of a well-formed type."""
    named = [{**_core(found, defs), "ref": name} for name, found in reachable(expr, defs).items() if "ref" not in found]
    core = _core(expr, defs)
    return SchemaValidator(cs.definitions_schema(core, named) if named else core)  # type: ignore[arg-type]  # {**TypedDict} is a dict to mypy


def _leaf(kind: str, schema: CoreSchema, sentence: str) -> CoreSchema:
    return cs.custom_error_schema(schema, custom_error_type=kind, custom_error_message=sentence)


def _text(pattern: str | None = None) -> CoreSchema:
    return cs.str_schema(
        strict=True, pattern=pattern, min_length=0
    )  # any constraint makes pydantic-core refuse lone surrogates


def _parsed(parse: Callable[[str], object]) -> CoreSchema:
    return cs.no_info_after_validator_function(parse, _text())


def _either(*choices: CoreSchema) -> CoreSchema:
    return cs.union_schema(list(choices), mode="left_to_right")


def _natural(parse: Callable[[str], int]) -> CoreSchema:
    return cs.no_info_after_validator_function(_not_negative, _parsed(parse))


def _not_negative(number: int) -> int:
    if number < 0:
        raise ValueError("negative")
    return number


_INT = cs.int_schema(strict=True)
_NAT = cs.int_schema(strict=True, ge=0)
_NS = cs.int_schema(strict=True, ge=formats.NS_MIN, le=formats.NS_MAX)
_BIG_NS = cs.chain_schema([_parsed(formats.big_integer), _NS])
_UUID = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_UUID_ANY_CASE = "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"

_INT_SENTENCE = "must be a whole number; beyond 2^53 it may be written as decimal text"
_NAT_SENTENCE = "must be a whole number, zero or more; beyond 2^53 it may be written as decimal text"

_LEAVES: dict[str, CoreSchema] = {
    "bool": _leaf("bool", cs.bool_schema(strict=True), "must be true or false"),
    "int": _leaf("int", _either(_INT, _parsed(formats.big_integer)), _INT_SENTENCE),
    "nat": _leaf("nat", _either(_NAT, _natural(formats.big_integer)), _NAT_SENTENCE),
    "dec128": _leaf(
        "dec128",
        cs.no_info_plain_validator_function(formats.dec128),
        'must be a decimal of at most 34 digits, written as text such as "0.7", or a whole number',
    ),
    "bytes": _leaf(
        "bytes",
        _either(cs.bytes_schema(strict=True), _parsed(formats.base64_bytes)),
        "must be bytes, or their base64 text",
    ),
    "text": _leaf("text", _text(), "must be text, without lone surrogates"),
    "time": _leaf(
        "time",
        _either(_NS, _parsed(formats.time_ns), _BIG_NS),
        "must be nanoseconds since 1970 (64 bits), or an RFC 3339 time with its zone",
    ),
    "duration": _leaf("duration", _either(_NS, _BIG_NS), "must be a whole number of nanoseconds (64 bits)"),
    "hash": _leaf(
        "hash", _text("^sha256:[0-9a-f]{64}$"), "must be a ref: sha256: and 64 lower-case hexadecimal digits"
    ),
    "uuid": _leaf(
        "uuid",
        _either(_text(_UUID), cs.no_info_after_validator_function(str.lower, _text(_UUID_ANY_CASE))),
        "must be a UUID: 8-4-4-4-12 hexadecimal digits",
    ),
    "unit": _leaf("unit", cs.none_schema(), "must be null"),
}

_KEYS: dict[str, CoreSchema] = {
    "int": _leaf("int", _either(_INT, _parsed(formats.integer)), "the key must be a whole number, or its decimal text"),
    "nat": _leaf(
        "nat",
        _either(_NAT, _natural(formats.integer)),
        "the key must be a whole number, zero or more, or its decimal text",
    ),
}


def _core(expr: TypeExpr, defs: Definitions) -> CoreSchema:
    kind, body = kind_of(expr)
    return _LEAVES[kind] if kind in _LEAVES else _BUILDERS[kind](body, defs)


def _fields(fields: Mapping[str, TypeExpr], defs: Definitions) -> CoreSchema:
    """A map with exactly these keys, in canonical order. Fields whose type allows null may be missing."""
    return cs.typed_dict_schema(
        {name: _field(fields[name], defs) for name in sorted(fields, key=_key_order)}, extra_behavior="forbid"
    )


def _field(expr: TypeExpr, defs: Definitions) -> cs.TypedDictField:
    core = _core(expr, defs)
    kind = kind_of(_resolved(expr, defs))[0]
    return cs.typed_dict_field(cs.with_default_schema(core, default=None) if kind in ("option", "unit") else core)


def _resolved(expr: TypeExpr, defs: Definitions) -> TypeExpr:
    while "ref" in expr:
        expr = defs[expr["ref"]]
    return expr


def _variant(arms: Mapping[str, TypeExpr], defs: Definitions) -> CoreSchema:
    choices: dict[Any, CoreSchema] = {
        tag: cs.typed_dict_schema(
            {"$tag": cs.typed_dict_field(_text()), "$value": _field(arm, defs)}, extra_behavior="forbid"
        )
        for tag, arm in arms.items()
    }
    sentence = f"the tag must be one of {', '.join(arms)}"
    union = cs.tagged_union_schema(choices, "$tag", custom_error_type="variant", custom_error_message=sentence)
    empty = frozenset(tag for tag, arm in arms.items() if kind_of(_resolved(arm, defs))[0] == "unit")
    return cs.no_info_before_validator_function(partial(_tagged, empty), union)


def _tagged(empty: Set[str], value: object) -> object:
    """Returns a variant as `{"$tag", "$value"}`. `empty`: tags without a value; clients write `Auto { }`, so `{}`
    counts as null for these tags."""
    if isinstance(value, Mapping):
        if "$tag" in value:
            tag = value["$tag"]
            if isinstance(tag, str) and tag in empty and _is_empty(value.get("$value")):
                return {**value, "$value": None}
            return value
        if len(value) == 1:
            ((tag, inner),) = value.items()
            return {"$tag": tag, "$value": None if tag in empty and _is_empty(inner) else inner}
    raise PydanticCustomError("variant", 'must be written {"$tag": ..., "$value": ...}')


def _is_empty(value: object) -> bool:
    return isinstance(value, Mapping) and not value


def _list(item: TypeExpr, defs: Definitions) -> CoreSchema:
    """A list schema that first picks a branch by the Python type, so that a plain list needs no second callback into
    Python.

    The branch adds a step to the locations of errors.
    """
    plain = cs.list_schema(_core(item, defs))
    choices: dict[Any, CoreSchema] = {
        "list": plain,
        "sequence": cs.no_info_before_validator_function(list, plain),
        "vector": cs.no_info_wrap_validator_function(_vector, plain),
    }
    return cs.tagged_union_schema(choices, _list_form, custom_error_type="list", custom_error_message="must be a list")


def _list_form(value: object) -> str | None:
    if type(value) is list:
        return "list"
    if isinstance(value, Vector):
        return "vector"
    return "sequence" if _is_sequence(value) else None


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def _vector(vector: Vector[Any], check: Callable[[Any], Any]) -> object:
    try:
        return vector.replace_unwritten(check)
    except ValidationError:
        return check(list(vector))  # checks again to report the item's position in the whole list


def _set(item: TypeExpr, defs: Definitions) -> CoreSchema:
    items = cs.no_info_before_validator_function(_unordered, cs.list_schema(_core(item, defs)))
    return cs.no_info_after_validator_function(_sorted_set, items)


def _unordered(value: object) -> object:
    if isinstance(value, Set) or _is_sequence(value):
        return list(value)  # type: ignore[call-overload]  # is_sequence narrows nothing
    raise PydanticCustomError("set", "must be a list, taken as a set")


def _sorted_set(items: list[Any]) -> list[Any]:
    if len(items) < 2:
        return items
    by_code = {cbor.encode_item(item): item for item in items}
    return [by_code[code] for code in sorted(by_code)]


def _map(body: Mapping[str, TypeExpr], defs: Definitions) -> CoreSchema:
    kind = kind_of(body["key"])[0]
    entries = cs.dict_schema(_KEYS.get(kind) or _LEAVES[kind], _core(body["value"], defs))
    return cs.no_info_wrap_validator_function(_sorted_map, entries)


def _sorted_map(value: object, check: Callable[[Any], dict[Any, Any]]) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise PydanticCustomError("map", "must be an object")
    entries = check(value)
    if len(entries) < len(value):
        raise PydanticCustomError("map", "has the same key in two spellings")
    codes = {_key_order(key): key for key in entries}
    if all(before < after for before, after in pairwise(codes)):
        return entries
    return {codes[code]: entries[codes[code]] for code in sorted(codes)}


def _key_order(key: str | int) -> bytes:
    return cbor.encode_item(key)


def _option(inner: TypeExpr, defs: Definitions) -> CoreSchema:
    return cs.nullable_schema(_core(inner, defs))


def _ref(name: str, defs: Definitions) -> CoreSchema:
    while "ref" in defs[name]:
        name = defs[name]["ref"]
    return cs.definition_reference_schema(name)


_BUILDERS: dict[str, Callable[[Any, Definitions], CoreSchema]] = {
    "record": _fields,
    "variant": _variant,
    "list": _list,
    "set": _set,
    "map": _map,
    "option": _option,
    "ref": _ref,
}
