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
        ({"boxes": 1}, "city: is required"),
        ({"city": "R"}, "city: must have at least 2 characters"),
        ({"city": "secret-secret"}, "city: must have at most 5 characters"),
        ({"city": None}, "city: must be a string"),
        ({"city": "Rome", "boxes": "secret"}, "boxes: must be an integer"),
        ({"city": "Rome", "boxes": 0}, "boxes: must be at least 1"),
        ({"city": "Rome", "speed": "secret"}, "speed: one of slow, fast"),
        (
            {"city": "Rome", "town": "secret"},
            "unknown field town; known: address, boxes, city, none, note, part, parts, speed",
        ),
        ({"city": "Rome", "address": {"street": 7}}, "address.street: must be a string"),
        ({"city": "Rome", "address": "secret"}, "address: must be an object"),
        ({"city": "Rome", "parts": [{"id": 1}, {}]}, "parts[1].id: is required"),
        ({"city": "Rome", "parts": [{"id": "secret"}]}, "parts[0].id: must be an integer or null"),
        ({"city": "Rome", "parts": [{"id": 1}] * 3}, "parts: must have at most 2 items"),
        ({"city": "Rome", "part": {"id": "secret"}}, "part.id: must be an integer or null"),
        ({"city": "Rome", "part": 7}, "part: must be an object or null"),
        ({"city": "Rome", "none": [7]}, "none[0]: is not allowed"),
        ({"city": "Rome", "note": 7}, "note: must be a string or true or false"),
    ],
)
def test_the_argument_and_what_its_schema_wants_are_named_and_no_value(arguments: dict[str, Any], problem: str) -> None:
    assert argument_problem(SCHEMA, arguments) == problem
