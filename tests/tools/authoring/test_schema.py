"""One compiler, one subset, the same bytes every time."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field, make_dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from demiurge.errors import InvalidValue
from demiurge.tools import compile_schema, validate_tool_schema_p0
from demiurge.tools.authoring.params import ParamsCodec, ResultCodec
from demiurge.values import canonical_json


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Inner:
    n: int = field(metadata={"description": "how many"})


class Model(BaseModel):
    text: str = Field(description="the text", min_length=1)
    kind: Literal["a", "b"] = "a"
    nick: str | None = Field(default=None, alias="nickName")


@dataclass
class Everything:
    """All kinds of fields.

    Attributes:
        documented: said in the docstring
    """

    plain: int
    documented: str
    inner: Inner
    models: list[Model]
    colour: Colour
    choice: Literal["x", "y"] | None
    when: datetime
    price: Decimal
    number: int | float
    counts: dict[str, int]
    tagged: Annotated[bool, "a flag"]
    maybe: Inner | None = None
    pairs: tuple[int, ...] = ()
    bounded: Annotated[int, Field(ge=1, le=5, description="1 to 5")] = 1
    free: Any = None


def test_the_whole_subset() -> None:
    inner = {
        "additionalProperties": False,
        "properties": {"n": {"description": "how many", "type": "integer"}},
        "required": ["n"],
        "type": "object",
    }
    model = {
        "additionalProperties": False,
        "properties": {
            "kind": {"enum": ["a", "b"], "type": "string"},
            "nickName": {"type": "string"},
            "text": {"description": "the text", "minLength": 1, "type": "string"},
        },
        "required": ["text"],
        "type": "object",
    }
    assert compile_schema(Everything) == {
        "additionalProperties": False,
        "properties": {
            "bounded": {"description": "1 to 5", "maximum": 5, "minimum": 1, "type": "integer"},
            "choice": {"enum": ["x", "y", None], "type": ["string", "null"]},
            "colour": {"enum": ["red", "blue"], "type": "string"},
            "counts": {"additionalProperties": {"type": "integer"}, "type": "object"},
            "documented": {"description": "said in the docstring", "type": "string"},
            "free": {},
            "inner": inner,
            "maybe": inner,
            "models": {"items": model, "type": "array"},
            "number": {"type": ["integer", "number"]},
            "pairs": {"items": {"type": "integer"}, "type": "array"},
            "plain": {"type": "integer"},
            "price": {"pattern": r"^-?[0-9]+(\.[0-9]+)?$", "type": "string"},
            "tagged": {"description": "a flag", "type": "boolean"},
            "when": {"format": "date-time", "type": "string"},
        },
        "required": sorted(
            [
                "plain",
                "documented",
                "inner",
                "models",
                "colour",
                "choice",
                "when",
                "price",
                "number",
                "counts",
                "tagged",
            ]
        ),
        "type": "object",
    }


def test_a_schema_is_sorted_at_every_level() -> None:
    schema = compile_schema(Everything)
    assert json.dumps(schema) == json.dumps(schema, sort_keys=True)


@dataclass
class Tree:
    children: list[Tree]


@dataclass
class Union:
    either: Inner | Model


@dataclass
class Fixed:
    pair: tuple[int, str]


@dataclass
class Connected:
    connectionId: str  # noqa: N815


@dataclass
class DeepConnected:
    inner: list[Connected]


@dataclass
class Opaque:
    thing: object


class Open(BaseModel, extra="allow"):
    a: int


@pytest.mark.parametrize("kind", [Tree, Union, Fixed, Connected, DeepConnected, Open, list[int], Literal["a"], int])
def test_a_type_outside_the_schema_subset_is_refused(kind: Any) -> None:
    with pytest.raises(InvalidValue):
        compile_schema(kind)


class Literals:
    kind: Literal[Tree]  # type: ignore[valid-type]


def test_a_literal_of_a_class_is_refused_in_plain_words() -> None:
    words = r"Literal\[Tree\] names no value; a Literal has texts, whole numbers, True or False"
    with pytest.raises(InvalidValue, match=words):
        compile_schema(dataclass(Literals))


BAD_SCHEMAS: list[Any] = [
    3,
    {"type": "array"},
    {"type": "object", "oneOf": []},
    {"type": "object", "properties": {"a": {"anyOf": []}}, "additionalProperties": False},
    {"type": "object", "properties": {"a": {"items": {"$ref": "#/x"}}}, "additionalProperties": False},
    {"type": "object", "properties": {"a": {}}},
    {"type": "object", "patternProperties": {}},
    {"type": "object", "properties": {"connection_id": {}}, "additionalProperties": False},
    {"type": "object", "properties": {"a": {"not": {}}}, "additionalProperties": False},
    {"type": "object", "if": {}, "then": {}, "else": {}},
    {"type": "object", "maxProperties": float("nan")},
]


@pytest.mark.parametrize("schema", BAD_SCHEMAS)
def test_p0_refuses_schemas_outside_its_subset(schema: Any) -> None:
    with pytest.raises(InvalidValue):
        validate_tool_schema_p0(schema)


def test_p0_takes_properties_that_are_called_like_keywords() -> None:
    names = {"not": {"type": "string"}, "if": {"type": "string"}, "$ref": {"type": "string"}}
    validate_tool_schema_p0({"type": "object", "properties": names, "additionalProperties": False})


SCALARS = st.sampled_from([int, str, bool, float, Literal["p", "q"], Colour])
TYPES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(lambda kind: list[kind]),  # type: ignore[valid-type]
        inner.map(lambda kind: dict[str, kind]),  # type: ignore[valid-type]
        inner.map(lambda kind: kind | None),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: make_dataclass(
                f"D{abs(hash(tuple(map(str, kinds))))}", [(f"f{i}", k) for i, k in enumerate(kinds)]
            )
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TYPES, st.booleans(), st.text(max_size=20)), max_size=4))
def test_any_generated_dataclass_compiles_into_the_subset(parts: list[tuple[Any, bool, str]]) -> None:
    fields: list[Any] = []
    for index, (kind, optional, text) in enumerate(parts):
        default: Any = {"default": None} if optional else {}
        declared = kind | None if optional else kind
        fields.append((f"f{index}", declared, field(metadata={"description": text}, **default)))
    cls = make_dataclass("Generated", fields, kw_only=True)
    schema = compile_schema(cls)
    validate_tool_schema_p0(schema)
    encoded = canonical_json.encode(schema)
    assert encoded == canonical_json.encode(compile_schema(cls))
    for word in (b"$ref", b"anyOf", b'"title"', b'"default"'):
        assert word not in encoded
    assert set(schema["properties"]) == {entry.name for entry in dataclasses.fields(cls)}
    assert set(schema.get("required", [])) == {f"f{i}" for i, part in enumerate(parts) if not part[1]}


@settings(max_examples=60, deadline=None)
@given(st.builds(Inner, st.integers(-(2**53) + 1, 2**53 - 1)), st.one_of(st.none(), st.text(max_size=5)))
def test_a_value_survives_dump_and_parse(inner: Inner, text: str | None) -> None:
    cls = make_dataclass("Pair", [("inner", Inner), ("text", str | None)])
    value = cls(inner, text)
    encoded = ResultCodec(cls).dump(value)
    assert ParamsCodec(cls, compile_schema(cls)).parse(encoded) == value
    assert ResultCodec(cls).load(encoded) == value
