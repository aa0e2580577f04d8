"""A failed call: who learns which words, and how many."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from demiurge.tools import (
    Budgets,
    Redaction,
    Tool,
    ToolContext,
    ToolEffect,
    ToolExecResult,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    ToolUserError,
    ToolValidationError,
)

FAILED = "The tool failed."
MOST = 4096


class Told:
    """One call of a tool with this handler: its answer, and all that the public saw of it."""

    def __init__(self, handler: Callable[[], Any], redaction: Redaction, limit: int | None = None) -> None:
        def look(params: None, *, context: ToolContext) -> ToolResult[Any]:
            returned: ToolResult[Any] = handler()
            return returned

        tool = Tool[None, dict[str, Any]](
            name="look", description="Look.", handler=look, effect=ToolEffect.READ_ONLY, redaction=redaction
        )
        policy = ToolPolicy(("look",), budgets=Budgets(max_result_bytes=limit))
        events: list[Any] = []
        self.answer: ToolExecResult = ToolRunner([tool], policy=policy, emit=events.append).exec_sync("look", "{}")
        assert (self.answer.ok, self.answer.error_code) == (False, "execution")
        self.public = repr((events, self.answer.safe_message, self.answer.record.public()))
        self.model: dict[str, Any] = json.loads(self.answer.content)


def reports(message: str, value: Any = None) -> Callable[[], Any]:
    return lambda: ToolResult(message, value, success=False)


def handler_that_raises(error: Exception) -> Callable[[], Any]:
    def handler() -> Any:
        raise error

    return handler


@pytest.mark.parametrize("redaction", [Redaction.drop_all(), Redaction.allow("a"), Redaction.paths("a.b")])
def test_a_reported_failure_is_for_the_model_alone_unless_messages_are_public(redaction: Redaction) -> None:
    told = Told(reports("canary: no such step", {"a": "private"}), redaction)
    assert told.answer.safe_message == FAILED
    assert "canary" not in told.public
    assert "private" not in told.public
    assert (told.model["message"], told.model["value"]) == ("canary: no such step", {"a": "private"})


def test_a_reported_failure_is_public_where_messages_are() -> None:
    told = Told(reports("No such step.", {"a": "private"}), Redaction.message_only())
    assert told.answer.safe_message == "No such step."
    assert "private" not in told.public


def test_a_user_error_is_always_public() -> None:
    told = Told(handler_that_raises(ToolUserError("Try Monday.")), Redaction.drop_all())
    assert told.answer.safe_message == told.model["message"] == "Try Monday."


@pytest.mark.parametrize(
    "say", [reports, lambda text: handler_that_raises(ToolUserError(text))], ids=["reported", "raised"]
)
def test_a_message_is_whole_or_not_there(say: Callable[[str], Callable[[], Any]]) -> None:
    for text, heard in (("é" * (MOST // 2), True), ("é" * (MOST // 2) + "x", False)):
        told = Told(say(text), Redaction.message_only())
        assert told.answer.safe_message == told.model["message"] == (text if heard else FAILED)
    small = Told(say("x" * 200), Redaction.message_only(), limit=100)
    assert small.answer.safe_message == small.model["message"] == FAILED


def test_over_the_result_budget_the_value_goes_first_and_then_the_message() -> None:
    both = Told(reports("Short.", {"a": "x" * 50}), Redaction.message_only(), limit=200)
    assert both.model["value"] == {"a": "x" * 50}
    one = Told(reports("Short.", {"a": "x" * 500}), Redaction.message_only(), limit=200)
    assert one.model == {"ok": False, "error_code": "execution", "message": "Short."}
    none = Told(reports("x" * 190), Redaction.message_only(), limit=200)
    assert none.model == {"ok": False, "error_code": "execution", "message": FAILED}


def test_a_large_integer_of_a_failure_keeps_its_digits() -> None:
    assert Told(reports("m", {"a": 2**70}), Redaction.drop_all()).model["value"] == {"a": 2**70}


def test_fields_that_utf8_cannot_write_are_replaced() -> None:
    def look(params: None, *, context: ToolContext) -> ToolResult[None]:
        raise ToolValidationError("no", fields=("step \ud800 is gone",))

    tool = Tool[None, None](name="look", description="Look.", handler=look)
    result = ToolRunner([tool], policy=ToolPolicy(("look",))).exec_sync("look", "{}")
    assert result.safe_message is not None
    assert "step ? is gone" in result.safe_message
    result.content.encode()
