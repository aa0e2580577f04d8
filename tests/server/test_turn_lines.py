"""The lines of a streamed turn, whole: each line as a browser gets it, and its end whatever the end is."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from tests.server.conftest import Served

from demiurge.bootstrap import Reply, ToolCallView
from demiurge.registry.evidence import EvidenceFinding
from demiurge.server.turn_stream import _end, _result, turn_lines
from demiurge.wire.data_stream import DataStream

CHAT = ("2", [{"type": "chat", "chatId": "c1", "requestId": 1}])
USAGE = {"inputTokens": 10, "outputTokens": 5}


def read(line: bytes) -> tuple[str, Any]:
    code, _, value = line.decode().partition(":")
    return code, json.loads(value)


def ended(reply: Reply) -> list[tuple[str, Any]]:
    return [(frame.code, frame.value) for frame in _end(DataStream(), reply)]


async def test_an_answer_is_its_text_and_the_end(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Good day.")))
    chat = served.world.chat("c1")
    await chat.send("Hello")

    async def is_allowed() -> bool:
        return True

    lines = [read(line) async for line in turn_lines(chat, 1, asyncio.Event(), is_allowed)]
    finish = {"finishReason": "stop", "usage": USAGE}
    assert lines == [CHAT, ("0", "Good day."), ("e", {**finish, "isContinued": False}), ("d", finish)]


async def test_a_call_is_begun_with_its_public_arguments_and_answered(served: Served) -> None:
    call = served.provider.call("long_report", {"more": "canary"})
    served.provider.say(served.provider.answer(call), served.provider.answer(served.provider.text("No.")))
    user = await served.client()
    said = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}], "chatId": "c1"}
    answer = await user.post("/api/ai/chat", json=said)
    lines = [read(line.encode()) for line in answer.text.splitlines()]
    finish = {"finishReason": "stop", "usage": {"inputTokens": 20, "outputTokens": 10}}
    why = "The arguments do not fit the tool's schema. Found: unknown field more; no field is allowed."
    assert [line for line in lines if line[0] != "2"] == [
        ("b", {"toolCallId": "call_1", "toolName": "long_report"}),
        ("c", {"toolCallId": "call_1", "argsTextDelta": "{}"}),
        (
            "a",
            {
                "toolCallId": "call_1",
                "result": {"ok": False, "error_code": "validation", "message": why},
                "isError": True,
            },
        ),
        ("0", "No."),
        ("e", {**finish, "isContinued": False}),
        ("d", finish),
    ]


@pytest.mark.parametrize("why", ["closing", "unauthorized"])
async def test_a_stream_that_is_ended_says_why(served: Served, why: str) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Good day.")))
    chat, closing = served.world.chat("c1"), asyncio.Event()
    await chat.send("Hello")
    if why == "closing":
        closing.set()

    async def is_allowed() -> bool:
        return why != "unauthorized"

    lines = [read(line) async for line in turn_lines(chat, 1, closing, is_allowed)]
    finish = {"finishReason": "error", "usage": {"inputTokens": 0, "outputTokens": 0}}
    assert lines == [
        CHAT,
        ("2", [{"type": why}]),
        ("3", "The answer was stopped."),
        ("e", {**finish, "isContinued": False}),
        ("d", finish),
    ]


async def test_a_turn_that_cannot_be_streamed_ends_with_an_error_and_the_log_says_why(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Good day.")))
    chat = served.world.chat("c1")
    await chat.send("Hello")

    async def is_allowed() -> bool:
        raise RuntimeError("canary")

    lines = [read(line) async for line in turn_lines(chat, 1, asyncio.Event(), is_allowed)]
    assert [code for code, _ in lines] == ["2", "3", "e", "d"]
    assert lines[1] == ("3", "Something went wrong here.")
    [record] = [record for record in caplog.records if record.name == "demiurge.server.turn_stream"]
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "A turn could not be streamed (RuntimeError).")
    assert record.exc_info is not None


async def test_a_turn_that_is_not_there_ends_with_an_error(served: Served) -> None:
    async def is_allowed() -> bool:
        return True

    lines = [read(line) async for line in turn_lines(served.world.chat("c1"), 1, asyncio.Event(), is_allowed)]
    assert [code for code, _ in lines] == ["2", "3", "e", "d"]
    assert lines[0] == CHAT


def test_a_turn_that_waits_ends_with_what_it_waits_for() -> None:
    finish = {"finishReason": "tool-calls", "usage": USAGE}
    reply = Reply("awaiting_approval", 1, approvals=("a1", "a2"), prompt_tokens=10, completion_tokens=5)
    assert ended(reply) == [
        ("2", [{"type": "waiting", "approvals": ["a1", "a2"]}]),
        ("e", {**finish, "isContinued": False}),
        ("d", finish),
    ]


@pytest.mark.parametrize(("code", "said"), [("insufficient_credits", "There is no credit left for this.")])
def test_a_turn_that_failed_ends_with_its_code_and_message(code: str, said: str) -> None:
    finish = {"finishReason": "error", "usage": USAGE}
    reply = Reply("failed", 1, error_code=code, message="Why.", prompt_tokens=10, completion_tokens=5)
    assert ended(reply) == [
        ("2", [{"type": "failed", "code": code, "message": "Why."}]),
        ("3", said),
        ("e", {**finish, "isContinued": False}),
        ("d", finish),
    ]


def test_an_answer_that_was_cut_ends_so_and_its_findings_come_first() -> None:
    finding = EvidenceFinding(2, "unknown_receipt", "rcpt_1", "No call gave this receipt.")
    finish = {"finishReason": "length", "usage": USAGE}
    reply = Reply("done", 1, "Good", finish_reason="length", prompt_tokens=10, completion_tokens=5, findings=(finding,))
    found = {"line": 2, "code": "unknown_receipt", "detail": "rcpt_1", "message": "No call gave this receipt."}
    assert ended(reply) == [
        ("2", [{"type": "evidence", "findings": [found]}]),
        ("0", "Good"),
        ("e", {**finish, "isContinued": False}),
        ("d", finish),
    ]


@pytest.mark.parametrize(
    ("view", "result"),
    [
        (
            ToolCallView("c", "t", None, False, error_code="validation", message="Safe."),
            {"ok": False, "error_code": "validation", "message": "Safe."},
        ),
        (
            ToolCallView("c", "t", "{}", False, content='{"message": "Own."}', error_code="execution", message="Safe."),
            {"ok": False, "error_code": "execution", "message": "Own."},
        ),
        (
            ToolCallView("c", "t", "{}", False, error_code="timeout", message="x" * 4001),
            {"ok": False, "error_code": "timeout", "message": "x" * 4000},
        ),
        (ToolCallView("c", "t", None, True, result={"a": 1}), {"redacted": {"a": 1}}),
        (
            ToolCallView("c", "t", "{}", True, result={"a": 1}, content="Told.", value={"a": 1, "b": 2}),
            {"content": "Told.", "value": {"a": 1, "b": 2}, "redacted": {"a": 1}},
        ),
        (
            ToolCallView("c", "t", "{}", True, result={"a": "é" * 20_000}, content="Told.", value={"b": 2}),
            {"content": "Told.", "value": {"b": 2}, "redacted": None, "redacted_cut": 40_008},
        ),
        (
            ToolCallView("c", "t", "{}", True, result={"a": 1}, content="x" * 40_000, value={"b": 2}),
            {
                "content": "x" * 4000,
                "content_cut": 40_000,
                "value": {"b": 2},
                "redacted": None,
                "redacted_cut": 7,
            },
        ),
    ],
)
def test_a_result_is_what_the_caller_may_see_as_far_as_a_line_takes_it(
    view: ToolCallView, result: dict[str, Any]
) -> None:
    assert _result(view) == result
