"""A call that a stream did not finish never runs, in whatever order a host sends the pieces of an answer.

Each property makes an answer with calls, sends it as some hosts do, and cuts it in and between all its events. What
comes out of a cut stream is an error, or the calls that were written to their end; a call of which anything came is
never lost without a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.wire import Completion, ProviderError, ToolCall, anthropic, openai_chat, openai_responses

ARGUMENTS = st.sampled_from(["", "{}", '{"path": "a"}', '{"n": [1, {"x": "}"}], "s": "\\u00e9 \\""}'])
CALLS = st.lists(ARGUMENTS, min_size=1, max_size=3)
INSIDE = st.floats(0, 1, exclude_max=True)

Case: TypeAlias = tuple[list[bytes], list[str], list[int]]
"""The events of a stream, the arguments of its calls, and for each event how many calls had begun when it was over."""


def _sse(events: Sequence[dict[str, Any]], end: bytes = b"") -> list[bytes]:
    return [f"data: {json.dumps(event)}\n\n".encode() for event in events] + ([end] if end else [])


def _read(wire: ModuleType, body: bytes) -> Completion | ProviderError:
    decoder = wire.Decoder()
    decoder.feed(body)
    try:
        completion: Completion = decoder.close()
    except ProviderError as error:
        return error
    return completion


def _assert_only_finished_calls_run(
    wire: ModuleType, events: list[bytes], expected: list[str], begun: list[int], inside: float
) -> None:
    """`begun`: for each event how many calls had begun when it was over; `inside`: where in an event a cut is made
    besides those at its two ends and after its first byte, from 0 to 1."""
    whole = b"".join(events)
    result = _read(wire, whole)
    assert isinstance(result, Completion)
    assert [(call.arguments_json, call.invalid) for call in result.tool_calls] == [(text, False) for text in expected]
    ends = [sum(map(len, events[: at + 1])) for at in range(len(events))]
    starts = [0, *ends[:-1]]
    places = {at for start, end in zip(starts, ends, strict=True) for at in (start, start + 1, end - 1)}
    places |= {start + int(inside * (end - start)) for start, end in zip(starts, ends, strict=True)}
    for at in sorted(places - {len(whole)}):
        cut = _read(wire, whole[:at])
        if isinstance(cut, ProviderError):
            continue
        came = max((begun[number] for number, end in enumerate(ends) if end <= at), default=0)
        assert len(cut.tool_calls) >= came, whole[:at]
        for call, text in zip(cut.tool_calls, expected, strict=False):
            assert call.invalid or call.arguments_json == text, whole[:at]


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


# -- Chat Completions


def _delta(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _fragment(at: int, finish: str | None, arguments: str | None, **opening: Any) -> dict[str, Any]:
    function = {"name": "t"} if opening else {}
    if arguments is not None:
        function["arguments"] = arguments
    return _delta(finish, tool_calls=[{"index": at, **opening, "function": function}])


LAST = {
    "nothing": [],
    "usage without choices": [{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}],
    "usage with an empty delta": [{**_delta(), "usage": {"prompt_tokens": 1, "completion_tokens": 2}}],
    "an empty text": [_delta(role="assistant", content="")],
    "nulls": [_delta(content=None, tool_calls=None, refusal=None, reasoning=None)],
    "an empty list of calls": [_delta(tool_calls=[], function_call={"name": "", "arguments": ""})],
    "an empty fragment": [_fragment(0, None, "")],
}


@st.composite
def chat_streams(draw: st.DrawFn) -> Case:
    calls = draw(CALLS)
    style = draw(st.sampled_from(["once", "after each call", "with each last fragment", "on every chunk"]))
    size = draw(st.integers(1, 40))
    is_done = draw(st.booleans())
    chunks: list[dict[str, Any]] = [_delta(content="Look.")] if draw(st.booleans()) else []
    begun = [0] * len(chunks)
    for at, text in enumerate(calls):
        fragments: list[str | None] = [draw(st.sampled_from(["", None])), *_pieces(text, size)]
        for number, fragment in enumerate(fragments):
            is_last = number == len(fragments) - 1
            ends = style == "on every chunk" or (style == "with each last fragment" and is_last)
            opening = {"id": f"call_{at}", "type": "function"} if number == 0 else {}
            chunks.append(_fragment(at, "tool_calls" if ends else None, fragment, **opening))
            begun.append(at + 1)
        if style == "after each call":
            chunks.append(_delta("tool_calls"))
            begun.append(at + 1)
    ends_bare = style in ("with each last fragment", "on every chunk") and "" in calls
    if style == "once" or (ends_bare and not is_done):
        chunks.append(_delta("tool_calls"))
        begun.append(len(calls))
    last = LAST[draw(st.sampled_from(sorted(LAST)))]
    chunks += last
    events = _sse(chunks, b"data: [DONE]\n\n" if is_done else b"")
    begun += [len(calls)] * (len(events) - len(begun))
    return events, [text or "{}" for text in calls], begun


@given(chat_streams(), INSIDE)
def test_a_chat_stream_cut_anywhere_runs_only_finished_calls(case: Case, inside: float) -> None:
    _assert_only_finished_calls_run(openai_chat, *case, inside)


def test_a_finish_reason_after_each_call_does_not_end_the_calls_after_it() -> None:
    first = [_fragment(0, None, '{"a": 1}', id="a"), _delta("tool_calls")]
    second = [_fragment(1, None, "", id="b"), _fragment(1, None, '{"b": 2}'), _delta("tool_calls")]
    for end in (b"", b"data: [DONE]\n\n"):
        opened = _read(openai_chat, b"".join(_sse([*first, second[0]], end)))
        assert isinstance(opened, ProviderError)
        assert opened.code == "truncated"
        whole = _read(openai_chat, b"".join(_sse([*first, *second], end)))
        assert isinstance(whole, Completion)
        assert whole.tool_calls == (ToolCall("a", "t", '{"a": 1}'), ToolCall("b", "t", '{"b": 2}'))


@pytest.mark.parametrize("arguments", ["{}", '{"b": 2}'])
def test_a_done_does_not_end_a_call_that_began_after_a_finish_reason(arguments: str) -> None:
    """A host that gave one gives another when it wrote the call to its end; `{}` may be a mere placeholder."""
    done = b"data: [DONE]\n\n"
    first = [_fragment(0, None, '{"a": 1}', id="a"), _delta("tool_calls")]
    cut = _read(openai_chat, b"".join(_sse([*first, _fragment(1, None, arguments, id="b")], done)))
    assert isinstance(cut, ProviderError)
    assert cut.code == "truncated"
    whole = _read(openai_chat, b"".join(_sse([*first, _fragment(1, "tool_calls", arguments, id="b")], done)))
    assert isinstance(whole, Completion)
    assert [call.arguments_json for call in whole.tool_calls] == ['{"a": 1}', arguments]


def test_a_done_ends_text_that_came_after_a_finish_reason() -> None:
    first = [_fragment(0, None, '{"a": 1}', id="a"), _delta("tool_calls")]
    whole = _read(openai_chat, b"".join(_sse([*first, _delta(content="Look.")], b"data: [DONE]\n\n")))
    assert isinstance(whole, Completion)
    assert (whole.text, len(whole.tool_calls)) == ("Look.", 1)


def test_a_call_whose_event_was_cut_after_a_finish_reason_is_not_lost_without_a_word() -> None:
    first = b"".join(_sse([_fragment(0, None, '{"a": 1}', id="a"), _delta("tool_calls")]))
    (second,) = _sse([_fragment(1, None, '{"b": 2}', id="b")])
    for at in range(1, len(second) - 2):
        cut = _read(openai_chat, first + second[:at])
        assert isinstance(cut, ProviderError), second[:at]
        assert cut.code == "truncated"


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "more"},
        {"refusal": "no"},
        {"reasoning_content": "Hm."},
        {"content": [{"type": "text", "text": "more"}]},
        {"function_call": {"name": "t"}},
        {"function_call": {"name": "t", "arguments": "{}"}},
    ],
)
def test_a_delta_after_a_finish_reason_opens_the_answer_again(delta: dict[str, Any]) -> None:
    chunks = [_delta(content="x"), _delta("stop"), _delta(**delta)]
    cut = _read(openai_chat, b"".join(_sse(chunks)))
    assert isinstance(cut, ProviderError)
    assert cut.code == "truncated"
    assert isinstance(_read(openai_chat, b"".join(_sse([*chunks, _delta("stop")]))), Completion)


@pytest.mark.parametrize("last", sorted(LAST))
def test_a_delta_that_adds_nothing_does_not_open_the_answer_again(last: str) -> None:
    chunks = [_fragment(0, None, "{}", id="a"), _delta("tool_calls"), *LAST[last]]
    result = _read(openai_chat, b"".join(_sse(chunks)))
    assert isinstance(result, Completion)
    assert result.tool_calls == (ToolCall("a", "t", "{}"),)


def test_a_done_without_a_finish_reason_does_not_end_a_call_without_arguments() -> None:
    done = b"data: [DONE]\n\n"
    opened = [_fragment(0, None, "", id="a")]
    cut = _read(openai_chat, b"".join(_sse(opened, done)))
    assert isinstance(cut, ProviderError)
    assert cut.code == "truncated"
    whole = _read(openai_chat, b"".join(_sse([*opened, _fragment(0, None, "{}")], done)))
    assert isinstance(whole, Completion)
    assert whole.tool_calls == (ToolCall("a", "t", "{}"),)


# -- Responses


@st.composite
def responses_streams(draw: st.DrawFn) -> Case:
    calls = draw(CALLS)
    has_output = draw(st.booleans())
    status = draw(st.sampled_from([{}, {"status": "completed"}]))
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"status": "in_progress", "output": []}}]
    items = []
    for at, text in enumerate(calls):
        item = {"type": "function_call", "call_id": f"call_{at}", "name": "t"}
        added = {**item, "arguments": "", "status": "in_progress"}
        items.append({**item, "arguments": text, **status})
        place = {"output_index": at}
        events.append({"type": "response.output_item.added", **place, "item": added})
        kind = "response.function_call_arguments.delta"
        events += [{"type": kind, **place, "delta": piece} for piece in _pieces(text, draw(st.integers(1, 40)))]
        events.append({"type": "response.output_item.done", **place, "item": items[-1]})
    response = {"id": "r", "status": "completed", "output": items if has_output else []}
    events.append({"type": "response.completed", "response": response})
    sent = [f"event: {event['type']}\n".encode() + _sse([event])[0] for event in events]
    return sent, [text or "{}" for text in calls], [len(calls)] * len(sent)


@given(responses_streams(), INSIDE)
def test_a_responses_stream_cut_anywhere_runs_only_finished_calls(case: Case, inside: float) -> None:
    _assert_only_finished_calls_run(openai_responses, *case, inside)


def test_a_call_that_began_and_never_ended_is_not_lost_without_a_word() -> None:
    added = {"type": "function_call", "call_id": "a", "name": "t", "arguments": "", "status": "in_progress"}
    begun = {"type": "response.output_item.added", "output_index": 0, "item": added}
    said = {"type": "message", "content": [{"type": "output_text", "text": "Look."}]}
    ended = {"type": "response.output_item.done", "output_index": 1, "item": said}
    final: dict[str, Any] = {
        "type": "response.completed",
        "response": {"id": "r", "status": "completed", "output": []},
    }
    for events in ([begun, final], [begun, ended, final]):
        cut = _read(openai_responses, b"".join(_sse(events)))
        assert isinstance(cut, ProviderError)
        assert cut.code == "truncated"


@pytest.mark.parametrize("status", [None, "completed"])
@pytest.mark.parametrize("kind", ["incomplete", "failed", "cancelled"])
def test_the_event_that_ends_a_stream_says_how_it_ended(kind: str, status: str | None) -> None:
    item = {"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"}
    final = {"type": f"response.{kind}", "response": {"id": "r", "status": status, "output": [item]}}
    result = _read(openai_responses, b"".join(_sse([final])))
    if kind == "incomplete":
        assert isinstance(result, Completion)
        assert [call.invalid for call in result.tool_calls] == [True]
    else:
        assert isinstance(result, ProviderError)


def test_text_that_was_shown_is_kept_beside_the_items_that_ended() -> None:
    item = {"type": "function_call", "call_id": "a", "name": "t", "arguments": "{}"}
    events: list[dict[str, Any]] = [
        {"type": "response.output_text.delta", "delta": "Look."},
        {"type": "response.output_item.done", "output_index": 1, "item": item},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
    ]
    result = _read(openai_responses, b"".join(_sse(events)))
    assert isinstance(result, Completion)
    assert (result.text, len(result.tool_calls)) == ("Look.", 1)


# -- Messages


def _messages(calls: Sequence[str], size: int, ends_each: bool, has_stop: bool) -> Iterator[tuple[dict[str, Any], int]]:
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}
    yield {"type": "message_start", "message": {"id": "m", "content": [], "stop_reason": None}}, 0
    for at, text in enumerate(calls):
        block = {"type": "tool_use", "id": f"toolu_{at}", "name": "t", "input": {}}
        yield {"type": "content_block_start", "index": at, "content_block": block}, at + 1
        for piece in ["", *_pieces(text, size)]:
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "index": at, "delta": delta}, at + 1
        yield {"type": "content_block_stop", "index": at}, at + 1
        if ends_each or at == len(calls) - 1:
            yield end, at + 1
    if has_stop:
        yield {"type": "message_stop"}, len(calls)


@given(CALLS, st.integers(1, 40), st.booleans(), st.booleans(), INSIDE)
def test_a_messages_stream_cut_anywhere_runs_only_finished_calls(
    calls: list[str], size: int, ends_each: bool, has_stop: bool, inside: float
) -> None:
    made = list(_messages(calls, size, ends_each, has_stop))
    events = [f"event: {event['type']}\n".encode() + _sse([event])[0] for event, _ in made]
    begun = [count for _, count in made]
    _assert_only_finished_calls_run(anthropic, events, [text or "{}" for text in calls], begun, inside)


def test_a_block_after_a_stop_reason_opens_the_answer_again() -> None:
    made = [event for event, _ in _messages(["", '{"a": 1}'], 40, ends_each=True, has_stop=False)]
    opened = next(at for at, event in enumerate(made) if event.get("index") == 1)
    cut = _read(anthropic, b"".join(_sse(made[: opened + 1])))
    assert isinstance(cut, ProviderError)
    assert cut.code == "truncated"


def test_a_call_that_never_ended_and_has_no_input_does_not_run() -> None:
    made = [event for event, _ in _messages([""], 40, ends_each=False, has_stop=True)]
    whole = _read(anthropic, b"".join(_sse(made)))
    assert isinstance(whole, Completion)
    assert whole.tool_calls == (ToolCall("toolu_0", "t", "{}"),)
    open_ = [event for event in made if event["type"] != "content_block_stop"]
    cut = _read(anthropic, b"".join(_sse(open_)))
    assert isinstance(cut, ProviderError)
    assert cut.code == "truncated"


# -- What a host says in place of an answer


@pytest.mark.parametrize("wire", [openai_chat, openai_responses, anthropic])
@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        (b'error: {"code": 429, "message": "too many", "type": "rate_limit_error"}\n\n', "rate_limit", "too many"),
        (b'error: {"code":500,"message":"no memory left","type":"server_error"}\n\n', "provider_unavailable", "memory"),
        (b'error: {"code":500,"message":"no memory left","type":"server_error"}', "provider_unavailable", "memory"),
        (b"error: no memory left\n\n", "provider_unavailable", "memory"),
        (b"error: no memory left", "provider_unavailable", "memory"),
        (b"data: {}\nerror: no memory left\n\n", "provider_unavailable", "memory"),
        (b"event: error\ndata: no memory left\n\n", "provider_unavailable", "memory"),
        (b'event: error\ndata: {"message": "no memory left", "type": "server_error"}\n\n', "provider_unavailable", "m"),
        (b"error:\n\n", "provider_unavailable", "reports an error"),
    ],
)
@pytest.mark.parametrize("before", [b"", b": still there\n\n", b'data: {"type": "ping"}\n\n'])
def test_an_error_in_a_stream_keeps_the_hosts_reason(
    wire: ModuleType, said: bytes, code: str, words: str, before: bytes
) -> None:
    error = _read(wire, before + said)
    assert isinstance(error, ProviderError)
    assert error.code == code
    assert words in error.detail
