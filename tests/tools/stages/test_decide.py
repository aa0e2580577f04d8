"""What runs is the tool that was asked for and allowed, whatever a source answers."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.tools import Tool, ToolEffect, ToolPolicy, ToolPolicyContext, ToolRunner, ToolSpec, tool
from demiurge.tools.policy import Decision

ran: list[str] = []


@tool(effect=ToolEffect.READ_ONLY)
def look() -> str:
    """Looks."""
    return "looked"


@tool()
def wipe() -> str:
    """Wipes."""
    ran.append("wipe")
    return "wiped"


class Source:
    """One that gives `answer` whatever it is asked for."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def get(self, tool_id: str) -> Any:
        return self.answer

    def specs(self) -> tuple[ToolSpec, ...]:
        return (look.spec,)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (look.bound, None),
        (wipe.bound, "unavailable"),
        (None, "unavailable"),
        (look, "policy_denied"),
        (7, "policy_denied"),
    ],
)
def test_a_source_that_answers_with_something_else_has_not_got_the_tool(answer: Any, code: str | None) -> None:
    assert isinstance(wipe, Tool)
    runner = ToolRunner(Source(answer), policy=ToolPolicy(("look",)))
    assert runner.exec_sync("look", {}).error_code == code
    assert ran == []


class Remembers(ToolPolicy):
    def decide(self, ctx: ToolPolicyContext, tool_id: str, effect: ToolEffect) -> Decision:
        asked.append((ctx, tool_id, effect))
        return super().decide(ctx, tool_id, effect)


asked: list[tuple[ToolPolicyContext, str, ToolEffect]] = []


def test_the_policy_is_asked_about_the_caller_and_the_tools_own_level_and_of_no_tool_about_the_strictest() -> None:
    asked.clear()
    caller = ToolPolicyContext(run_id="r", actor="user:ada")
    runner = ToolRunner([look], policy=Remembers(("look",)))
    for name in ("look", "gone"):
        runner.exec_sync(name, {}, ctx=caller)
    assert asked == [
        (caller, "look", ToolEffect.READ_ONLY),
        (caller, "gone", ToolEffect.EXTERNAL_SIDE_EFFECT),
    ]
