"""Whole answers in the three wire formats: for each behaviour one test, with the bodies of each format as its rows.
What a single format can do stands in `test_openai_chat.py`, `test_anthropic.py` and `test_openai_responses.py`."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from tests.wire import chat_bodies as chat
from tests.wire import messages_bodies as messages
from tests.wire import responses_bodies as responses
from tests.wire.formats import table

from demiurge.wire import (
    Completion,
    Message,
    Opaque,
    ProviderError,
    Reasoning,
    Text,
    ToolCall,
    ToolOutput,
    Usage,
)

SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
HIDDEN = {"type": "redacted_thinking", "data": "xyz"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


def message_of(*texts: str, role: str = "assistant") -> Message:
    return Message(role, tuple(map(Text, texts)))


CHAT_CALLS = (ToolCall("a", "t", '{"path": "x"}'), ToolCall("b", "t", "{}"))
MESSAGES_CALLS = (ToolCall("toolu_1", "t", '{"path": "x"}'), ToolCall("b", "t", "{}"))
RESPONSES_CALL = ToolCall("call_9", "t", '{"path": "a"}')
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
HOSTED = {"type": "file_search_call", "id": "fs_1", "queries": ["q"]}


@table(
    "body, expected",
    chat=[
        (
            {
                **chat.answer(
                    "tool_calls",
                    content="I look.",
                    reasoning_content="Hm.",
                    tool_calls=[chat.call("a", '{"path": "x"}'), chat.call("b")],
                ),
                "usage": {
                    "prompt_tokens": 10,
                    "completion_tokens": 7,
                    "prompt_tokens_details": {"cached_tokens": 4},
                    "completion_tokens_details": {"reasoning_tokens": 3},
                },
            },
            Completion(
                text="I look.",
                tool_calls=CHAT_CALLS,
                finish_reason="tool_calls",
                usage=Usage(10, 7, 4, 3),
                items=(Reasoning(("Hm.",), {"reasoning_content": "Hm."}), message_of("I look."), *CHAT_CALLS),
                response_id="c_1",
                model="m",
                raw_finish_reason="tool_calls",
            ),
        )
    ],
    messages=[
        (
            messages.answer(
                SIGNED,
                HIDDEN,
                messages.text("Let me "),
                messages.text("look."),
                SEARCH,
                FOUND,
                messages.call("toolu_1", {"path": "x"}),
                messages.call("b"),
                stop="tool_use",
                usage={
                    "input_tokens": 3,
                    "cache_read_input_tokens": 4,
                    "cache_creation_input_tokens": 5,
                    "output_tokens": 7,
                    "output_tokens_details": {"thinking_tokens": 2},
                },
            ),
            Completion(
                text="Let me look.",
                tool_calls=MESSAGES_CALLS,
                finish_reason="tool_calls",
                usage=Usage(prompt=12, completion=7, cached=4, reasoning=2, cache_written=5),
                items=(
                    Reasoning(("Hm.",), SIGNED),
                    Reasoning((), HIDDEN),
                    message_of("Let me ", "look."),
                    Opaque(SEARCH),
                    Opaque(FOUND),
                    *MESSAGES_CALLS,
                ),
                response_id="msg_1",
                model="m",
                raw_finish_reason="tool_use",
            ),
        )
    ],
    responses=[
        (
            responses.answer(
                THOUGHT,
                HOSTED,
                responses.message("Let me ", "look."),
                responses.call("call_9", '{"path": "a"}'),
                usage={
                    "input_tokens": 10,
                    "input_tokens_details": {"cached_tokens": 4},
                    "output_tokens": 7,
                    "output_tokens_details": {"reasoning_tokens": 3},
                },
            ),
            Completion(
                text="Let me look.",
                tool_calls=(RESPONSES_CALL,),
                finish_reason="tool_calls",
                usage=Usage(10, 7, 4, 3),
                items=(Reasoning(("Hm.",), THOUGHT), Opaque(HOSTED), message_of("Let me ", "look."), RESPONSES_CALL),
                response_id="resp_1",
                model="m",
                raw_finish_reason="completed",
            ),
        )
    ],
)
def test_an_answer_with_everything(wire: ModuleType, body: Any, expected: Completion) -> None:
    assert wire.decode(body) == expected


def chat_ends(stated: str | None, *expected: str) -> tuple[Any, ...]:
    return chat.answer(stated, tool_calls=[chat.call()]), chat.answer(stated, content="x"), stated, *expected


def messages_end(stated: str | None, *expected: str) -> tuple[Any, ...]:
    called, text = messages.answer(messages.call(), stop=stated), messages.answer(messages.text("x"), stop=stated)
    return called, text, stated, *expected


def responses_end(stated: str, *expected: str) -> tuple[Any, ...]:
    cut = {"status": "incomplete", "incomplete_details": {"reason": stated}}
    called, text = responses.answer(responses.call(), **cut), responses.answer(responses.message("Half"), **cut)
    return called, text, stated, *expected


@table(
    "with_calls, without, stated, expected_with, expected_without",
    chat=[
        chat_ends("stop", "tool_calls", "stop"),
        chat_ends("tool_calls", "tool_calls", "stop"),
        chat_ends("function_call", "tool_calls", "stop"),
        chat_ends(None, "tool_calls", "stop"),
        chat_ends("", "tool_calls", "stop"),
        chat_ends("eos", "tool_calls", "stop"),
        chat_ends("length", "length", "length"),
        chat_ends("MAX_TOKENS", "length", "length"),
        chat_ends("content_filter", "content_filter", "content_filter"),
        chat_ends("error", "error", "error"),
        chat_ends("SAFETY", "content_filter", "content_filter"),
        chat_ends("abort", "error", "error"),
        chat_ends("insufficient_system_resource", "error", "error"),
        chat_ends("tool_use", "tool_calls", "stop"),
        chat_ends("surprise", "other", "other"),
    ],
    messages=[
        messages_end("end_turn", "tool_calls", "stop"),
        messages_end("tool_use", "tool_calls", "stop"),
        messages_end("stop_sequence", "tool_calls", "stop"),
        messages_end(None, "tool_calls", "stop"),
        messages_end("max_tokens", "length", "length"),
        messages_end("model_context_window_exceeded", "length", "length"),
        messages_end("refusal", "content_filter", "content_filter"),
        messages_end("pause_turn", "other", "other"),
        messages_end("surprise", "other", "other"),
    ],
    responses=[
        responses_end("max_output_tokens", "length", "length"),
        responses_end("content_filter", "content_filter", "content_filter"),
        responses_end("new", "other", "other"),
    ],
)
def test_the_finish_reason(
    wire: ModuleType, with_calls: Any, without: Any, stated: str | None, expected_with: str, expected_without: str
) -> None:
    called, said_only = wire.decode(with_calls), wire.decode(without)
    assert (called.finish_reason, said_only.finish_reason) == (expected_with, expected_without)
    assert called.raw_finish_reason == said_only.raw_finish_reason == (stated or None)


CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
LAST_IS_CUT = [("{}", False), ('{"x": 1}', True)]


@table(
    "body, expected",
    chat=[
        (chat.answer(finish, tool_calls=[chat.call("a"), chat.call("b", '{"x": 1}')]), LAST_IS_CUT)
        for finish in ("length", "content_filter", "error")
    ],
    messages=[
        row
        for stop in ("max_tokens", "model_context_window_exceeded", "refusal")
        for row in (
            (messages.answer(messages.call("a"), messages.call("b", {"x": 1}), stop=stop), LAST_IS_CUT),
            (messages.answer(messages.call("a"), messages.text("And"), stop=stop), [("{}", False)]),
        )
    ],
    responses=[
        (
            responses.answer(
                responses.call("a", status="completed"), responses.call("b", '{"x": 1}', status="incomplete"), **CUT
            ),
            LAST_IS_CUT,
        ),
        (responses.answer(responses.call("a"), responses.call("b", '{"x": 1}'), **CUT), LAST_IS_CUT),
        (responses.answer(responses.call("a"), responses.message("Half"), **CUT), [("{}", False)]),
    ],
)
def test_the_call_that_a_stopped_answer_ends_with_is_invalid_even_if_it_parses(
    wire: ModuleType, body: Any, expected: list[tuple[str, bool]]
) -> None:
    assert [(call.arguments_json, call.invalid) for call in wire.decode(body).tool_calls] == expected


@table(
    "body",
    chat=[(chat.answer("stop", refusal="I can't."),)],
    messages=[(messages.answer(messages.text("I can't."), stop="refusal"),)],
    responses=[
        (responses.answer({**responses.message(), "content": [{"type": "refusal", "refusal": "I can't."}]}),),
    ],
)
def test_a_refusal_is_text_with_its_own_finish_reason(wire: ModuleType, body: Any) -> None:
    completion = wire.decode(body)
    assert (completion.text, completion.finish_reason) == ("I can't.", "content_filter")


@table(
    "body, code",
    chat=[
        ({"error": {"message": "no", "code": "model_not_found"}}, "not_found"),
        ({"object": "error", "message": "boom", "code": 500}, "provider_unavailable"),
        ({"choices": [{"index": 0, "error": {"message": "x", "code": 502}}]}, "provider_unavailable"),
        ({"choices": []}, "bad_response"),
        ({"choices": [{"index": 0}]}, "bad_response"),
        ({}, "bad_response"),
        ("text", "bad_response"),
    ],
    messages=[
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, "provider_unavailable"),
        (
            {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}},
            "context_overflow",
        ),
        ({"type": "error"}, "bad_response"),
        ({"type": "message", "content": "x"}, "bad_response"),
        (messages.answer({**messages.call(), "name": ""}), "bad_response"),
        (messages.answer(*[messages.text("x")] * 1025), "bad_response"),
        ([], "bad_response"),
    ],
    responses=[
        ({"error": {"message": "no", "code": "model_not_found"}}, "not_found"),
        (
            responses.answer(status="failed", error={"code": "server_error", "message": "oops"}),
            "provider_unavailable",
        ),
        (responses.answer(status="failed", error={"code": "rate_limit_exceeded", "message": "slow"}), "rate_limit"),
        (responses.answer(status="failed", error=None), "provider_unavailable"),
        (responses.answer(status="queued"), "truncated"),
        (responses.answer(status="in_progress"), "truncated"),
        (responses.answer(status="cancelled"), "truncated"),
        ({}, "bad_response"),
        ({"choices": []}, "bad_response"),
        ([], "bad_response"),
    ],
)
def test_bodies_that_are_no_answer(wire: ModuleType, body: Any, code: str) -> None:
    with pytest.raises(ProviderError) as caught:
        wire.decode(body)
    assert caught.value.code == code


LONG_ID, ODD_NAME = "c" * 115, "get time\x1b"


@table(
    "body, expected",
    chat=[
        (
            chat.answer(
                tool_calls=[chat.call(LONG_ID, name=ODD_NAME), chat.call("functions.x:0", name="core.get_current_time")]
            ),
            [("call_", "get_time_"), ("functions.x:0", "core__get_current_time")],
        )
    ],
    messages=[(messages.answer({**messages.call(LONG_ID), "name": ODD_NAME}), [("call_", "get_time_")])],
    responses=[
        (
            responses.answer(responses.call(LONG_ID, name="functions.get time\n\x1b[2J")),
            [("call_", "functions_get_time_2J")],
        )
    ],
)
def test_a_call_goes_back_under_the_name_and_id_that_were_kept(
    wire: ModuleType, body: Any, expected: list[tuple[str, str]]
) -> None:
    calls = wire.decode(body).tool_calls
    for call, (id_start, name_start) in zip(calls, expected, strict=True):
        assert call.id.startswith(id_start)
        assert call.name.startswith(name_start)
    sent = json.dumps(wire.encode_messages([*calls, *(ToolOutput(call.id, "no") for call in calls)]))
    for call in calls:
        assert (sent.count(f'"{call.id}"'), sent.count(f'"{call.name}"')) == (2, 1), "the call, and its output"
