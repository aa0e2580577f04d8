"""The calls of one turn: each answered once and in order, whatever happens to the turn."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demiurge.tools import (
    LoopSignal,
    Redaction,
    Tool,
    ToolCallResult,
    ToolCallStart,
    ToolContext,
    ToolEffect,
    ToolErrorCode,
    ToolExecResult,
    ToolPolicy,
    ToolPolicyContext,
    ToolResult,
    ToolRunner,
    tool,
)
from demiurge.wire import ToolCall


@dataclass(frozen=True)
class P:
    n: int


@dataclass(frozen=True)
class R:
    n: int


class Turn:
    """A runner over a reading tool, a writing one and one that signals, with what happened."""

    def __init__(self, max_parallel: int = 1) -> None:
        self.events: list[Any] = []
        self.trace: list[str] = []
        self.begun = asyncio.Event()
        effects = {"reads": ToolEffect.READ_ONLY, "also_reads": ToolEffect.READ_ONLY, "writes": ToolEffect.STATE_CHANGE}
        tools = [self._tool(name, self._work, effect) for name, effect in effects.items()]
        tools += [self._tool("waits", self._wait, ToolEffect.READ_ONLY)]
        tools += [self._tool("signals", self._signal, ToolEffect.READ_ONLY)]
        names = tuple(tool.name for tool in tools)
        self.runner = ToolRunner(
            [*tools, self._tool("hidden", self._work, ToolEffect.READ_ONLY)],
            policy=ToolPolicy(names),
            emit=self.events.append,
            max_parallel=max_parallel,
        )

    def _tool(self, name: str, handler: Any, effect: ToolEffect) -> Tool[P, R]:
        return Tool[P, R](
            name=name, description="Works.", handler=handler, effect=effect, redaction=Redaction.allow("n")
        )

    async def _work(self, params: P, *, context: ToolContext) -> ToolResult[R]:
        self.trace.append(f"+{params.n}")
        for _ in range(5):
            await asyncio.sleep(0)
        self.trace.append(f"-{params.n}")
        return ToolResult(message=context.caller.run_id, value=R(params.n))

    async def _wait(self, params: P, *, context: ToolContext) -> ToolResult[R]:
        self.begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def _signal(self, params: P, *, context: ToolContext) -> ToolResult[R]:
        raise LoopSignal("up")

    def codes(self) -> dict[str, Any]:
        """Each call's result event; checks that each has one start before its one result."""
        starts = [event.tool_call_id for event in self.events if isinstance(event, ToolCallStart)]
        results = {event.tool_call_id: event for event in self.events if isinstance(event, ToolCallResult)}
        assert len(starts) == len(set(starts)) == len(results) == len(self.events) / 2
        for call_id, result in results.items():
            assert self.events.index(ToolCallStart(call_id, self._name(call_id))) < self.events.index(result)
        return {
            call_id: result.result["error_code"] if result.is_error else "ok" for call_id, result in results.items()
        }

    def _name(self, call_id: str) -> str:
        (name,) = [e.tool_name for e in self.events if isinstance(e, ToolCallStart) and e.tool_call_id == call_id]
        return str(name)


def calls_of(*names: str) -> list[tuple[str, str, str]]:
    return [(f"c{index}", name, f'{{"n": {index}}}') for index, name in enumerate(names)]


async def test_calls_may_be_what_the_wire_decoded() -> None:
    turn = Turn()
    calls: list[Any] = [
        ToolCall("a", "reads", '{"n": 1}'),
        ("b", "reads", {"n": 2}),
        ToolCall("c", "writes", '{"n": 3}'),
    ]
    results = await turn.runner.exec_many(calls, ctx=ToolPolicyContext("run-7"))
    assert [(result.tool_call_id, result.value) for result in results] == [
        ("a", {"n": 1}),
        ("b", {"n": 2}),
        ("c", {"n": 3}),
    ]
    assert results[0].content.startswith("run-7\n\n")


async def test_a_call_that_the_wire_calls_invalid_is_not_run() -> None:
    turn = Turn()
    cut = ToolCall("a", "writes", '{"n": 1}', invalid=True)
    (result,) = await turn.runner.exec_many([cut])
    assert (result.error_code, turn.trace) == ("invalid_json", [])


async def test_no_calls_no_answers() -> None:
    assert await Turn().runner.exec_many([]) == ()


@pytest.mark.parametrize("max_parallel", [1, 3])
async def test_a_denied_call_in_the_middle_stops_nobody(max_parallel: int) -> None:
    turn = Turn(max_parallel)
    results = await turn.runner.exec_many(calls_of("reads", "hidden", "reads", "no such tool", "writes"))
    codes = [result.error_code for result in results]
    assert codes == [None, "policy_denied", None, "policy_denied", None]
    assert [result.tool_call_id for result in results] == ["c0", "c1", "c2", "c3", "c4"]
    assert list(turn.codes()) == ["c0", "c1", "c2", "c3", "c4"] or max_parallel > 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["reads", "also_reads", "writes", "hidden"]), max_size=8), st.integers(1, 4))
def test_only_neighbours_that_read_overlap(names: list[str], max_parallel: int) -> None:
    async def run() -> tuple[Turn, Any]:
        turn = Turn(max_parallel)
        return turn, await turn.runner.exec_many(calls_of(*names))

    turn, results = asyncio.run(run())
    assert [result.tool_call_id for result in results] == [f"c{index}" for index in range(len(names))]
    assert [result.ok for result in results] == [name != "hidden" for name in names]
    open_now: set[int] = set()
    for step in turn.trace:
        number = int(step[1:])
        if step[0] == "-":
            open_now.remove(number)
            continue
        open_now.add(number)
        assert len(open_now) <= max_parallel
        if len(open_now) > 1:
            between = names[min(open_now) : max(open_now) + 1]
            assert set(between) <= {"reads", "also_reads", "hidden"}


@pytest.mark.parametrize("max_parallel", [1, 2, 4])
async def test_a_signal_goes_up_and_every_call_is_answered(max_parallel: int) -> None:
    turn = Turn(max_parallel)
    with pytest.raises(LoopSignal):
        await turn.runner.exec_many(calls_of("reads", "writes", "signals", "reads", "waits", "writes"))
    codes = turn.codes()
    assert sorted(codes) == ["c0", "c1", "c2", "c3", "c4", "c5"]
    assert [codes["c0"], codes["c1"]] == ["ok", "ok"]
    assert {codes["c2"], codes["c4"], codes["c5"]} == {"cancelled"}
    assert "+5" not in turn.trace


@pytest.mark.parametrize("max_parallel", [1, 2, 4])
async def test_a_cancelled_turn_answers_every_call(max_parallel: int) -> None:
    turn = Turn(max_parallel)
    task = asyncio.create_task(turn.runner.exec_many(calls_of("writes", "waits", "waits", "waits", "writes", "hidden")))
    await turn.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert turn.codes() == {
        "c0": "ok",
        **dict.fromkeys(["c1", "c2", "c3", "c4", "c5"], "cancelled"),
    }
    assert "+4" not in turn.trace


async def test_a_turn_that_is_cancelled_before_it_begins_answers_nobody() -> None:
    turn = Turn()
    task = asyncio.create_task(turn.runner.exec_many(calls_of("reads", "writes")))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert turn.events == []


@dataclass(frozen=True)
class Payload:
    """A call that has the provider's own payload with it."""

    id: str
    name: str
    arguments_json: str
    raw: Any


async def test_the_providers_own_payload_is_in_the_record_and_nowhere_else() -> None:
    turn = Turn()
    payload = {"thought": "canary-33b1"}
    calls = [Payload("c1", "reads", '{"n": 1}', payload), Payload("c2", "unknown", "{}", payload)]
    answers = await turn.runner.exec_many([*calls, ("c3", "reads", '{"n": 2}')])
    assert [answer.record.raw for answer in answers] == [payload, payload, None]
    assert "canary" not in repr(answers) + repr(turn.events) + repr([answer.record.public() for answer in answers])


def test_without_a_loop_a_turn_is_answered_in_order() -> None:
    turn = Turn(max_parallel=4)
    results = turn.runner.exec_many_sync(calls_of("reads", "hidden", "writes", "also_reads"))
    assert [result.error_code for result in results] == [None, "policy_denied", None, None]
    assert [result.tool_call_id for result in results] == ["c0", "c1", "c2", "c3"]
    assert turn.trace == ["+0", "-0", "+2", "-2", "+3", "-3"]


def test_without_a_loop_a_signal_goes_up_and_every_call_is_answered() -> None:
    turn = Turn()
    with pytest.raises(LoopSignal):
        turn.runner.exec_many_sync(calls_of("writes", "signals", "reads", "hidden"))
    assert turn.codes() == {"c0": "ok", **dict.fromkeys(["c1", "c2", "c3"], "cancelled")}
    assert "+2" not in turn.trace


async def test_calls_that_the_loop_refuses_are_answered_in_their_place() -> None:
    turn = Turn(max_parallel=4)
    refused = {0: ToolErrorCode.ROUNDS_EXCEEDED, 2: ToolErrorCode.REPEATED_CALL, 3: ToolErrorCode.REPEATED_CALL}
    results = await turn.runner.exec_many(calls_of("writes", "reads", "reads", "hidden"), refused=refused)
    assert [result.error_code for result in results] == ["rounds_exceeded", None, "repeated_call", "repeated_call"]
    assert [result.record.name for result in results] == ["writes", "reads", "reads", "hidden"]
    assert turn.codes() == {"c0": "rounds_exceeded", "c1": "ok", "c2": "repeated_call", "c3": "repeated_call"}
    assert turn.trace == ["+1", "-1"]
    assert turn.runner.summary.to_json()["calls"] == 4


@pytest.mark.parametrize("max_parallel", [1, 4])
async def test_each_answer_is_told_also_when_the_turn_is_cut_short(max_parallel: int) -> None:
    turn = Turn(max_parallel)
    told: list[ToolExecResult] = []
    calls = calls_of("writes", "hidden", "waits", "writes", "reads")
    refused = {4: ToolErrorCode.REPEATED_CALL}
    task = asyncio.create_task(turn.runner.exec_many(calls, answered=told.append, refused=refused))
    await turn.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    codes = {result.tool_call_id: result.error_code for result in told}
    assert codes == {"c0": None, "c1": "policy_denied", **dict.fromkeys(["c2", "c3", "c4"], "cancelled")}
    assert len(told) == 5


@pytest.mark.parametrize("max_parallel", [1, 4])
async def test_no_call_begins_after_one_that_does_not_let_itself_be_cancelled(max_parallel: int) -> None:
    begun, told = asyncio.Event(), list[ToolExecResult]()

    @tool(effect=ToolEffect.READ_ONLY)
    async def stubborn() -> str:
        """Goes on."""
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "went on"

    @tool(effect=ToolEffect.STATE_CHANGE)
    async def writes() -> str:
        """Never runs."""
        raise AssertionError

    runner = ToolRunner([stubborn, writes], policy=ToolPolicy(("stubborn", "writes")), max_parallel=max_parallel)
    calls = [("c0", "stubborn", "{}"), ("c1", "writes", "{}"), ("c2", "stubborn", "{}")]
    task = asyncio.create_task(runner.exec_many(calls, answered=told.append))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [(result.tool_call_id, result.error_code) for result in told] == [
        ("c0", None),
        ("c1", "cancelled"),
        ("c2", "cancelled"),
    ]
