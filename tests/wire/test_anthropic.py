"""What the Messages format alone can do. What it shares with the others:
`test_requests.py`, `test_answers.py`, `test_streams.py`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire import messages_bodies as messages
from tests.wire.formats import read_answer

from demiurge.tools.events import AiEvent, Status, TextDelta
from demiurge.wire import (
    Completion,
    Item,
    Message,
    Opaque,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
    anthropic,
    openai_chat,
    openai_responses,
)

THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
HIDDEN = {"type": "redacted_thinking", "data": "xyz"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def _said(*texts: str) -> Message:
    return Message("assistant", tuple(map(Text, texts)))


def _user(text: str) -> Message:
    return Message("user", (Text(text),))


def _read(*blocks: bytes, stop: str = "tool_use") -> tuple[list[AiEvent], Completion]:
    return read_answer(anthropic, messages.stream(*blocks, stop=stop))


# -- Requests


def test_results_come_before_what_a_person_says() -> None:
    calls = [ToolCall("a", "t", "{}"), ToolCall("b", "t", "{}")]
    items: list[Item] = [*calls, ToolOutput("b", "2"), _user("Wait."), ToolOutput("a", "1"), _user("Go on.")]
    _, answer = anthropic.encode_messages(items)["messages"]
    told = [block.get("tool_use_id") or block["text"] for block in answer["content"]]
    assert told == ["b", "a", "Wait.", "Go on."]


def test_blank_text_is_not_sent() -> None:
    items: list[Item] = [
        _user("Hi"),
        _said("A", "\n", "B", " "),
        _user(" \n"),
        Message("system", (Text(""),)),
        _said(""),
    ]
    assert anthropic.encode_messages(items) == {
        "messages": [
            {"role": "user", "content": [messages.text("Hi")]},
            {"role": "assistant", "content": [messages.text("A\n"), messages.text("B ")]},
        ]
    }


def test_an_invalid_call_is_wrapped() -> None:
    call = ToolCall("a", "t", '{"x": ', invalid=True)
    ((message,),) = anthropic.encode_messages([call]).values()
    assert message["content"][0]["input"] == {"invalid_arguments": '{"x": '}


def test_an_id_of_another_format_is_replaced_in_call_and_result_alike() -> None:
    items: list[Item] = [
        ToolCall("functions.t:0", "t", "{}"),
        ToolOutput("functions.t:0", "x"),
        ToolOutput("call_1", "y"),
    ]
    call, answer = anthropic.encode_messages(items)["messages"]
    first, second = answer["content"]
    assert call["content"][0]["id"] == first["tool_use_id"] != "functions.t:0"
    assert first["tool_use_id"].replace("_", "").isalnum()
    assert second["tool_use_id"] == "call_1"


def test_blocks_are_not_sent_to_other_formats() -> None:
    compaction = {"type": "compaction", "content": "All so far."}
    items: list[Item] = [Reasoning((), THOUGHT), Opaque(SEARCH), Opaque(FOUND), Opaque(compaction)]
    assert openai_responses.encode_messages(items) == {"input": []}
    assert openai_chat.encode_messages(items) == {"messages": []}
    ((message,),) = anthropic.encode_messages(items).values()
    assert message["content"] == [THOUGHT, SEARCH, FOUND, compaction]


# -- Bodies


def test_citations_are_not_kept() -> None:
    block = {**messages.text("It rains."), "citations": [{"type": "web_search_result_location", "url": "u"}]}
    assert anthropic.decode(messages.answer(block)).items == (_said("It rains."),)
    strange: list[Any] = [None, [], 5]
    for citations in strange:
        block = {**messages.text("It "), "citations": citations}
        cited = {"type": "citations_delta", "citation": {"url": "u"}}
        completion = _read(messages.block(0, block, cited, *messages.texts("rains.")))[1]
        assert completion.items == (_said("It rains."),)


# -- Streams


WHOLE = (
    messages.START
    + messages.PING
    + messages.block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "H"},
        {"type": "thinking_delta", "thinking": "m."},
        {"type": "signature_delta", "signature": "sig"},
    )
    + messages.block(1, HIDDEN)
    + messages.block(2, messages.text(""), *messages.texts("Voilà ", "\ud83d", "\ude00"))
    + messages.block(3, {**SEARCH, "input": {}}, *messages.arguments("", '{"que', 'ry": "q"}'))
    + messages.block(4, FOUND)
    + messages.block(5, messages.call("toolu_1"), *messages.arguments("", '{"path": "\\', 'u00e9"}'))
    + messages.PING
    + messages.block(6, messages.call("toolu_2"), *messages.arguments(""))
    + messages.end()
    + messages.STOP
)


def test_a_stream_with_everything() -> None:
    events, completion = read_answer(anthropic, WHOLE)
    assert events == [
        Status(phase="thinking"),
        TextDelta(delta="Voilà "),
        TextDelta(delta="😀"),
        Status(phase="tool_use", label="t"),
        Status(phase="tool_use", label="t"),
    ]
    calls = (ToolCall("toolu_1", "t", '{"path": "\\u00e9"}'), ToolCall("toolu_2", "t", "{}"))
    assert completion == Completion(
        text="Voilà 😀",
        tool_calls=calls,
        finish_reason="tool_calls",
        usage=Usage(prompt=7, completion=9, cached=4),
        items=(
            Reasoning(("Hm.",), THOUGHT),
            Reasoning((), HIDDEN),
            _said("Voilà 😀"),
            Opaque(SEARCH),
            Opaque(FOUND),
            *calls,
        ),
        response_id="msg_1",
        model="m",
        raw_finish_reason="tool_use",
    )


@given(st.lists(st.integers(0, len(WHOLE)), max_size=20), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_any_split_and_any_line_end_give_the_same(cuts: list[int], line_end: bytes) -> None:
    assert read_answer(anthropic, WHOLE.replace(b"\n", line_end), *cuts) == read_answer(anthropic, WHOLE)


@given(st.text(min_size=1), st.data())
def test_arguments_are_what_the_fragments_say_however_they_are_cut(value: str, data: st.DataObject) -> None:
    arguments = json.dumps({"v": value}, ensure_ascii=data.draw(st.booleans()))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(arguments)), max_size=8)))
    pieces = [arguments[a:b] for a, b in zip([0, *cuts], [*cuts, len(arguments)], strict=True)]
    _, completion = _read(messages.block(0, messages.call(), *messages.arguments(*pieces)))
    assert completion.tool_calls == (ToolCall("toolu_1", "t", arguments),)


def test_blocks_that_overlap_are_joined_by_index() -> None:
    body = messages.START
    body += messages.event("content_block_start", index=0, content_block=messages.call("a"))
    body += messages.event("content_block_start", index=1, content_block=messages.call("b"))
    for index, piece in ((1, '{"x":'), (0, '{"y":'), (1, "1}"), (0, "2}")):
        body += messages.event("content_block_delta", index=index, delta=messages.arguments(piece)[0])
    _, completion = read_answer(anthropic, body + messages.end() + messages.STOP)
    found = [(call.id, call.arguments_json) for call in completion.tool_calls]
    assert found == [("a", '{"y":2}'), ("b", '{"x":1}')]


def test_a_host_that_counts_no_blocks_and_sends_whole_inputs() -> None:
    body = messages.START.replace(b'"usage"', b'"other"')
    for block in (messages.text("Hi"), messages.call("a", {"x": 1})):
        body += messages.event("content_block_start", content_block=block) + messages.event("content_block_stop")
    events, completion = read_answer(anthropic, body + messages.end())
    assert (completion.text, completion.tool_calls) == ("Hi", (ToolCall("a", "t", '{"x": 1}'),))
    assert completion.usage == Usage(0, 9)
    assert events == [TextDelta(delta="Hi"), Status(phase="tool_use", label="t")]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ('{"path": "/et', "max_tokens"),
        ('{"path": "/etc"}', "max_tokens"),
        ('{"a": 1, "a": 2}', "tool_use"),
        ("[]", "tool_use"),
    ],
)
def test_arguments_that_must_not_run_are_verbatim_and_flagged(arguments: str, reason: str) -> None:
    _, completion = _read(messages.block(0, messages.call(), *messages.arguments(arguments)), stop=reason)
    assert completion.tool_calls == (ToolCall("toolu_1", "t", arguments, invalid=True),)


def test_a_cut_input_of_the_providers_own_tool_is_wrapped() -> None:
    _, completion = _read(messages.block(0, {**SEARCH, "input": {}}, *messages.arguments('{"qu')), stop="max_tokens")
    assert completion.items == (Opaque({**SEARCH, "input": {"invalid_arguments": '{"qu'}}),)


def test_a_refusal_in_the_middle() -> None:
    events, completion = _read(messages.block(0, messages.text(""), *messages.texts("I will")), stop="refusal")
    assert (completion.text, completion.finish_reason) == ("I will", "content_filter")
    assert events == [TextDelta(delta="I will")]


def test_the_end_of_a_stream_without_message_stop() -> None:
    _, completion = read_answer(
        anthropic,
        messages.START + messages.block(0, messages.text(""), *messages.texts("Hi")) + messages.end("end_turn"),
    )
    assert completion.text == "Hi"


@pytest.mark.parametrize("caller", [{"type": "direct"}, {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}])
def test_the_caller_of_a_call_is_sent_back_on_the_call(caller: dict[str, Any]) -> None:
    block = {**messages.call("toolu_1", {"x": 1}), "caller": caller}
    body = messages.answer(block, stop="tool_use")
    assert anthropic.decode(body).tool_calls[0].raw == {"type": "tool_use", "caller": caller}
    (message,) = anthropic.encode_messages(anthropic.decode(body).items)["messages"]
    assert message["content"] == [block]
    _, streamed = _read(messages.block(0, {**block, "input": {}}, *messages.arguments('{"x": 1}')))
    assert streamed.tool_calls == anthropic.decode(body).tool_calls
    (call,) = openai_responses.encode_messages(streamed.items)["input"]
    assert "caller" not in call
