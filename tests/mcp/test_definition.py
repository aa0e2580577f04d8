"""The definition of a server's tool: what its pin covers, what its hints say, and how a change is shown."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.mcp import Change, ToolDefinition, difference, effect_by_hints
from demiurge.mcp.definition import (
    MAX_ARGUMENTS,
    MAX_DEFINITION_BYTES,
    MAX_TOOL_NAME,
    MAX_URI,
    effect_by_annotations,
    is_idempotent,
)
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


PROMPT: dict[str, Any] = {"kind": "prompt", "name": "greet", "arguments": [{"name": "who"}]}
RESOURCE: dict[str, Any] = {"kind": "resource", "name": "one", "uri": "note://one"}
TEMPLATE: dict[str, Any] = {"kind": "template", "name": "any", "uriTemplate": "note://{id}"}

A_NAME = f"name: must be text of 1 to {MAX_TOOL_NAME} characters"
A_LONG_NAME = f"name: must be text of 1 to {MAX_URI} characters"
AN_ADDRESS = f"uri: must be an address of at most {MAX_URI} characters, such as file:///a"
NAMES = "arguments: each needs a name of its own"
NAME_SIZE = f"arguments: a name has 1 to {MAX_TOOL_NAME} characters"
TEXTS = "arguments: its name, title and description are text, and 'required' is true or false"
LIST = f"arguments: must be a list of at most {MAX_ARGUMENTS}"


@pytest.mark.parametrize(
    ("listed", "change", "problem"),
    [
        (LISTED, {"kind": "toll"}, "kind: is one of tool, prompt, resource, template"),
        (LISTED, {"name": ""}, A_NAME),
        (LISTED, {"name": "x" * (MAX_TOOL_NAME + 1)}, A_NAME),
        (LISTED, {"name": None}, A_NAME),
        (LISTED, {"title": 3}, "title: must be text"),
        (LISTED, {"description": 3}, "description: must be text"),
        (LISTED, {"inputSchema": None}, "input_schema: must be an object"),
        (LISTED, {"inputSchema": []}, "input_schema: must be an object"),
        (LISTED, {"outputSchema": []}, "output_schema: must be an object"),
        (LISTED, {"annotations": "read only"}, "annotations: must be an object"),
        (PROMPT, {"name": "x" * (MAX_TOOL_NAME + 1)}, A_NAME),
        (PROMPT, {"name": "gre\u200bet"}, "name: a name may have no hidden characters"),
        (PROMPT, {"arguments": {"name": "who"}}, LIST),
        (PROMPT, {"arguments": "who"}, LIST),
        (PROMPT, {"arguments": [{"name": f"a{at}"} for at in range(MAX_ARGUMENTS + 1)]}, LIST),
        (PROMPT, {"arguments": [{"name": "who"}, {"name": "who"}]}, NAMES),
        (PROMPT, {"arguments": ["who"]}, NAMES),
        (PROMPT, {"arguments": [{"name": ""}]}, NAME_SIZE),
        (PROMPT, {"arguments": [{}]}, NAME_SIZE),
        (PROMPT, {"arguments": [{"name": "x" * (MAX_TOOL_NAME + 1)}]}, NAME_SIZE),
        (PROMPT, {"arguments": [{"name": "who", "title": 1}]}, TEXTS),
        (PROMPT, {"arguments": [{"name": "who", "description": 1}]}, TEXTS),
        (PROMPT, {"arguments": [{"name": "who", "required": "yes"}]}, TEXTS),
        (RESOURCE, {"name": "x" * (MAX_URI + 1)}, A_LONG_NAME),
        (RESOURCE, {"uri": None}, AN_ADDRESS),
        (RESOURCE, {"uri": "no address"}, AN_ADDRESS),
        (RESOURCE, {"uri": f"note:{'x' * (MAX_URI - 4)}"}, AN_ADDRESS),
        (RESOURCE, {"uri": "note://o\u200bne"}, "uri: an address may have no hidden characters"),
        (RESOURCE, {"mimeType": 3}, "mime_type: must be text"),
        (TEMPLATE, {"uriTemplate": None, "uri": "note://one"}, AN_ADDRESS),
        (TEMPLATE, {"annotations": []}, "annotations: must be an object"),
    ],
)
def test_a_definition_of_another_form_is_refused(listed: dict[str, Any], change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        ToolDefinition.of_json({**listed, **change})
    assert (str(refused.value), refused.value.path) == (problem, problem.partition(":")[0])


@pytest.mark.parametrize("change", [{"inputSchema": {"maximum": 2**60}}, {"description": "\ud800"}])
def test_a_definition_that_no_canonical_json_can_hold_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        ToolDefinition.of_json({**LISTED, **change})


def test_a_definition_is_an_object() -> None:
    with pytest.raises(InvalidValue) as refused:
        ToolDefinition.of_json([])  # type: ignore[arg-type]
    assert str(refused.value) == "a tool's definition must be an object"


def test_a_definition_has_a_limited_size() -> None:
    beside = ToolDefinition("x", description="").size
    most = ToolDefinition("x", description="x" * (MAX_DEFINITION_BYTES - beside))
    assert most.size == MAX_DEFINITION_BYTES
    with pytest.raises(InvalidValue) as refused:
        ToolDefinition("x", description="x" * (MAX_DEFINITION_BYTES - beside + 1))
    assert (
        str(refused.value)
        == f"the definition has {MAX_DEFINITION_BYTES + 1} bytes, and {MAX_DEFINITION_BYTES} is the most"
    )


@pytest.mark.parametrize(
    "definition",
    [
        {**LISTED, "name": "x" * MAX_TOOL_NAME},
        {**PROMPT, "name": "x" * MAX_TOOL_NAME, "arguments": [{"name": f"a{at}"} for at in range(MAX_ARGUMENTS)]},
        {**PROMPT, "arguments": [{"name": "x" * MAX_TOOL_NAME}, {"name": "y"}]},
        {**RESOURCE, "name": "x" * MAX_URI, "uri": f"note:{'x' * (MAX_URI - 5)}"},
    ],
)
def test_a_definition_may_reach_each_limit(definition: dict[str, Any]) -> None:
    assert ToolDefinition.of_json(definition).to_json() == definition


ADDRESS = {"type": "string", "maxLength": MAX_URI, "description": "An address of the template."}


@pytest.mark.parametrize(
    ("listed", "kept", "schema", "label"),
    [
        (LISTED, LISTED, LISTED["inputSchema"], "send"),
        (
            {**PROMPT, "title": "Greet", "description": "Greets."},
            {**PROMPT, "title": "Greet", "description": "Greets."},
            {"type": "object", "properties": {"who": {"type": "string"}}, "additionalProperties": False},
            "prompt:greet",
        ),
        (
            {
                **PROMPT,
                "arguments": [
                    {"name": "who", "title": "Who", "description": "The name.", "required": True, "more": 1},
                    {"name": "how", "title": None, "required": False},
                ],
                "inputSchema": {"x": 1},
                "outputSchema": {"x": 1},
                "icons": None,
                "_meta": {"a": 1},
            },
            {
                "kind": "prompt",
                "name": "greet",
                "arguments": [
                    {"name": "who", "title": "Who", "description": "The name.", "required": True},
                    {"name": "how"},
                ],
                "_meta": {"a": 1},
            },
            {
                "type": "object",
                "properties": {
                    "who": {"type": "string", "title": "Who", "description": "The name."},
                    "how": {"type": "string"},
                },
                "additionalProperties": False,
                "required": ["who"],
            },
            "prompt:greet",
        ),
        (
            {**PROMPT, "arguments": None},
            {**PROMPT, "arguments": []},
            {"type": "object", "properties": {}, "additionalProperties": False},
            "prompt:greet",
        ),
        (
            {**RESOURCE, "mimeType": "text/plain", "outputSchema": {}, "arguments": [{"name": "x"}], "size": 9},
            {**RESOURCE, "mimeType": "text/plain"},
            {"type": "object", "properties": {}, "additionalProperties": False},
            "resource:note://one",
        ),
        (
            {**TEMPLATE, "mimeType": "text/plain", "annotations": {"priority": 1}},
            {**TEMPLATE, "mimeType": "text/plain", "annotations": {"priority": 1}},
            {"type": "object", "properties": {"uri": ADDRESS}, "required": ["uri"], "additionalProperties": False},
            "template:note://{id}",
        ),
    ],
)
def test_each_kind_keeps_the_fields_that_its_pin_covers(
    listed: dict[str, Any], kept: dict[str, Any], schema: dict[str, Any], label: str
) -> None:
    definition = ToolDefinition.of_json(listed)
    assert definition.to_json() == kept
    assert definition.input_schema == schema
    assert definition.output_schema == kept.get("outputSchema")
    assert definition.label == label
    text = json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()
    assert (definition.pin, definition.size) == (f"sha256:{sha256(text).hexdigest()}", len(text))
    assert ToolDefinition.of_json(definition.to_json()) == definition
    of_tool = ToolEffect.EXTERNAL_SIDE_EFFECT
    assert effect_by_hints(definition) is (of_tool if listed is LISTED else ToolEffect.READ_ONLY)
    assert is_idempotent(definition) is (listed is not LISTED)


def test_a_tool_has_no_address_type_or_arguments() -> None:
    more = {"uri": "note://one", "uriTemplate": "note://one", "mimeType": "text/plain", "arguments": [{"name": "who"}]}
    definition = ToolDefinition.of_json({**LISTED, **more})
    assert definition == ToolDefinition.of_json(LISTED)
    assert (definition.uri, definition.mime_type, definition.arguments) == (None, None, ())


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
    assert effect_by_annotations(hints or {}) is effect
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


def test_a_change_is_shown_as_it_is_written_with_its_keys_in_order() -> None:
    old, new = (
        ToolDefinition("x", input_schema={"default": value, "e\u200b": 1})
        for value in ([{"b": "é", "a": 1}], [{"b": "ö", "a": 1}])
    )
    assert difference(old, new) == [
        Change("inputSchema/default", '[{"a": 1, "b": "é"}]', '[{"a": 1, "b": "ö"}]'),
    ]
    assert [change.place for change in difference(None, old)] == ["name", "inputSchema"]
    bare = ToolDefinition("x", input_schema={"default": [{"b": "é", "a": 1}]})
    assert difference(bare, old) == [Change("inputSchema/e<U+200B>", None, "1")]


def test_a_new_tool_differs_in_every_field() -> None:
    assert [change.place for change in difference(None, ToolDefinition.of_json(LISTED))] == list(LISTED)
    assert [change.after for change in difference(ToolDefinition.of_json(LISTED), None)] == [None] * len(LISTED)
