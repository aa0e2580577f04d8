"""A call that is not run is told what is wrong with the call itself, in the words of the stage that would find it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from demiurge import Tool, ToolContext, ToolEffect, ToolExecResult, ToolPolicy, ToolResult, ToolRunner
from demiurge.tools import SAFE_MESSAGES, ToolErrorCode


@dataclass(frozen=True)
class Order:
    amount: int


def place(params: Order, *, context: ToolContext) -> ToolResult[None]:
    raise AssertionError("a call that is refused does not run")


TOOL = Tool[Order, None](name="order", description="Orders.", handler=place, effect=ToolEffect.STATE_CHANGE)
POLICY = ToolPolicy(("order", "gone"))


class Broken:
    def get(self, tool_id: str) -> Any:
        raise OSError("canary")

    def specs(self) -> tuple[Any, ...]:
        return ()


def refuse(
    code: ToolErrorCode, args: str, *, tool: str = "order", policy: ToolPolicy = POLICY, tools: Any = (TOOL,)
) -> ToolExecResult:
    return ToolRunner(tools, policy=policy).refuse(tool, args, code, message="The loop says no.")


@pytest.mark.parametrize(
    ("code", "options", "said"),
    [
        ("validation", {"args": '{"amount": "canary"}'}, "amount"),
        ("invalid_json", {"args": '{"amount": canary'}, SAFE_MESSAGES[ToolErrorCode.INVALID_JSON]),
        ("policy_denied", {"args": "{}", "policy": ToolPolicy()}, SAFE_MESSAGES[ToolErrorCode.POLICY_DENIED]),
        ("unavailable", {"args": "{}", "tool": "gone"}, SAFE_MESSAGES[ToolErrorCode.UNAVAILABLE]),
    ],
)
def test_a_refusal_that_a_stage_would_make_too_has_the_words_of_the_stage(
    code: str, options: dict[str, Any], said: str
) -> None:
    result = refuse(ToolErrorCode(code), **options)
    assert result.error_code == code
    assert result.safe_message is not None
    assert said in result.safe_message
    assert "The loop says no." not in result.content
    assert "canary" not in result.content


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("validation", {"args": '{"amount": 1}'}),
        ("validation", {"args": "{"}),
        ("validation", {"args": '{"amount": "x"}', "policy": ToolPolicy()}),
        ("invalid_json", {"args": '{"amount": "x"}'}),
        ("policy_denied", {"args": '{"amount": 1}'}),
        ("policy_denied", {"args": "{}", "tool": "gone"}),
        ("unavailable", {"args": "{}", "policy": ToolPolicy()}),
        ("repeated_call", {"args": '{"amount": "x"}'}),
        ("repeated_call", {"args": "{", "policy": ToolPolicy()}),
    ],
)
def test_a_refusal_that_no_stage_would_make_has_the_words_of_the_loop(code: str, options: dict[str, Any]) -> None:
    result = refuse(ToolErrorCode(code), **options)
    assert (result.error_code, result.safe_message) == (code, "The loop says no.")


def test_a_source_that_breaks_finds_nothing(caplog: pytest.LogCaptureFixture) -> None:
    result = refuse(ToolErrorCode.UNAVAILABLE, "{}", tools=Broken())
    assert (result.error_code, result.safe_message) == ("unavailable", "The loop says no.")
    [line] = caplog.messages
    assert line.startswith("tool call: policy_denied raised OSError at ")
    assert "canary" not in line
