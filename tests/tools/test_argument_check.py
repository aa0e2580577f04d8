"""What a world says of a call's arguments before it runs: never stricter than the runner, and never to change."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tools.schema_values import perturbed
from tests.tools.type_specs import PARAMS, build, values

from demiurge.errors import InvalidValue
from demiurge.tools import ToolValidationError, compile_schema
from demiurge.tools.argument_check import MAX_STEPS, may_fit
from demiurge.tools.authoring.params import ParamsCodec
from demiurge.tools.foreign.schema import ForeignSchema


def typed(expr: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": expr}, "required": ["x"], "additionalProperties": False, **more}


REFUSED: list[tuple[dict[str, Any], Any]] = [
    ({"type": "integer"}, "1"),
    ({"type": "integer"}, 1.5),
    ({"type": "integer"}, True),
    ({"type": "integer"}, None),
    ({"type": "number"}, "1.5"),
    ({"type": "string"}, 1),
    ({"type": "boolean"}, 0),
    ({"type": "null"}, 0),
    ({"type": "array"}, {}),
    ({"type": "object"}, []),
    ({"type": ["string", "null"]}, 1),
    ({"enum": ["a", "b"]}, "c"),
    ({"enum": [1]}, True),
    ({"const": "a"}, "b"),
    ({"type": "integer", "minimum": 2}, 1),
    ({"type": "integer", "maximum": 2}, 3),
    ({"type": "number", "exclusiveMinimum": 2}, 2),
    ({"type": "number", "exclusiveMaximum": 2}, 2),
    ({"type": "string", "minLength": 2}, "a"),
    ({"type": "string", "maxLength": 2}, "abc"),
    ({"type": "array", "minItems": 1}, []),
    ({"type": "array", "maxItems": 1}, [1, 2]),
    ({"type": "array", "items": {"type": "string"}}, ["a", 1]),
    ({"type": "object", "properties": {"y": {"type": "string"}}}, {"y": 1}),
    ({"type": "object", "additionalProperties": {"type": "string"}}, {"y": 1}),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1),
    ({"$ref": "#/$defs/word"}, 1),
]
"""A part of a schema, and a value that breaks it."""

TAKEN: list[tuple[dict[str, Any], Any]] = [
    ({"type": "integer"}, 1),
    ({"type": "integer"}, 2**70),
    ({"type": "integer"}, 1.0),
    ({"type": "number"}, 1),
    ({"enum": ["a", None]}, None),
    ({"enum": [[1]]}, [2]),
    ({"type": "integer", "minimum": 2}, 2),
    ({"type": "string", "maxLength": 2}, "ab"),
    ({"type": "string", "pattern": "^a"}, "b"),
    ({"type": "string", "format": "date"}, "b"),
    ({"type": "object"}, {"any": 1}),
    ({"type": "object", "patternProperties": {"^y": {}}, "additionalProperties": False}, {"y": 1}),
    ({"type": "object", "properties": {"y": {"type": "string"}}}, {"y": None}),
    ({"type": "array", "items": [{"type": "string"}]}, [1]),
    ({"$ref": "https://example.org/else"}, 1),
    ({"$ref": "#/$defs/none"}, 1),
    ({"type": "strange"}, 1),
    ({"not": {}}, 1),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 1),
]
"""The same with one that fits, or of which nobody here can tell."""

DEFS = {"$defs": {"word": {"type": "string"}}}


@pytest.mark.parametrize(("expr", "value"), REFUSED)
def test_arguments_that_break_the_schema_are_told(expr: dict[str, Any], value: Any) -> None:
    assert not may_fit(typed(expr, **DEFS), {"x": value})


@pytest.mark.parametrize(("expr", "value"), TAKEN)
def test_a_value_that_fits_or_cannot_be_told_is_left_to_the_runner(expr: dict[str, Any], value: Any) -> None:
    assert may_fit(typed(expr, **DEFS), {"x": value})


def test_fields_that_lack_or_that_nobody_knows_are_told() -> None:
    assert not may_fit(typed({}), {})
    assert not may_fit(typed({}), {"x": 1, "y": 2})
    assert may_fit(typed({}, additionalProperties=True), {"x": 1, "y": 2})


def test_no_schema_and_no_arguments_take_long() -> None:
    loop = typed({"$ref": "#"})
    deep: Any = 1
    for _ in range(5000):
        deep = {"x": deep}
    assert may_fit(loop, deep)
    assert may_fit(typed({"$ref": "#/properties/x"}), {"x": 1})
    assert may_fit(typed({"items": {"type": "string"}}), {"x": [*["a"] * MAX_STEPS, 1]})


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_runner_refuses_all_arguments_that_may_fit_refuses(data: st.DataObject) -> None:
    spec = data.draw(PARAMS)
    kind = build(spec)
    schema = compile_schema(kind)
    codec, foreign = ParamsCodec(kind, schema), _foreign(schema)
    for value in perturbed(data.draw(values(spec))):
        if isinstance(value, dict) and not may_fit(schema, value):
            text = json.dumps(value)
            with pytest.raises(ToolValidationError):
                codec.parse(text)
            if foreign is not None:
                with pytest.raises(ToolValidationError):
                    foreign.check(value, len(text))


def _foreign(schema: dict[str, Any]) -> ForeignSchema | None:
    try:
        return ForeignSchema(schema)
    except InvalidValue:
        return None
