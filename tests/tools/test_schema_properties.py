"""Whatever type an author writes: its schema is in the subset, says what the parser does, and is the same in every
process; or the type is refused where the tool is made."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import AliasChoices, AliasPath, BaseModel, Field, create_model
from tests.tools.schema_values import perturbed
from tests.tools.type_specs import (
    PARAMS,
    REFUSED,
    SPECS,
    Spec,
    build,
    default_of,
    doc_of,
    encoded,
    expected,
    objects,
    values,
)

from demiurge.errors import InvalidValue
from demiurge.tools import Tool, ToolValidationError, compile_schema, validate_tool_schema_p0
from demiurge.tools.authoring.params import ParamsCodec, ResultCodec

ROOT = Path(__file__).parents[2]
SUBSET = {
    *("additionalProperties", "description", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "items"),
    *("maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum"),
    *("multipleOf", "pattern", "properties", "required", "type", "uniqueItems"),
}


def subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for child in schema.get("properties", {}).values():
            yield from subschemas(child)
        yield from subschemas(schema.get("items"))
        yield from subschemas(schema.get("additionalProperties"))


def judge(schema: Any) -> Any:
    return jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker())


def is_accepted(codec: ParamsCodec, value: Any) -> bool:
    try:
        codec.parse(json.dumps(value))
    except ToolValidationError as error:
        return not error.fields
    return True


def has_whole_float(value: Any) -> bool:
    """1.0 is an integer to JSON Schema, and not to us."""
    if isinstance(value, list | dict):
        return any(has_whole_float(item) for item in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and value.is_integer()


@settings(max_examples=150, deadline=None)
@given(PARAMS)
def test_a_type_compiles_into_exactly_the_schema_that_it_describes(spec: Spec) -> None:
    schema = compile_schema(build(spec))
    assert schema == expected(spec)
    assert json.dumps(schema) == json.dumps(schema, sort_keys=True)
    validate_tool_schema_p0(schema)
    jsonschema.Draft7Validator.check_schema(schema)
    assert all(set(node) <= SUBSET for node in subschemas(schema))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_value_that_fits_is_taken_and_survives_dump_and_load(data: st.DataObject) -> None:
    spec = data.draw(PARAMS)
    kind = build(spec)
    schema = compile_schema(kind)
    value = data.draw(values(spec))
    assert judge(schema).is_valid(value)
    params = ParamsCodec(kind, schema).parse(json.dumps(value))
    codec = ResultCodec(kind)
    assert codec.load(codec.dump(params)) == params


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_value_is_taken_exactly_if_the_schema_accepts_it(data: st.DataObject) -> None:
    """But for null, which is always taken for an optional field, and 1.0, which is never taken for an integer."""
    spec = data.draw(PARAMS)
    kind = build(spec)
    schema = compile_schema(kind)
    codec, strict, lenient = ParamsCodec(kind, schema), judge(schema), judge(expected(spec, lenient=True))
    for value in perturbed(data.draw(values(spec))):
        if isinstance(value, dict) and not has_whole_float(value):
            verdict = is_accepted(codec, value)
            assert verdict == lenient.is_valid(value), value
            assert verdict or not strict.is_valid(value), value


@settings(max_examples=60, deadline=None)
@given(objects(SPECS, ["function"]))
def test_a_functions_parameters_are_described_like_fields(spec: Spec) -> None:
    assume(len(spec["fields"]) != 1)  # one dataclass alone is the parameters themselves
    spec = {**spec, "fields": [{**entry, "alias": None} for entry in spec["fields"]]}
    for entry in spec["fields"]:
        entry["how"] = {"metadata": "doc"}.get(entry["how"], entry["how"])
        entry["text"] = " ".join(entry["text"].split()) or "x" if entry["how"] == "doc" else entry["text"]
    kinds = build({**spec, "form": "frozen"}).__dataclass_fields__
    parameters = []
    for entry in spec["fields"]:
        default = default_of(entry, build(entry["type"]))
        kept = inspect.Parameter.empty if default is ... else default
        parameters.append(inspect.Parameter(entry["name"], inspect.Parameter.KEYWORD_ONLY, default=kept))

    def function(**given: Any) -> None:
        return None

    function.__doc__ = f"Does it.\n\n{doc_of(spec) or ''}"
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {name: entry.type for name, entry in kinds.items()}
    assert Tool.wrap(function).spec.input_schema == expected({**spec, "form": "frozen"})


@st.composite
def spoilt(draw: Any) -> Spec:
    """A type with something in it, at any depth, that must be refused."""
    bad: Spec = {"k": "refused", "of": draw(st.sampled_from(sorted(REFUSED)))}
    for wrapper in draw(st.lists(st.sampled_from(["list", "dict", "optional", "dataclass", "model"]), max_size=3)):
        if wrapper in ("dataclass", "model"):
            entry = {"name": "alpha", "type": bad, "how": "none", "text": None, "alias": None}
            bad = {"k": "object", "form": wrapper, "fields": [entry], "doc": ""}
        else:
            bad = {"k": wrapper, "of": bad} if wrapper == "optional" else {"k": wrapper, "item": bad}
    return {
        "k": "object",
        "form": "dataclass",
        "fields": [{"name": "items", "type": bad, "how": "none", "text": None, "alias": None}],
        "doc": "",
    }


@settings(max_examples=150, deadline=None)
@given(spoilt())
def test_a_type_that_can_not_be_said_or_given_is_refused_at_any_depth(spec: Spec) -> None:
    with pytest.raises(InvalidValue):
        compile_schema(build(spec))


@settings(max_examples=2, deadline=None)
@given(st.lists(PARAMS, min_size=12, max_size=12))
def test_the_bytes_are_the_same_in_every_process(specs: list[Spec]) -> None:
    here = encoded(specs)
    assert encoded(specs) == here
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        done = subprocess.run(
            [sys.executable, "-m", "tests.tools.type_specs"],
            input=json.dumps(specs),
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout) == here


class Aliased(BaseModel, populate_by_name=True):
    number: int = Field(alias="No.", description="how many")


@dataclass
class Derived:
    given: int
    derived: int = field(init=False, default=0)
    empty: None = None


def faults(kind: Any, value: Any) -> tuple[str, ...]:
    with pytest.raises(ToolValidationError) as caught:
        ParamsCodec(kind, compile_schema(kind)).parse(json.dumps(value))
    return caught.value.fields


def test_a_field_is_given_by_its_one_name() -> None:
    assert list(compile_schema(Aliased)["properties"]) == ["No."]
    assert faults(Aliased, {"number": 1}) == ("No.: is required", "unknown field; known: No.")
    for alias in (AliasChoices("a", "b"), AliasPath("a", 0)):
        with pytest.raises(InvalidValue):
            compile_schema(create_model("M", x=(int, Field(validation_alias=alias))))


def test_a_field_that_can_not_be_given_is_not_described() -> None:
    schema = compile_schema(Derived)
    assert schema["properties"] == {"given": {"type": "integer"}, "empty": {"type": "null"}}
    assert faults(Derived, {"given": 1, "derived": 2}) == ("unknown field; known: empty, given",)


def test_a_choice_without_members_is_refused() -> None:
    with pytest.raises(InvalidValue):
        compile_schema(make_dataclass("C", [("x", Enum("Empty", {}))]))


def test_equal_types_have_equal_schemas_whatever_was_made_before() -> None:
    """typing keeps one of two equal unions, the one that it met first."""
    one, two = Optional[Literal["b", "a", 1]], Optional[Literal[1, "a", "b"]]  # noqa: UP045
    assert one == two
    schemas = [compile_schema(make_dataclass("C", [("x", kind)])) for kind in (one, two, Literal["a", 1, "b"] | None)]
    assert schemas[0] == schemas[1] == schemas[2]
    assert schemas[0]["properties"]["x"]["enum"] == [1, "a", "b", None]


@dataclass
class Referring:
    ref: Annotated[str, Field(alias="$ref")] = "#/nowhere"


@dataclass
class Outer:
    nested: Referring = field(default_factory=Referring)
    opaque: Any = object()  # noqa: RUF009


def test_a_default_is_never_read_as_a_schema() -> None:
    schema = compile_schema(Outer)
    assert schema["properties"]["nested"]["properties"] == {"$ref": {"type": "string"}}
    assert schema["properties"]["opaque"] == {}
    model = create_model("M", nested=(dict[str, str], {"$ref": "#/nowhere"}))
    assert compile_schema(model)["properties"]["nested"] == {
        "type": "object",
        "additionalProperties": {"type": "string"},
    }


@dataclass
class Exact:
    one: Literal[1, "a"] = 1
    flag: Literal[True] = True
    once: frozenset[float] = frozenset()
    price: Decimal | None = None
    deep: dict[str, list[Literal[0]]] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"one": True}, "one: one of 1, a"),
        ({"flag": 1}, "flag: must be true"),
        ({"once": [1, 2, 1.0]}, "once: must not have the same item twice"),
        ({"price": 12.5}, "price: must be a string"),
        ({"price": "1e5"}, "price: must be a decimal number in a string, such as 12.50"),
        ({"price": "1\n"}, "price: must be a decimal number in a string, such as 12.50"),
        ({"deep": {"secret": [0, False]}}, "deep[*][1]: must be 0"),
    ],
)
def test_values_that_python_compares_equal_are_told_apart_by_their_json_type(value: Any, said: str) -> None:
    assert faults(Exact, value) == (said,)


def test_equal_json_values_in_another_notation_are_accepted() -> None:
    codec = ParamsCodec(Exact, compile_schema(Exact))
    value = {"one": 1.0, "flag": True, "once": [1, 2.5], "price": "-0.10", "deep": {"k": [0, 0]}}
    assert codec.parse(json.dumps(value)).price == Decimal("-0.10")
    assert codec.parse('{"price": null}').price is None
