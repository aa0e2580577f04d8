from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.strict_reader import Card, Page, page_of

from demiurge import ToolEffect, ToolPolicy, ToolRunner, ToolUserError, tool
from demiurge.tools import SAFE_MESSAGES, ToolErrorCode
from demiurge.tools.events import (
    AiEvent,
    AssistantFinal,
    Done,
    ErrorEvent,
    Status,
    TextDelta,
    ToolCallResult,
    ToolCallStart,
    ToolProgress,
    UsageReport,
)
from demiurge.tools.ids import canonical_call_id
from demiurge.wire import PROVIDER_ERROR_CODES, ProviderError
from demiurge.wire.data_stream import (
    HEADERS,
    MAX_ARGS_BYTES,
    MAX_RESULT_BYTES,
    OMITTED_ARGUMENTS_KEY,
    DataStream,
    Frame,
    encode,
    error_sentence,
)

DONE = Done(UsageReport(prompt=12, completion=3), "stop")


def frames(*events: AiEvent) -> list[Frame]:
    stream = DataStream()
    return [frame for event in events for frame in stream.take(event)] + stream.end()


def page(*events: AiEvent) -> Page:
    return page_of(b"".join(frame.line for frame in frames(*events)))


def failure(code: ToolErrorCode) -> dict[str, Any]:
    return {"ok": False, "error_code": code.value, "message": SAFE_MESSAGES[code]}


async def body_of(events: Any) -> bytes:
    return b"".join([line async for line in encode(events)])


# -- what an ordinary answer looks like


def test_an_answer_with_a_call() -> None:
    events: list[AiEvent] = [
        Status("thinking"),
        TextDelta("Let me "),
        TextDelta("look."),
        ToolCallStart("call_1", "clock__now", {"zone": "Asia/Tokyo"}),
        ToolCallResult("call_1", {"time": "09:00"}),
        UsageReport(prompt=12, completion=3, cost_micros=7),
        TextDelta("It is nine."),
        AssistantFinal("It is nine."),
        DONE,
    ]
    assert b"".join(frame.line for frame in frames(*events)).decode().splitlines() == [
        '2:[{"type": "status", "phase": "thinking"}]',
        '0:"Let me "',
        '0:"look."',
        'b:{"toolCallId": "call_1", "toolName": "clock__now"}',
        'c:{"toolCallId": "call_1", "argsTextDelta": "{\\"zone\\":\\"Asia/Tokyo\\"}"}',
        'a:{"toolCallId": "call_1", "result": {"time": "09:00"}}',
        '0:"It is nine."',
        'e:{"finishReason": "stop", "usage": {"inputTokens": 12, "outputTokens": 3}, "isContinued": false}',
        'd:{"finishReason": "stop", "usage": {"inputTokens": 12, "outputTokens": 3}}',
    ]


def test_the_header_that_the_browser_needs_is_there() -> None:
    assert HEADERS["x-vercel-ai-data-stream"] == "v1"
    assert HEADERS["content-type"].startswith("text/plain")


def test_the_label_of_a_status_is_shown_and_bounded() -> None:
    assert page(Status("tool_use", "web_search"), DONE).data == [
        {"type": "status", "phase": "tool_use", "label": "web_search"}
    ]
    assert len(page(Status("tool_use", "x" * 9999), DONE).data[0]["label"]) == 256


def test_the_progress_of_a_running_call_is_data_under_the_id_of_its_card() -> None:
    half, late, other = ToolProgress("c1", 1.5, None, "half"), ToolProgress("c1", 3, 3), ToolProgress("c2", 1, 2)
    shown = page(half, ToolCallStart("c1", "scan"), half, other, ToolCallResult("c1", {}), late, DONE)
    assert shown.data == [{"type": "progress", "toolCallId": "c1", "done": 1.5, "message": "half"}]


def test_a_report_of_usage_is_not_shown() -> None:
    assert frames(UsageReport(prompt=1, completion=2, cost_micros=3), DONE) == frames(DONE)


def test_parallel_calls_are_kept_apart() -> None:
    shown = page(ToolCallStart("a", "t"), ToolCallStart("b", "u"), ToolCallResult("b", 2), ToolCallResult("a", 1), DONE)
    assert shown.cards == {"a": Card("t", "{}", 1, True), "b": Card("u", "{}", 2, True)}


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (None, "stop"),
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        ("error", "error"),
        ("other", "other"),
        ("something new", "unknown"),
        ("tool_calls", "unknown"),  # never `tool-calls`: with all calls answered a browser would ask for one more round
    ],
)
def test_finish_reasons_have_the_protocols_names(reason: str | None, shown: str) -> None:
    ended = page(ToolCallStart("a", "t"), ToolCallResult("a", 1), Done(finish_reason=reason))
    assert ended.finish["finishReason"] == shown
    assert ended.steps[0]["finishReason"] == shown


# -- text


@pytest.mark.parametrize(
    ("streamed", "final", "shown"),
    [
        (["Hel", "lo"], "Hello", "Hello"),
        (["Hel"], "Hello", "Hello"),
        ([], "Hello", "Hello"),
        (["Hello"], "Goodbye", "Hello"),
        (["Hello"], "", "Hello"),
        (["\ud83d"], "\U0001f600!", "\U0001f600!"),
        (["\ud83d", "\ude00"], "\U0001f600", "\U0001f600"),
        (["a\ud83db"], "a\ud83db", "a\ufffdb"),
    ],
)
def test_the_whole_answer_completes_what_was_streamed(streamed: list[str], final: str, shown: str) -> None:
    assert page(*map(TextDelta, streamed), AssistantFinal(final), DONE).text == shown


def test_the_whole_answer_is_that_of_the_last_round_or_of_all() -> None:
    call: list[AiEvent] = [TextDelta("Let me look. "), ToolCallStart("a", "t"), ToolCallResult("a", 1)]
    assert page(*call, AssistantFinal("Nine."), DONE).text == "Let me look. Nine."
    assert page(*call, TextDelta("Ni"), AssistantFinal("Nine."), DONE).text == "Let me look. Nine."
    assert page(*call, TextDelta("Ni"), AssistantFinal("Let me look. Nine."), DONE).text == "Let me look. Nine."
    assert page(*call, AssistantFinal("Let me look. "), DONE).text == "Let me look. "


def test_no_character_of_a_text_ends_a_line() -> None:
    text = "a\nb\r\nc\u2028d\u2029e\x85f\x0b\x0c\x1c"
    body = b"".join(frame.line for frame in frames(TextDelta(text), DONE))
    assert page_of(body).text == text
    assert len(body.decode().splitlines()) == 3


# -- order, whatever comes in


def test_a_result_without_a_start_gets_a_begin() -> None:
    assert page(ToolCallResult("a", 1), DONE).cards == {"a": Card("?", "{}", 1, True)}


def test_a_start_after_such_a_result_is_dropped_with_its_arguments() -> None:
    shown = page(ToolCallResult("a", 1), ToolCallStart("a", "t", {"x": 1}), DONE)
    assert shown.cards == {"a": Card("?", "{}", 1, True)}


def test_a_second_result_is_dropped() -> None:
    shown = page(ToolCallStart("a", "t"), ToolCallResult("a", 1), ToolCallResult("a", 2, is_error=True), DONE)
    assert shown.cards == {"a": Card("t", "{}", 1, True)}


def test_a_second_start_brings_the_arguments_if_the_first_had_none() -> None:
    first, second = ToolCallStart("a", "t"), ToolCallStart("a", "other", {"x": 1})
    assert page(first, second, second, DONE).cards["a"].args == {"x": 1}
    assert page(second, ToolCallStart("a", "t", {"x": 2}), DONE).cards["a"].args == {"x": 1}
    assert page(first, second, DONE).cards["a"].name == "t"


def test_an_id_that_the_provider_uses_again_is_another_call() -> None:
    once: list[AiEvent] = [ToolCallStart("call_0", "t", {"n": 1}), ToolCallResult("call_0", 1)]
    again: list[AiEvent] = [ToolCallStart("call_0", "u", {"n": 2}), ToolCallResult("call_0", 2)]
    first, second = page(*once, *again, DONE).cards.items()
    assert first == ("call_0", Card("t", '{"n":1}', 1, True))
    assert second[1] == Card("u", '{"n":2}', 2, True)
    clash = page(ToolCallStart(second[0], "t"), *once, *again, DONE)
    assert len(clash.cards) == 3


@pytest.mark.parametrize("end", [[DONE], [ErrorEvent("aborted"), Done()], [ErrorEvent("internal")], []])
def test_a_call_that_nobody_answered_is_answered_at_the_end(end: list[AiEvent]) -> None:
    shown = page(ToolCallStart("a", "t"), ToolCallStart("b", "t"), ToolCallResult("b", 1), *end)
    assert shown.cards["a"] == Card("t", "{}", failure(ToolErrorCode.UNKNOWN_OUTCOME), True, True)
    assert shown.cards["b"].result == 1


def test_nothing_comes_after_the_end() -> None:
    stream = DataStream()
    assert [frame.code for frame in stream.take(DONE)] == ["e", "d"]
    assert stream.finished
    for event in (DONE, TextDelta("late"), ToolCallStart("a", "t"), ToolCallResult("a", 1), ErrorEvent("internal")):
        assert stream.take(event) == []
    assert stream.end() == []


@pytest.mark.parametrize("call_id", ["", "x" * 129, "é" * 65, "a\nb", "\ud800", "a\x00"])
def test_an_id_that_is_none_has_a_stand_in(call_id: str) -> None:
    ((shown, card),) = page(ToolCallStart(call_id, "t"), ToolCallResult(call_id, 1), DONE).cards.items()
    assert page(ToolCallStart(shown, "t"), ToolCallResult(call_id, 1), DONE).cards == {shown: card}
    assert len(shown.encode()) <= 128
    assert shown.isprintable()
    assert shown != call_id
    assert card.result == 1


def test_the_longest_id_is_kept() -> None:
    assert list(page(ToolCallStart("é" * 64, "t"), DONE).cards) == ["é" * 64]


def test_a_name_that_is_none_is_not_shown() -> None:
    assert page(ToolCallStart("a", "<script>"), DONE).cards["a"].name == "?"


# -- limits and values


@pytest.mark.parametrize("letter", ["x", "é", "\u2028", "\U0001f600", '"'])
def test_a_result_is_whole_or_an_error(letter: str) -> None:
    """The limit is of UTF-8 bytes, and nothing is cut."""
    letters = (MAX_RESULT_BYTES - 2) // (len(json.dumps(letter, ensure_ascii=False).encode()) - 2)
    fits, over = letter * letters, letter * (letters + 1)
    assert page(ToolCallStart("a", "t"), ToolCallResult("a", fits), DONE).cards["a"].result == fits
    card = page(ToolCallStart("a", "t"), ToolCallResult("a", over), DONE).cards["a"]
    assert (card.result, card.is_error) == (failure(ToolErrorCode.RESULT_TOO_LARGE), True)


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600"])
def test_arguments_are_whole_or_left_out_and_say_so(letter: str) -> None:
    letters = (MAX_ARGS_BYTES - len('{"q":""}')) // len(letter.encode())
    fits, over = {"q": letter * letters}, {"q": letter * (letters + 1)}
    assert page(ToolCallStart("a", "t", fits), DONE).cards["a"].args == fits
    size = len(json.dumps(over, ensure_ascii=False, separators=(",", ":")).encode())
    assert page(ToolCallStart("a", "t", over), DONE).cards["a"].args == {OMITTED_ARGUMENTS_KEY: size}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


LOOP: list[Any] = []
LOOP.append(LOOP)
UNSHOWABLE = {
    "nan": [math.nan],
    "infinity": {"x": math.inf},
    "datetime": datetime(2026, 1, 1, tzinfo=UTC),
    "bytes": b"x",
    "loop": LOOP,
    "deep": nested(129),
    "bottomless": nested(100_000),
    "proto": [{"x": {"__proto__": {"admin": True}}}],
    "constructor": {"constructor": {"prototype": {}}},
    "digits": 10**5000,
}


@pytest.mark.parametrize("name", UNSHOWABLE)
def test_a_result_that_can_not_be_shown_is_an_error(name: str) -> None:
    card = page(ToolCallStart("a", "t"), ToolCallResult("a", UNSHOWABLE[name]), DONE).cards["a"]
    assert (card.result, card.is_error) == (failure(ToolErrorCode.REDACTION_FAILED), True)


@pytest.mark.parametrize("name", UNSHOWABLE)
def test_arguments_that_can_not_be_shown_are_not(name: str) -> None:
    assert page(ToolCallStart("a", "t", {"x": UNSHOWABLE[name]}), DONE).cards["a"].args == {}


def test_values_that_only_look_dangerous_are_shown() -> None:
    value = {"text": '{"__proto__": 1}', "constructor": "Eiffel", "deep": nested(127), "n": 10**20, "t": ["x"]}
    assert page(ToolCallStart("a", "t"), ToolCallResult("a", value), DONE).cards["a"].result == value


def test_half_a_character_is_replaced() -> None:
    card = page(ToolCallStart("a", "t"), ToolCallResult("a", {"x": "\ud800", "\udfff": 1}), DONE).cards["a"]
    assert card.result == {"x": "\ufffd", "\ufffd": 1}


def test_a_frame_does_not_change_with_the_value_that_it_was_made_from() -> None:
    value: dict[str, Any] = {"rows": [1]}
    stream = DataStream()
    stream.take(ToolCallStart("a", "t"))
    (_, frame) = stream.take(ToolCallResult("a", value))
    value["rows"].append(datetime.now(UTC))
    assert json.loads(frame.line[2:])["result"] == {"rows": [1]}


# -- errors


def test_an_error_is_a_sentence_of_the_table() -> None:
    shown = page(ErrorEvent("rate_limit"), ErrorEvent("internal"), Done(finish_reason="stop"))
    assert shown.errors == [ProviderError(code="rate_limit").message]
    assert shown.finish["finishReason"] == "error"


@pytest.mark.parametrize("code", [*sorted(PROVIDER_ERROR_CODES), *ToolErrorCode, "aborted", "insufficient_credits"])
def test_each_code_has_its_sentence(code: str) -> None:
    assert error_sentence(code) != error_sentence("internal")


def test_a_code_that_is_none_says_nothing() -> None:
    assert error_sentence("psycopg.OperationalError: password=hunter2") == error_sentence("internal")


@pytest.mark.parametrize("result", ["Traceback: hunter2", {"error_code": "hunter2", "message": "x"}, None, [1]])
def test_an_error_result_of_another_form_is_replaced(result: Any) -> None:
    card = page(ToolCallStart("a", "t"), ToolCallResult("a", result, is_error=True), DONE).cards["a"]
    assert (card.result, card.is_error) == (failure(ToolErrorCode.EXECUTION), True)


@tool(effect=ToolEffect.READ_ONLY)
def divide(a: int, b: int) -> float:
    """One number by another."""
    if b == 0:
        raise ToolUserError("b must not be zero.")
    return a / b


@tool(effect=ToolEffect.READ_ONLY)
def leak() -> str:
    """Fails with a secret in its text."""
    raise RuntimeError("hunter2")


def test_the_events_of_a_real_runner() -> None:
    events: list[AiEvent] = []
    runner = ToolRunner([divide, leak], policy=ToolPolicy(("divide", "leak")), emit=events.append)
    calls = {
        "a": ("divide", '{"a": 1, "b": 4}'),
        "b": ("divide", '{"a": 1, "b": 0}'),
        "c": ("divide", '{"a": 1'),
        "d": ("leak", "{}"),
        "e": ("shell", "{}"),
    }
    results = {call: runner.exec_sync(name, args, tool_call_id=call) for call, (name, args) in calls.items()}
    shown = page(*events, DONE)
    assert {call: card.name for call, card in shown.cards.items()} == {call: calls[call][0] for call in calls}
    assert shown.cards["a"].result == results["a"].value
    assert shown.cards["b"].result["message"] == "b must not be zero."
    for call in "bcde":
        assert shown.cards[call].is_error
        assert shown.cards[call].result["error_code"] == results[call].error_code
    assert "hunter2" not in str(shown)


# -- the generator


async def test_events_come_from_a_list_or_from_an_async_source() -> None:
    events: list[AiEvent] = [TextDelta("Hello"), ToolCallStart("a", "t"), ToolCallResult("a", 1), DONE]

    async def source() -> AsyncIterator[AiEvent]:
        for event in events:
            yield event

    lines = b"".join(frame.line for frame in frames(*events))
    assert await body_of(events) == await body_of(iter(events)) == await body_of(source()) == lines


@pytest.mark.parametrize(
    ("fault", "code"),
    [(RuntimeError("hunter2"), "internal"), (ProviderError(code="rate_limit", detail="hunter2"), "rate_limit")],
)
async def test_a_source_that_fails_ends_the_answer_with_an_error(
    fault: Exception, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def source() -> AsyncIterator[AiEvent]:
        yield ToolCallStart("a", "t", {"x": 1})
        raise fault

    with caplog.at_level(logging.WARNING, "demiurge.wire"):
        body = await body_of(source())
    shown = page_of(body)
    assert shown.errors == [error_sentence(code)]
    assert shown.cards["a"].result == failure(ToolErrorCode.UNKNOWN_OUTCOME)
    assert shown.finish["finishReason"] == "error"
    assert b"hunter2" not in body
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [fault]


async def test_a_source_that_just_stops_is_an_incomplete_answer() -> None:
    assert page_of(await body_of([TextDelta("Hel")])).errors == [error_sentence("incomplete")]


async def test_nothing_is_read_after_done_and_the_source_is_closed() -> None:
    closed = []

    async def source() -> AsyncIterator[AiEvent]:
        try:
            yield DONE
            raise AssertionError
        finally:
            closed.append(True)

    assert page_of(await body_of(source())).errors == []
    assert closed == [True]


async def test_cancelling_goes_through_and_closes_the_source() -> None:
    closed, waiting = [], asyncio.Event()

    async def source() -> AsyncIterator[AiEvent]:
        try:
            yield ToolCallStart("a", "t")
            waiting.set()
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    reading = asyncio.create_task(body_of(source()))
    await waiting.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert closed == [True]


async def test_a_source_that_can_not_be_closed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    fault = OSError("hunter2")

    async def source() -> AsyncIterator[AiEvent]:
        try:
            yield TextDelta("Hi")
            yield DONE
        finally:
            raise fault

    assert page_of(await body_of(source())).text == "Hi"
    lines = encode(source())
    await anext(lines)
    await lines.aclose()
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [fault, fault]


async def test_a_reader_that_leaves_closes_the_source() -> None:
    closed = []

    async def source() -> AsyncIterator[AiEvent]:
        try:
            yield TextDelta("a")
            yield TextDelta("b")
        finally:
            closed.append(True)

    lines = encode(source())
    assert await anext(lines) == b'0:"a"\n'
    await lines.aclose()
    assert closed == [True]


def test_an_answer_that_was_stopped_says_so() -> None:
    stream = DataStream()
    started = stream.take(ToolCallStart("a", "t"))
    shown = page_of(b"".join(frame.line for frame in started + stream.end("aborted")))
    assert shown.errors == ["The answer was stopped."]
    assert shown.cards["a"].answered


# -- any events at all

TEXTS = st.text(st.characters(codec=None), max_size=8)
IDS = st.sampled_from(["a", "b", "c", "a.1", "", "\n", "é" * 65]) | TEXTS
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXTS
    | st.sampled_from([UNSHOWABLE[name] for name in ("datetime", "bytes", "loop", "deep")])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXTS | st.sampled_from(["__proto__", "constructor", "prototype"]), inner, max_size=3)
    ),
    max_leaves=6,
)
CODES = st.sampled_from(["internal", "aborted", "rate_limit", "hunter2"])
USAGE = st.none() | st.builds(UsageReport, prompt=st.integers(0, 99), completion=st.integers(0, 99))
BUT_DONE: st.SearchStrategy[AiEvent] = st.one_of(
    st.builds(TextDelta, TEXTS),
    st.builds(ToolCallStart, IDS, TEXTS, st.dictionaries(TEXTS, VALUES, max_size=2)),
    st.builds(ToolCallResult, IDS, VALUES, st.booleans()),
    st.builds(AssistantFinal, TEXTS),
    st.builds(Status, st.sampled_from(["thinking", "tool_use", "compacting"]), st.none() | TEXTS),
    st.builds(ToolProgress, IDS, st.floats(), st.none() | st.floats(), TEXTS),
    st.builds(ErrorEvent, CODES),
    st.builds(UsageReport, prompt=st.integers(0, 9), completion=st.integers(0, 9)),
)
ANY: st.SearchStrategy[AiEvent] = BUT_DONE | st.builds(Done, USAGE, st.none() | TEXTS)


@given(st.lists(BUT_DONE, max_size=12), st.lists(ANY, max_size=4), st.lists(st.integers(0, 4000)))
def test_any_events_make_a_page_in_order(first: list[AiEvent], then: list[AiEvent], cuts: list[int]) -> None:
    """The page itself fails on any line out of order, and on an end with an open call. Cuts make no difference."""
    body = b"".join(frame.line for frame in frames(*first, *then))
    whole, piecewise = page_of(body), Page()
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    for start, end in pairwise(places):
        piecewise.feed(body[start:end])
    piecewise.close()
    assert piecewise == whole
    ids = {event.tool_call_id for event in first if isinstance(event, ToolCallStart | ToolCallResult)}
    assert len(whole.cards) >= len(set(map(canonical_call_id, ids)))
    assert len(whole.errors) <= 1
    assert "hunter2" not in str(whole.errors)


def plain_run(calls: Iterable[tuple[str, Any]]) -> list[AiEvent]:
    return [event for name, value in calls for event in (ToolCallStart(name, "t"), ToolCallResult(name, value))]


@given(
    st.dictionaries(
        st.from_regex(r"call_[a-z0-9]{1,8}", fullmatch=True),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=9),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner),
            max_leaves=5,
        ),
        max_size=4,
    ),
    st.lists(st.text(max_size=9)),
)
def test_ordinary_events_are_shown_as_they_are(calls: dict[str, Any], texts: list[str]) -> None:
    shown = page(*plain_run(calls.items()), *map(TextDelta, texts), DONE)
    assert {name: card.result for name, card in shown.cards.items()} == calls
    assert shown.text == "".join(texts)
    assert (shown.errors, shown.finish["finishReason"]) == ([], "stop")
