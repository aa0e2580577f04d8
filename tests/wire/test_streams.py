"""Streamed answers in the three wire formats: for each behaviour one test, with the streams of each format as its rows.
What a single format can do stands in `test_openai_chat.py`, `test_anthropic.py` and `test_openai_responses.py`."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

from tests.wire import chat_bodies as chat
from tests.wire import messages_bodies as messages
from tests.wire import responses_bodies as responses
from tests.wire.formats import read_answer, read_stream, stream_error, table

from demiurge.tools.events import AiEvent, Status, TextDelta

HELLO = responses.answer(responses.message("Hello"))
HELLO_DELTA = {"type": "response.output_text.delta", "delta": "Hello"}


def completed(response: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.completed", "response": response}


@table(
    "body, expected, answer",
    chat=[
        (
            chat.stream(
                chat.chunk(role="assistant", content=None),
                chat.chunk(reasoning_content="H"),
                chat.chunk(reasoning_content="m."),
                chat.chunk(content="I "),
                chat.chunk(content="look."),
                chat.part("", id="a", name="t"),
                chat.part('{"path"'),
                chat.part(': "x"}'),
                chat.chunk("tool_calls"),
                {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
            ),
            [Status("thinking"), TextDelta("I "), TextDelta("look."), Status("tool_use", "t")],
            {
                **chat.answer(
                    "tool_calls",
                    content="I look.",
                    reasoning_content="Hm.",
                    tool_calls=[chat.call("a", '{"path": "x"}')],
                ),
                "usage": {"prompt_tokens": 5, "completion_tokens": 2},
            },
        )
    ],
    messages=[
        (
            messages.stream(
                messages.block(0, messages.text(""), *messages.texts("I ", "look.")),
                messages.block(1, messages.call("a"), *messages.arguments('{"path"', ': "x"}')),
            ),
            [TextDelta("I "), TextDelta("look."), Status("tool_use", "t")],
            messages.answer(
                messages.text("I look."),
                messages.call("a", {"path": "x"}),
                stop="tool_use",
                usage={"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 9},
            ),
        )
    ],
    responses=[
        (
            responses.stream(
                {"type": "response.created", "response": responses.answer(status="in_progress")},
                {"type": "response.reasoning_summary_text.delta", "delta": "Hm"},
                {"type": "response.reasoning_summary_text.delta", "delta": "."},
                HELLO_DELTA,
                {"type": "response.output_text.delta", "delta": " you"},
                {
                    "type": "response.output_item.added",
                    "item": responses.call(arguments="", status="in_progress"),
                },
                {"type": "response.function_call_arguments.delta", "delta": '{"a"'},
                {"type": "response.brand_new", "anything": [1]},
                completed(responses.answer(responses.message("Hello", " you"), responses.call("call_1", '{"a":1}'))),
            ),
            [Status("thinking"), TextDelta("Hello"), TextDelta(" you"), Status("tool_use", "t")],
            responses.answer(responses.message("Hello", " you"), responses.call("call_1", '{"a":1}')),
        )
    ],
)
def test_a_stream_shows_text_reasoning_and_calls_as_they_come(
    wire: ModuleType, body: bytes, expected: list[AiEvent], answer: Any
) -> None:
    events, completion = read_answer(wire, body)
    assert events == expected
    assert completion == wire.decode(answer)


@table(
    "body",
    chat=[(chat.stream(chat.chunk(content="a\ud83d"), chat.chunk(content="\ude00"), chat.chunk("stop")),)],
    messages=[(messages.stream(messages.block(0, messages.text(""), *messages.texts("a\ud83d", "\ude00"))),)],
    responses=[
        (
            responses.stream(
                {"type": "response.output_text.delta", "delta": "a\ud83d"},
                {"type": "response.output_text.delta", "delta": "\ude00"},
                completed(responses.answer(responses.message("a😀"))),
            ),
        )
    ],
)
def test_the_other_half_of_a_character_may_come_in_the_next_delta(wire: ModuleType, body: bytes) -> None:
    events, completion = read_answer(wire, body)
    assert events == [TextDelta("a"), TextDelta("😀")]
    assert completion.text == "a😀"


@table(
    "body",
    chat=[
        (chat.stream(chat.chunk(content="Hello"), chat.chunk("stop"), done=False),),
        (chat.stream(chat.chunk(content="Hello")),),
    ],
    messages=[(messages.stream(messages.block(0, messages.text(""), *messages.texts("Hello")), stop="end_turn"),)],
    responses=[(responses.stream(completed(HELLO)),)],
)
def test_a_missing_last_blank_line_is_forgiven(wire: ModuleType, body: bytes) -> None:
    assert read_answer(wire, body.rstrip())[1].text == "Hello"


@table(
    "body, after",
    chat=[(chat.stream(chat.chunk(content="Hello"), chat.chunk("stop")), chat.stream(chat.chunk(content="more")))],
    messages=[
        (
            messages.stream(messages.block(0, messages.text(""), *messages.texts("Hi")), stop="end_turn"),
            messages.block(1, messages.call()) + messages.event("error", error={}),
        )
    ],
    responses=[
        (
            responses.stream(completed(HELLO)),
            responses.stream(
                {"type": "response.output_text.delta", "delta": "more"},
                completed(responses.answer(responses.message("Other"))),
                {"type": "error", "code": "server_error", "message": "late"},
            ),
        )
    ],
)
def test_nothing_after_the_end_of_a_stream_counts(wire: ModuleType, body: bytes, after: bytes) -> None:
    assert read_stream(wire, body + after) == read_answer(wire, body)


@table(
    "answer",
    chat=[(chat.answer(content="x"),)],
    messages=[(messages.answer(messages.text("x")),)],
    responses=[(responses.answer(responses.message("x")),)],
)
def test_plain_json_instead_of_a_stream(wire: ModuleType, answer: Any) -> None:
    completion = read_answer(wire, json.dumps(answer, indent=1).encode())[1]
    assert completion == wire.decode(answer)
    assert completion.text == "x"


SLOW = {"message": "slow", "code": 429}
HALF = chat.stream(chat.chunk(content="x"), done=False)
DONE = b"data: [DONE]\n\n"
CALL_CUT = chat.stream(chat.part("{", id="a", name="t"), done=False)
CALL_ENDS = chat.stream(chat.part("}"), chat.chunk("tool_calls"))
START, END = messages.START, messages.end() + messages.STOP
CITED = {"type": "citations_delta", "citation": {"url": "u"}}
TEXT_DELTA = responses.stream({"type": "response.output_text.delta", "delta": "a"})


@table(
    "body, code",
    chat=[
        (HALF + b"data: " + json.dumps({"error": SLOW}).encode() + b"\n\n" + DONE, "rate_limit"),
        (HALF + b'event: error\ndata: {"message": "slow", "code": "rate_limit_exceeded"}\n\n' + DONE, "rate_limit"),
        (HALF + b"data: " + json.dumps({"object": "error", **SLOW}).encode() + b"\n\n" + DONE, "rate_limit"),
        (HALF + b"data: " + json.dumps([{"error": SLOW}]).encode() + b"\n\n" + DONE, "rate_limit"),
        (HALF + chat.stream({"choices": [{"index": 0, "delta": {}, "error": SLOW}]}), "rate_limit"),
        (HALF, "truncated"),
        (chat.stream(chat.part('{"a"', id="a", name="t"), done=False), "truncated"),
        (b"", "truncated"),
        (DONE, "truncated"),
        (CALL_CUT + b"data: {oops\n\n" + CALL_ENDS, "bad_response"),
        (b'{"error": {"message": "x", "code": "invalid_api_key"}}', "authentication"),
        (b"upstream connect error", "bad_response"),
    ],
    messages=[
        (
            START + messages.event("error", error={"type": "overloaded_error", "message": "busy"}) + END,
            "provider_unavailable",
        ),
        (b'event: error\ndata: {"error": {"type": "rate_limit_error"}}\n\n', "rate_limit"),
        (START + messages.block(0, messages.text(""), *messages.texts("Hal")), "truncated"),
        (START + messages.block(0, messages.text(""), *messages.texts("Half"), CITED) + messages.STOP, "truncated"),
        (
            messages.stream(messages.block(0, messages.call(), stop=False), messages.block(0, messages.call())),
            "bad_response",
        ),
        (
            messages.stream(messages.event("content_block_delta", index=0, delta=messages.arguments("{}")[0])),
            "bad_response",
        ),
        (
            START
            + messages.block(0, messages.call())
            + messages.event("content_block_delta", index=0, delta=messages.arguments("1")[0])
            + messages.end(),
            "bad_response",
        ),
        (messages.stream(messages.block(0, messages.call(), *messages.texts("x"))), "bad_response"),
        (START + b"data: {\n\n" + END, "bad_response"),
        (START, "truncated"),
        (messages.PING, "truncated"),
        (b"", "truncated"),
        (json.dumps({"type": "error", "error": {"type": "api_error"}}).encode(), "provider_unavailable"),
    ],
    responses=[
        (
            TEXT_DELTA + responses.stream({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}),
            "rate_limit",
        ),
        (
            TEXT_DELTA + responses.stream({"type": "error", "error": {"type": "server_error", "message": "oops"}}),
            "provider_unavailable",
        ),
        (
            TEXT_DELTA
            + responses.stream(
                {"type": "response.failed", "response": responses.answer(error={"code": "x", "message": "y"})}
            ),
            "provider_unavailable",
        ),
        (TEXT_DELTA + responses.stream({"type": "response.incomplete"}), "bad_response"),
        (b"", "truncated"),
        (TEXT_DELTA, "truncated"),
        (DONE, "truncated"),
        (responses.stream(completed(HELLO))[:-6], "truncated"),
        *(
            (bad + responses.stream(completed(HELLO)), "bad_response")
            for bad in (b"data: {\n\n", b"data: []\n\n", b'data: {"a": "\xff"}\n\n', b'data: {"a": NaN}\n\n')
        ),
        (b'{"error": {"message": "x", "code": "invalid_api_key"}}', "authentication"),
        (b"<html>", "bad_response"),
    ],
)
def test_a_stream_that_breaks_is_an_error(wire: ModuleType, body: bytes, code: str) -> None:
    assert stream_error(wire, body).code == code
