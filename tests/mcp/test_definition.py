"""The definition of a server's tool: what its pin covers, what its hints say, and how a change is shown."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.mcp import Change, ToolDefinition, difference, effect_by_hints
from demiurge.mcp.definition import MAX_DEFINITION_BYTES, is_idempotent
from demiurge.tools import ToolEffect

LISTED: dict[str, Any] = {
    "name": "send",
    "title": "Send",
    "description": "Sends a message.",
    "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}},
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": False},
}


def test_a_definition_comes_back_from_the_protocols_json() -> None:
    definition = ToolDefinition.of_json({**LISTED, "size": 1})
    assert definition.to_json() == LISTED
    assert ToolDefinition.of_json(definition.to_json()) == definition
    more = {**LISTED, "_meta": {"x": 1}, "icons": [{"src": "https://example.com/i.png"}]}
    assert ToolDefinition.of_json(more).to_json() == more
    assert ToolDefinition.of_json(more).pin != definition.pin
    text = json.dumps(LISTED, sort_keys=True, separators=(",", ":"))
    assert definition.pin == f"sha256:{sha256(text.encode()).hexdigest()}"


@pytest.mark.parametrize("name", list(LISTED))
def test_the_pin_covers_each_field(name: str) -> None:
    other: dict[str, Any] = {"name": "sent", "title": None, "description": "Sends a message. ", "outputSchema": None}
    changed = {**LISTED, name: other.get(name, {"type": "object", "x": 1})}
    assert ToolDefinition.of_json(changed).pin != ToolDefinition.of_json(LISTED).pin


def test_the_pin_does_not_depend_on_the_order_of_keys() -> None:
    backwards = {**LISTED, "inputSchema": dict(reversed(LISTED["inputSchema"].items()))}
    assert ToolDefinition.of_json(backwards).pin == ToolDefinition.of_json(LISTED).pin


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "x" * 129},
        {"name": None},
        {"description": 3},
        {"inputSchema": None},
        {"inputSchema": []},
        {"annotations": "read only"},
        {"inputSchema": {"maximum": 2**60}},
        {"description": "x" * MAX_DEFINITION_BYTES},
        {"description": "\ud800"},
    ],
)
def test_a_definition_of_another_form_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        ToolDefinition.of_json({**LISTED, **change})


@pytest.mark.parametrize(
    ("hints", "effect"),
    [
        (None, None),
        ({}, None),
        ({"title": "x"}, None),
        ({"readOnlyHint": "yes"}, None),
        ({"readOnlyHint": True}, ToolEffect.READ_ONLY),
        ({"readOnlyHint": True, "openWorldHint": True}, ToolEffect.READ_ONLY),
        ({"readOnlyHint": True, "destructiveHint": True}, ToolEffect.EXTERNAL_SIDE_EFFECT),
        ({"readOnlyHint": False, "openWorldHint": False}, ToolEffect.STATE_CHANGE),
        ({"idempotentHint": True}, ToolEffect.EXTERNAL_SIDE_EFFECT),
        ({"destructiveHint": False}, ToolEffect.EXTERNAL_SIDE_EFFECT),
    ],
)
def test_the_effect_by_hints(hints: dict[str, Any] | None, effect: ToolEffect | None) -> None:
    definition = ToolDefinition("x", annotations=hints)
    assert effect_by_hints(definition) is effect
    assert is_idempotent(definition) is (hints == {"idempotentHint": True})


def test_a_change_is_shown_at_its_place_with_hidden_characters_spelled() -> None:
    old = ToolDefinition.of_json(LISTED)
    new = ToolDefinition.of_json(
        {
            **LISTED,
            "description": "Sends a message.\u202e Then \u200bmore.",
            "inputSchema": {"type": "object", "properties": {"to": {"type": "string", "maxLength": 1}, "cc": True}},
            "outputSchema": None,
        }
    )
    assert difference(old, new) == [
        Change("description", "Sends a message.", "Sends a message.<U+202E> Then <U+200B>more."),
        Change("inputSchema/properties/to/maxLength", None, "1"),
        Change("inputSchema/properties/cc", None, "true"),
        Change("outputSchema", '{"type": "object"}', None),
    ]
    assert difference(old, old) == []


def test_a_change_of_type_alone_is_a_change() -> None:
    old, new = (ToolDefinition("x", input_schema={"default": value}) for value in (1, "1"))
    assert difference(old, new) == [Change("inputSchema/default", "1", '"1"')]
    assert difference(ToolDefinition("x", input_schema={"a": True}), ToolDefinition("x", input_schema={"a": 1})) == [
        Change("inputSchema/a", "true", "1")
    ]


def test_a_new_tool_differs_in_every_field() -> None:
    assert [change.place for change in difference(None, ToolDefinition.of_json(LISTED))] == list(LISTED)
    assert [change.after for change in difference(ToolDefinition.of_json(LISTED), None)] == [None] * len(LISTED)
