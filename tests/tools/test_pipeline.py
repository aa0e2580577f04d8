"""The order of the steps of one call, and that it ends where one fails: what the original tested of its runner.

Two differences are meant: a call that is denied has a start event too, and a tool that is not allowed is denied
whether it exists or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from demiurge import (
    Redaction,
    Tool,
    ToolContext,
    ToolEffect,
    ToolExecResult,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
)
from demiurge.tools import ToolCallResult, ToolCallStart, event_to_json

CANARY = "canary-7f3a"
ALLOW = ToolPolicy(("web__search",))


@dataclass(frozen=True)
class Query:
    text: str


@dataclass(frozen=True)
class Found:
    count: int
    secret: str = CANARY


def search(params: Query, *, context: ToolContext) -> ToolResult[Found]:
    return ToolResult(message="found", value=Found(1))


TOOL = Tool[Query, Found](name="web__search", description="Search.", handler=search, effect=ToolEffect.READ_ONLY)


class Traced:
    """The tool, noting which of its parts are asked for; the one named `breaks` fails."""

    def __init__(self, breaks: str = "", policy: ToolPolicy | None = ALLOW, **options: Any) -> None:
        self.steps: list[str] = []
        self.events: list[Any] = []
        self.contexts: list[ToolContext] = []
        self.breaks = breaks
        bound, step = TOOL.bound, self._step

        class Noted(Redaction):
            def apply(self, message: str, value: Any) -> Any:
                step("redact", value)
                return super().apply(message, value)

        def call(params: Any, context: ToolContext) -> Any:
            self.contexts.append(context)
            step("call", params)
            return bound.call(params, context)

        traced = replace(
            bound,
            spec=replace(bound.spec, redaction=Noted("top_level", ("count",))),
            parse=lambda text: step("parse", text) or bound.parse(text),
            call=call,
            dump=lambda value: step("dump", value) or bound.dump(value),
        )
        self.runner = ToolRunner([traced], policy=policy, emit=self.events.append, **options)

    def _step(self, name: str, value: Any) -> None:
        self.steps.append(name)
        if name == self.breaks:
            raise RuntimeError(f"{CANARY} {value}")

    def answer(self, args: Any = '{"text": "x"}', **options: Any) -> ToolExecResult:
        return self.runner.exec_sync("web__search", args, **options)


@pytest.mark.parametrize(
    ("breaks", "code", "steps"),
    [
        ("", None, ["parse", "call", "dump", "redact"]),
        ("parse", "validation", ["parse"]),
        ("call", "execution", ["parse", "call"]),
        ("dump", "output_validation", ["parse", "call", "dump"]),
        ("redact", "redaction_failed", ["parse", "call", "dump", "redact"]),
    ],
)
def test_order_of_the_steps_and_a_stop_at_the_one_that_fails(breaks: str, code: str | None, steps: list[str]) -> None:
    run = Traced(breaks)
    result = run.answer()
    assert (result.error_code, run.steps) == (code, steps)
    assert [type(event) for event in run.events] == [ToolCallStart, ToolCallResult]
    assert CANARY not in repr((result, [event_to_json(event) for event in run.events]))
    if code is None:
        assert run.events[1].result == result.value == {"count": 1}
    else:
        assert CANARY not in result.content


@pytest.mark.parametrize(
    "policy",
    [
        None,
        ToolPolicy(),
        ToolPolicy(("other",)),
        ToolPolicy(("web__search",), require_approval_for_tools=("web__search",)),
    ],
)
def test_no_part_of_a_denied_tool_is_touched(policy: ToolPolicy | None) -> None:
    run = Traced(policy=policy)
    assert run.answer().error_code == "policy_denied"
    assert run.steps == []
    assert [type(event) for event in run.events] == [ToolCallStart, ToolCallResult]


def test_an_allowed_tool_that_is_unknown_is_unavailable() -> None:
    runner = ToolRunner([TOOL], policy=ToolPolicy(("web__search", "absent")))
    assert runner.exec_sync("absent", "{}").error_code == "unavailable"


def test_ids_are_made_where_there_are_none_and_are_all_different() -> None:
    run = Traced()
    ids = [run.answer().tool_call_id for _ in range(20)]
    assert len(set(ids)) == 20
    assert [event.tool_call_id for event in run.events] == [call_id for call_id in ids for _ in range(2)]


def test_the_context_carries_run_and_call() -> None:
    run = Traced()
    run.answer(tool_call_id="c1", ctx=ToolPolicyContext(run_id="run_1", actor="user:7"))
    (context,) = run.contexts
    assert (context.caller.run_id, context.caller.actor, context.tool_call_id) == ("run_1", "user:7", "c1")
