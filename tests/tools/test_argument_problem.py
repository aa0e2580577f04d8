"""The text that says which argument of a call does not fit the schema of its tool."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.tools.argument_problem import argument_problem

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2, "maxLength": 5},
        "boxes": {"type": "integer", "minimum": 1},
        "speed": {"enum": ["slow", "fast"]},
        "address": {"type": "object", "additionalProperties": {"type": "string"}},
        "parts": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/Part"}},
        "part": {"anyOf": [{"$ref": "#/$defs/Part"}, {"type": "null"}]},
        "none": {"type": "array", "items": False},
        "note": {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"Part": {"type": "object", "properties": {"id": {"type": ["integer", "null"]}}, "required": ["id"]}},
}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"city": "Rome"}, ""),
        ({"boxes": 1}, "city is missing"),
        ({"city": "R"}, "city must be a text of at least 2 characters"),
        ({"city": "secret-secret"}, "city must be a text of at most 5 characters"),
        ({"city": None}, "city must be a text"),
        ({"city": "Rome", "boxes": "secret"}, "boxes must be a whole number"),
        ({"city": "Rome", "boxes": 0}, "boxes must be at least 1"),
        ({"city": "Rome", "speed": "secret"}, 'speed must be one of "slow", "fast"'),
        ({"city": "Rome", "town": "secret"}, "town is not in the schema"),
        ({"city": "Rome", "address": {"street": 7}}, "address.street must be a text"),
        ({"city": "Rome", "address": "secret"}, "address must be an object"),
        ({"city": "Rome", "parts": [{"id": 1}, {}]}, "parts[1].id is missing"),
        ({"city": "Rome", "parts": [{"id": "secret"}]}, "parts[0].id must be a whole number or null"),
        ({"city": "Rome", "parts": [{"id": 1}] * 3}, "parts must be a list of at most 2 values"),
        ({"city": "Rome", "part": {"id": "secret"}}, "part.id must be a whole number or null"),
        ({"city": "Rome", "part": 7}, "part must be an object or null"),
        ({"city": "Rome", "none": [7]}, "none[0] is not in the schema"),
        ({"city": "Rome", "note": 7}, "note must be a text or true or false"),
    ],
)
def test_the_argument_and_what_its_schema_wants_are_named_and_no_value(arguments: dict[str, Any], problem: str) -> None:
    assert argument_problem(SCHEMA, arguments) == problem
