"""The typed edge is exact and its work is bounded, whatever a model or a handler gives it."""

from __future__ import annotations

import json
import math
from collections import deque
from dataclasses import dataclass, field, make_dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, computed_field
from pydantic_core import PydanticSerializationError

from demiurge.tools import ToolValidationError, compile_schema
from demiurge.tools.authoring.kinds import is_flat, kinds_of
from demiurge.tools.authoring.params import ParamsCodec, ParamsDump, ResultCodec


def broken(_: Any) -> Any:
    raise TypeError("canary-22d1")


@dataclass
class Params:
    numbers: list[int] = field(default_factory=list)
    unique: set[int] = field(default_factory=set)
    named: dict[str, int] = field(default_factory=dict)
    lists: list[set[int]] = field(default_factory=list)
    strange: Annotated[int, AfterValidator(broken)] = 0


CODEC = ParamsCodec(Params, compile_schema(Params))


def faults_of(arguments: Any) -> tuple[str, ...]:
    with pytest.raises(ToolValidationError) as caught:
        CODEC.parse(json.dumps(arguments))
    assert "canary" not in repr(caught.value.fields)
    return caught.value.fields


@pytest.mark.parametrize("name", ["numbers", "named"])
def test_many_faults_are_not_listed(name: str) -> None:
    few, many = (
        {"numbers": ["x"] * count, "named": {str(index): "x" for index in range(count)}}[name]
        for count in (1_000, 1_001)
    )
    assert faults_of({name: few}) != faults_of({name: many}) == ("the object has too many faults to list",)


def test_of_many_faults_against_the_schema_the_first_are_told() -> None:
    assert faults_of({"lists": [[1, 1]] * 100_000})[:2] == (
        "lists[0]: must not have the same item twice",
        "lists[1]: must not have the same item twice",
    )


def test_a_validator_that_breaks_is_a_fault_of_the_arguments() -> None:
    assert faults_of({"strange": 1}) == ("the object: is not valid",)


@pytest.mark.parametrize(
    ("kind", "taken", "refused"),
    [
        (datetime, ["2020-01-01T00:00:00Z", "2020-01-01T00:00"], ["-0", "5", "1577836800", "2020-01-01", 5]),
        (date, ["2020-01-01"], ["-0", "1577836800", 0]),
        (time, ["12:00", "12:00:01Z"], ["5", "12", 5]),
        (timedelta, ["PT1S", "-P1D"], ["12:00", "1 day", "5", 5]),
        (date | None, ["2020-01-01", None], ["1577836800"]),
    ],
)
def test_a_moment_has_the_form_that_the_schema_names(kind: Any, taken: list[Any], refused: list[Any]) -> None:
    params = make_dataclass("Params", [("at", list[kind])])
    codec = ParamsCodec(params, compile_schema(params))
    for value in taken:
        codec.parse(json.dumps({"at": [value]}))
    for value in refused:
        with pytest.raises(ToolValidationError) as caught:
            codec.parse(json.dumps({"at": [value]}))
        assert caught.value.fields[0].startswith("at[0]: must have the format ")


@dataclass
class Reading:
    value: float | None


class Lax(BaseModel):
    model_config = ConfigDict(extra="allow")
    value: float | None = None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("kind", "make"),
    [
        (Any, lambda number: number),
        (Any, lambda number: {"a": [1, (number,)]}),
        (dict, lambda number: {"a": number}),
        (float | None, lambda number: number),
        (list[float | None], lambda number: [number]),
        (Reading, Reading),
        (list[Reading], lambda number: [Reading(number)]),
        (Any, lambda number: [Reading(number)]),
        (Lax, lambda number: Lax(value=number)),
        (Lax, lambda number: Lax(other=number)),  # type: ignore[call-arg]
        (deque[float | None], lambda number: deque([number])),
    ],
)
def test_a_number_that_json_does_not_have_is_no_result(kind: Any, make: Any, number: float) -> None:
    codec = ResultCodec(kind)
    with pytest.raises(ToolValidationError):
        codec.dump(make(number))
    assert codec.load(codec.dump(make(1.5))) is not None


def test_null_is_a_result_beside_numbers() -> None:
    assert ResultCodec(list[float | None]).dump([None, 1.5]) == b"[null,1.5]"
    assert ResultCodec(Any).dump({"a": None, "b": "null"}) == b'{"a":null,"b":"null"}'


class Twice(BaseModel):
    a: int = Field(serialization_alias="b")

    @computed_field
    def b(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (dict, {1: "a", "1": "b"}),
        (Any, [{"deep": {None: 1, "None": 2}}]),
        (dict[Any, int], {2: 1, "2": 2}),
        (dict[int | str, int], {2: 1, "2": 2}),
        (dict[str, Any], {"a": {True: 1, "true": 2}}),
    ],
)
def test_two_keys_that_json_writes_alike_are_no_result(kind: Any, value: Any) -> None:
    with pytest.raises(ToolValidationError):
        ResultCodec(kind).dump(value)


def test_keys_that_are_no_text_are_written_as_text() -> None:
    assert ResultCodec(dict).dump({1: "a", "2": "b"}) == b'{"1":"a","2":"b"}'


@given(
    st.fixed_dictionaries({"a": st.integers(), "b": st.booleans(), "c": st.text(st.characters(codec="utf-8"))}),
    st.sets(st.integers(), max_size=5),
)
def test_parameters_are_dumped_alike_whatever_is_known_of_their_type(values: dict[str, Any], items: set[int]) -> None:
    flat = make_dataclass("Flat", [("a", int), ("b", bool), ("c", str, "")])
    nested = make_dataclass("Nested", [("flat", flat), ("items", set[int])])
    mixed = make_dataclass("Mixed", [("flat", flat), ("items", list[Any])])
    assert ParamsDump(flat)(flat(**values)) == (values, True)
    ordered = sorted(items, key=repr)
    assert ParamsDump(nested)(nested(flat(**values), items)) == ({"flat": values, "items": ordered}, True)
    assert ParamsDump(mixed)(mixed(flat(**values), ordered)) == ({"flat": values, "items": ordered}, True)


@dataclass
class Flat:
    a: int
    b: bool = True
    c: str = ""


@dataclass
class Longer(Flat):
    d: int = 0


class Word(StrEnum):
    W = "w"


_ANYTHING = (
    st.integers()
    | st.booleans()
    | st.text(st.characters(codec=None))
    | st.floats()
    | st.none()
    | st.binary()
    | st.sampled_from([Word.W, [], 10**5000])
)


@given(
    st.sampled_from([Flat, Longer]),
    st.integers() | _ANYTHING,
    st.booleans() | _ANYTHING,
    st.text() | _ANYTHING,
)
def test_a_flat_value_is_taken_for_what_pydantic_takes_it(kind: type[Flat], a: Any, b: Any, c: Any) -> None:
    value, adapter = kind(a, b, c), TypeAdapter(Flat)
    try:
        expected = adapter.dump_json(value, warnings="error")
        adapter.validate_json(expected, strict=True)
    except (PydanticSerializationError, ValueError):
        with pytest.raises(ToolValidationError):
            ResultCodec(Flat).dump(value)
    else:
        assert ResultCodec(Flat).dump(value) == expected
        assert ParamsDump(Flat)(value) == (json.loads(expected), True)


@dataclass
class Changed:
    a: int

    def __post_init__(self) -> None:
        self.a += 1


@pytest.mark.parametrize(
    ("kind", "flat"),
    [
        (make_dataclass("D", [("a", int), ("b", str, "x"), ("c", bool, field(default=False, kw_only=True))]), True),
        (make_dataclass("D", [("a", float)]), False),
        (make_dataclass("D", [("a", int | None)]), False),
        (make_dataclass("D", [("a", Annotated[int, Field(exclude=True)])]), False),
        (make_dataclass("D", [("a", Annotated[int, AfterValidator(abs)])]), False),
        (make_dataclass("D", [("a", int), ("b", int, field(default=0, init=False))]), False),
        (Changed, False),
        (Lax, False),
        (int, False),
    ],
)
def test_only_a_dataclass_of_plain_values_is_flat(kind: Any, flat: bool) -> None:
    assert is_flat(TypeAdapter(kind).core_schema) is flat


@pytest.mark.parametrize(
    ("kind", "is_open"),
    [
        (dict[str, list[int]], False),
        (Reading, False),
        (list[Reading | None], False),
        (dict[int, str], True),
        (dict, True),
        (list[Any], True),
        (object, True),
        (Lax, True),
        (Twice, True),
        (make_dataclass("D", [("type", int), ("default", dict[str, Any])]), True),
        (make_dataclass("D", [("type", int), ("default", dict[str, int])]), False),
    ],
)
def test_a_type_that_leaves_something_open_is_known(kind: Any, is_open: bool) -> None:
    assert ("any" in kinds_of(TypeAdapter(kind).core_schema)) is is_open
