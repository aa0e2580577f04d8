"""What runs is the tool that was asked for and allowed, whatever a source answers."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.tools import Tool, ToolEffect, ToolPolicy, ToolRunner, ToolSpec, tool

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
