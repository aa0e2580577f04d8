"""The arguments of a tool in words: type, choices, bounds, default, and the fields of nested objects."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.cli.tool_arguments import argument_rows, tool_lines


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "string"),
        ({}, "any"),
        (True, "any"),
        ({"enum": ["a", 1, None]}, '"a" or 1 or null'),
        ({"type": "string", "enum": ["long", "short"], "default": "short"}, '"long" or "short"; default "short"'),
        ({"const": "x"}, '"x"'),
        ({"type": "integer", "minimum": 0, "maximum": 50}, "integer, 0 to 50"),
        ({"type": "integer", "minimum": 1}, "integer, at least 1"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1.5}, "number, at most 1.5, above 0"),
        ({"type": "number", "exclusiveMaximum": 9, "multipleOf": 3}, "number, below 9, a multiple of 3"),
        ({"type": "string", "minLength": 1, "maxLength": 200}, "string, 1 to 200 characters"),
        ({"type": "string", "maxLength": 1}, "string, at most 1 character"),
        ({"type": "string", "pattern": "^a+$"}, "string, matching ^a+$"),
        ({"type": "string", "format": "date"}, "string, format date"),
        ({"type": "array", "items": {"type": "string"}}, "list of string"),
        (
            {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 3, "uniqueItems": True},
            'list of ("a" or "b"), 1 to 3 items, each once',
        ),
        ({"type": "array", "items": {"type": "integer", "minimum": 1}}, "list of (integer, at least 1)"),
        ({"type": "array"}, "list"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "object of integer"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 2}]}, "string or (integer, at least 2)"),
        ({"$ref": "#/$defs/Size"}, '"S" or "L"'),
        ({"$ref": "#/$defs/Missing"}, "any"),
        ({"type": "string", "default": "a\x1b\u202e"}, 'string; default "a\\u001b\\u202e"'),
    ],
)
def test_a_type_is_told_with_its_choices_bounds_and_default(schema: Any, words: str) -> None:
    root = {"properties": {"x": schema}, "$defs": {"Size": {"enum": ["S", "L"]}}}
    [row] = argument_rows(root)
    assert row.kind == words


def test_fields_of_objects_have_rows_of_their_own_and_required_ones_come_first() -> None:
    point = {"type": "object", "required": ["y"], "properties": {"x": {"type": "number"}, "y": {"type": "number"}}}
    schema = {
        "type": "object",
        "required": ["to"],
        "properties": {"points": {"type": "array", "items": point}, "to": point | {"description": "Where."}},
    }
    assert [row.name for row in argument_rows(schema)] == [
        "to",
        "to.y",
        "to.x (optional)",
        "points (optional)",
        "points[].y",
        "points[].x (optional)",
    ]
    assert argument_rows(schema)[0].about == "Where."


def test_a_schema_that_contains_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    rows = argument_rows({"properties": {"head": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}})
    assert 2 <= len(rows) < 10


def test_the_lines_of_a_tool_have_no_line_of_json() -> None:
    view = {
        "id": "zip_code",
        "effect": "read_only",
        "decision": "allow",
        "why": "it is among allowed_tools",
        "source": "yours",
        "trust": None,
        "tokens": 90,
        "spec_hash": "sha256:ab",
        "description": "Look up a code.",
        "details": "Only towns of Italy.",
        "input_schema": {"properties": {"town": {"type": "string", "description": "Its\nname."}}, "required": ["town"]},
        "redaction": {"mode": "message_only", "fields": []},
    }
    lines = tool_lines(view)
    assert lines[0] == "zip_code"
    assert "Only towns of Italy." in lines
    assert "The policy says allow: it is among allowed_tools." in " ".join(lines)
    assert ["town", "string", "Its", "name."] in [line.split() for line in lines]
    assert not any("{" in line for line in lines)
    assert "It takes no arguments." in tool_lines(view | {"input_schema": {"type": "object"}})
