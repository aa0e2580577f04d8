"""Requests in the three wire formats: for each behaviour one test, with what each format sends as its rows.
What a single format can do stands in `test_openai_chat.py`, `test_anthropic.py` and `test_openai_responses.py`."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from tests.wire import chat_bodies as chat
from tests.wire import messages_bodies as messages
from tests.wire.formats import table

from demiurge.errors import InvalidValue
from demiurge.tools.effect import ToolEffect
from demiurge.tools.spec import ToolSpec
from demiurge.wire import (
    Audio,
    Image,
    Item,
    Message,
    NamedTool,
    Opaque,
    Reasoning,
    Text,
    TextFormat,
    ToolCall,
    ToolChoice,
    ToolOutput,
    openai_responses,
)

PATH = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
EMPTY = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
READ = {"name": "docs__read", "description": "Read a file."}
PING = {"name": "docs__ping", "description": "Ping."}
TOOLS = [
    ToolSpec("docs__read", "Read a file.", PATH, ToolEffect.READ_ONLY),
    ToolSpec("docs__ping", "Ping.", EMPTY),
]
SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
HIDDEN = {"type": "redacted_thinking", "data": "xyz"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def message_of(*texts: str, role: str = "assistant") -> Message:
    return Message(role, tuple(map(Text, texts)))


@table(
    "expected",
    chat=[
        (
            [
                {"type": "function", "function": {**READ, "parameters": PATH}},
                {"type": "function", "function": {**PING, "parameters": EMPTY}},
            ],
        )
    ],
    messages=[([{**READ, "input_schema": PATH}, {**PING, "input_schema": EMPTY}],)],
    responses=[
        (
            [
                {"type": "function", **READ, "parameters": PATH, "strict": False},
                {"type": "function", **PING, "parameters": EMPTY, "strict": False},
            ],
        )
    ],
)
def test_tools_have_exactly_these_keys(wire: ModuleType, expected: list[Any]) -> None:
    assert wire.encode_tools(TOOLS) == {"tools": expected}
    assert json.dumps(wire.encode_tools(TOOLS)) == json.dumps(wire.encode_tools(TOOLS)), "the same bytes each time"


@table(
    "choice, expected",
    chat=[
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("docs__read"), {"type": "function", "function": {"name": "docs__read"}}),
    ],
    messages=[
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        (NamedTool("docs__read"), {"type": "tool", "name": "docs__read"}),
    ],
    responses=[
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("docs__read"), {"type": "function", "name": "docs__read"}),
    ],
)
def test_the_tool_choice(wire: ModuleType, choice: ToolChoice, expected: object) -> None:
    assert wire.encode_tools(TOOLS, choice) == {**wire.encode_tools(TOOLS), "tool_choice": expected}
    assert wire.encode_tools([], choice) == {}


ANSWER = {"name": "answer", "schema": {"type": "object"}}


@table(
    "strict, expected",
    chat=[(True, {"response_format": {"type": "json_schema", "json_schema": {**ANSWER, "strict": True}}})],
    messages=[(True, {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}})],
    responses=[(False, {"text": {"format": {"type": "json_schema", **ANSWER, "strict": False}}})],
)
def test_the_text_format(wire: ModuleType, strict: bool, expected: object) -> None:
    assert wire.encode_text_format(TextFormat("answer", '{"type": "object"}', strict=strict)) == expected
    with pytest.raises(InvalidValue):
        wire.encode_text_format(TextFormat("answer", "[]"))


@table(
    "expected",
    chat=[
        (
            [
                {"role": "system", "content": "Be brief.\n\nThe catalog."},
                {"role": "user", "content": "Hello"},
                {"role": "user", "content": "Are you there?"},
                {"role": "system", "content": "Be polite."},
                {"role": "developer", "content": "No jokes."},
            ],
        )
    ],
    messages=[("Be brief.\n\nThe catalog.\n\nBe polite.\n\nNo jokes.",)],
    responses=[
        (
            [
                ("system", "Be brief."),
                ("system", "The catalog."),
                ("user", "Hello"),
                ("user", "Are you there?"),
                ("system", "Be polite."),
                ("developer", "No jokes."),
            ],
        )
    ],
)
def test_two_system_messages_in_a_row_are_one_where_the_format_is_safer_with_one(
    wire: ModuleType, expected: object
) -> None:
    said = ("system", "Be brief."), ("system", "The catalog."), ("user", "Hello"), ("user", "Are you there?")
    items = [
        message_of(text, role=role) for role, text in (*said, ("system", "Be polite."), ("developer", "No jokes."))
    ]
    body = wire.encode_messages(items)
    if wire is openai_responses:
        assert [(entry["role"], entry["content"][0]["text"]) for entry in body["input"]] == expected
    else:
        assert body.get("system", body["messages"]) == expected


@table(
    "items, expected",
    chat=[
        (
            [
                message_of("Be ", "brief.", role="system"),
                Message("user", (Text("Look:"), Image("image/png", b"\x01\x02"), Audio("audio/mpeg", b"\x03"))),
                Reasoning(("Hm.",), {"reasoning_content": "Hm."}),
                message_of("I look."),
                ToolCall("call_1", "docs__read", '{"path":"a"}'),
                ToolCall("call_2", "docs__read", '{"path":', invalid=True),
                ToolOutput("call_1", "text of a"),
                ToolOutput("call_2", '{"ok": false}', is_error=True),
                message_of("Done."),
                message_of("Thanks.", role="user"),
                ToolCall("call_3", "docs__read", "{}"),
            ],
            {
                "messages": [
                    {"role": "system", "content": "Be brief."},
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "Look:"},
                            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQI="}},
                            {"type": "input_audio", "input_audio": {"data": "Aw==", "format": "mp3"}},
                        ],
                    },
                    {
                        "role": "assistant",
                        "content": "I look.",
                        "reasoning_content": "Hm.",
                        "tool_calls": [
                            chat.call("call_1", '{"path":"a"}', "docs__read"),
                            chat.call("call_2", '{"invalid_arguments": "{\\"path\\":"}', "docs__read"),
                        ],
                    },
                    {"role": "tool", "tool_call_id": "call_1", "content": "text of a"},
                    {"role": "tool", "tool_call_id": "call_2", "content": '{"ok": false}'},
                    {"role": "assistant", "content": "Done."},
                    {"role": "user", "content": "Thanks."},
                    {"role": "assistant", "content": None, "tool_calls": [chat.call("call_3", "{}", "docs__read")]},
                ]
            },
        )
    ],
    messages=[
        (
            [
                message_of("Be brief.", role="system"),
                Message("user", (Text("Look: "), Image("image/png", b"\x89P"))),
                Reasoning(("Hm.",), SIGNED),
                Reasoning((), HIDDEN),
                Opaque(SEARCH),
                Opaque(FOUND),
                message_of("I look."),
                ToolCall("toolu_1", "t", '{"path": "x"}'),
                ToolCall("toolu_2", "t", "{}"),
                ToolOutput("toolu_1", "text"),
                ToolOutput("toolu_2", "no", is_error=True),
                message_of("In French.", role="developer"),
                message_of("And now?", role="user"),
            ],
            {
                "system": "Be brief.\n\nIn French.",
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            messages.text("Look: "),
                            {
                                "type": "image",
                                "source": {"type": "base64", "media_type": "image/png", "data": "iVA="},
                            },
                        ],
                    },
                    {
                        "role": "assistant",
                        "content": [
                            SIGNED,
                            HIDDEN,
                            SEARCH,
                            FOUND,
                            messages.text("I look."),
                            messages.call("toolu_1", {"path": "x"}),
                            messages.call("toolu_2"),
                        ],
                    },
                    {
                        "role": "user",
                        "content": [
                            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "text"},
                            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "no", "is_error": True},
                            messages.text("And now?"),
                        ],
                    },
                ],
            },
        )
    ],
    responses=[
        (
            [
                message_of("Be brief.", role="system"),
                Message("user", (Text("Look:"), Image("image/png", b"\x01\x02"), Audio("audio/x-wav", b"\x03"))),
                Reasoning(("thought",), {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}),
                message_of("One. ", "Two."),
                ToolCall("call_1", "docs__read", '{"path":"a"}'),
                ToolOutput("call_1", "text of a"),
                ToolOutput("call_2", '{"ok": false}', is_error=True),
                Opaque({"type": "web_search_call", "id": "ws_1", "status": "completed"}),
            ],
            {
                "input": [
                    {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "Be brief."}]},
                    {
                        "type": "message",
                        "role": "user",
                        "content": [
                            {"type": "input_text", "text": "Look:"},
                            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AQI="},
                            {"type": "input_audio", "input_audio": {"data": "Aw==", "format": "wav"}},
                        ],
                    },
                    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [
                            {"type": "output_text", "text": "One. "},
                            {"type": "output_text", "text": "Two."},
                        ],
                    },
                    {"type": "function_call", "call_id": "call_1", "name": "docs__read", "arguments": '{"path":"a"}'},
                    {"type": "function_call_output", "call_id": "call_1", "output": "text of a"},
                    {"type": "function_call_output", "call_id": "call_2", "output": '{"ok": false}'},
                    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
                ]
            },
        )
    ],
)
def test_a_conversation_has_exactly_these_keys(wire: ModuleType, items: list[Item], expected: object) -> None:
    assert wire.encode_messages(items) == expected


@table(
    "items, key",
    chat=[([Reasoning(("x",), {"type": "reasoning", "id": "rs_1"}), Opaque({"type": "web_search_call"})], "messages")],
    messages=[
        (
            [
                Reasoning(("Hm.",), {"type": "reasoning", "id": "rs_1", "summary": []}),
                Reasoning(("Hm.",), {"reasoning_content": "Hm."}),
                Reasoning(("Hm.",), None),
                Reasoning(("Hm.",), {**SIGNED, "signature": ""}),
                Opaque({"type": "file_search_call", "id": "fs_1"}),
                Opaque({"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}),
            ],
            "messages",
        )
    ],
    responses=[([Reasoning(("x",)), Reasoning((), {"reasoning_content": "x"}), Message("assistant", ())], "input")],
)
def test_reasoning_and_items_of_another_format_are_not_sent(wire: ModuleType, items: list[Item], key: str) -> None:
    assert wire.encode_messages(items) == {key: []}


@table(
    "item",
    chat=[(message_of("x", role="tool"),), (Message("assistant", (Image("image/png", b""),)),)],
    messages=[
        (message_of("x", role="critic"),),
        (Message("user", (Audio("audio/wav", b""),)),),
        (Message("assistant", (Image("image/png", b""),)),),
        (Message("system", (Image("image/png", b""),)),),
        (ToolCall("a", "t", "not checked"),),
    ],
    responses=[(message_of("x", role="tool"),), (Message("assistant", (Image("image/png", b""),)),)],
)
def test_an_item_that_the_format_cannot_express_is_refused(wire: ModuleType, item: Item) -> None:
    with pytest.raises(InvalidValue):
        wire.encode_messages([item])
