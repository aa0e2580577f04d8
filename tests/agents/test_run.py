"""A run as a stream of events: who reads it, who stops, and what is left then."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from tests.agents.desk_tools import (
    Desk,
    call,
    call_answer,
    check_events,
    check_paired,
    close_abandoned_tasks,
    events_of,
    outputs,
    results,
    text_answer,
)

from demiurge import AgentLoop, ToolEffect, ToolPolicy, ToolRunner, UsageError, tool
from demiurge.models import GenerateRequest
from demiurge.tools.events import AiEvent, Done, ErrorEvent, TextDelta, ToolCallStart
from demiurge.wire.items import Completion

WAITING = call_answer(call("c1", "look", at="x"), call("c2", "wait"), call("c3", "write", text="y"))
CUT = {"c1": "ok", "c2": "unknown_outcome", "c3": "cancelled"}


async def read_until_call_waits(desk: Desk, run: Any) -> list[AiEvent]:
    """Reads until the call that waits has begun."""
    events: list[AiEvent] = []
    async for event in run:
        events.append(event)
        if event == ToolCallStart("c2", "wait"):
            await desk.waits.wait()
            break
    return events


async def test_a_reader_that_stops_ends_the_run_and_each_call_keeps_a_result() -> None:
    desk = Desk().loop(WAITING, text_answer("never asked"))
    run = desk.agent.run("Go")
    events = await read_until_call_waits(desk, run)
    await close_abandoned_tasks()
    assert results(desk.heard) == CUT
    assert (run.turn.status, run.turn.error_code) == ("failed", "cancelled")
    told = {"c1": "saw x", "c2": "unknown_outcome", "c3": "cancelled"}
    assert outputs(run.turn.items) == told
    check_paired(run.turn.items)
    assert desk.done == ["+x", "-x"]
    assert len(desk.model.requests) == 1

    events += await events_of(run)
    check_events(events)
    assert results(events) == CUT
    assert events[-2:] == [ErrorEvent("cancelled"), Done(None, "error")]
    assert await events_of(run) == []


async def test_a_block_that_is_left_has_ended_the_run() -> None:
    desk = Desk().loop(WAITING)
    async with desk.agent.run("Go") as run:
        await read_until_call_waits(desk, run)
    assert results(desk.heard) == CUT
    assert run.turn.error_code == "cancelled"
    await close_abandoned_tasks()


async def test_a_reader_that_is_cancelled_ends_the_run_first() -> None:
    desk = Desk().loop(WAITING)
    run = desk.agent.run("Go")
    reader = asyncio.create_task(events_of(run))
    await desk.waits.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert results(desk.heard) == CUT
    assert run.turn.error_code == "cancelled"


async def test_a_stop_button_lets_the_reader_read_to_the_end() -> None:
    desk = Desk().loop(WAITING)
    run = desk.agent.run("Go")
    events: list[AiEvent] = []
    async for event in run:
        events.append(event)
        if event == ToolCallStart("c2", "wait"):
            await desk.waits.wait()
            run.cancel()
            run.cancel()
    check_events(events)
    assert results(events) == CUT
    assert events[-2:] == [ErrorEvent("cancelled"), Done(None, "error")]


async def test_a_run_that_is_stopped_before_it_begins_has_a_done_event() -> None:
    desk = Desk().loop(text_answer("never asked"))
    run = desk.agent.run("Go")
    run.cancel()
    assert await events_of(run) == [ErrorEvent("cancelled"), Done(None, "error")]
    assert desk.model.requests == []


async def test_a_model_that_is_stopped_in_the_middle_leaves_no_half_answer() -> None:
    class Slow:
        async def generate(self, request: GenerateRequest, *, on_event: Any = None) -> Completion:
            on_event(TextDelta("Once upon"))
            await asyncio.Event().wait()
            raise AssertionError

    run = AgentLoop(Slow(), Desk().runner, provider="openai-chat", model_name="m").run("Tell me")
    events: list[AiEvent] = []
    async for event in run:
        events.append(event)
        run.cancel()
    assert events == [TextDelta("Once upon"), ErrorEvent("cancelled"), Done(None, "error")]
    assert [type(item).__name__ for item in run.turn.items] == ["Message"]


async def test_a_model_that_does_not_let_itself_be_stopped_has_no_call_run() -> None:
    class Stubborn:
        async def generate(self, request: GenerateRequest, *, on_event: Any = None) -> Completion:
            on_event(TextDelta("Well"))
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return call_answer(call("c1", "write", text="x"))

    desk = Desk()
    async with AgentLoop(Stubborn(), desk.runner, provider="openai-chat", model_name="m").run("Go") as run:
        async for _ in run:
            break
    assert (run.turn.error_code, desk.done) == ("cancelled", [])


async def test_a_handler_that_does_not_let_itself_be_stopped_is_the_last() -> None:
    began, done = asyncio.Event(), list[str]()

    @tool(effect=ToolEffect.STATE_CHANGE)
    async def stubborn() -> str:
        """Goes on."""
        began.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "went on"

    @tool(effect=ToolEffect.STATE_CHANGE, inline=True)
    def write(text: str) -> str:
        """Writes something."""
        done.append(text)
        return "wrote"

    asked = call_answer(call("c1", "stubborn"), call("c2", "write", text="x"))
    alone = call_answer(call("c1", "write", text="x"), call("c2", "stubborn"))
    for answer, codes in ((asked, {"c1": "ok", "c2": "cancelled"}), (alone, {"c1": "ok", "c2": "ok"})):
        done.clear()
        desk = Desk().loop(answer, text_answer("never asked"))
        runner = ToolRunner([stubborn, write], policy=ToolPolicy(("stubborn", "write")))
        run = AgentLoop(desk.model, runner, provider="openai-chat", model_name="m").run("Go")
        reader = asyncio.create_task(events_of(run))
        await began.wait()
        began.clear()
        run.cancel()
        events = await reader
        check_events(events)
        assert (results(events), done) == (codes, ["x"] if codes["c2"] == "ok" else [])
        assert (run.turn.error_code, len(desk.model.requests)) == ("cancelled", 1)
        check_paired(run.turn.items)


async def test_nobody_has_to_read_for_it_to_go_on() -> None:
    desk = Desk().loop(call_answer(call("c1", "wait")), text_answer("Waited."))
    run = desk.agent.run("Go")
    async for _ in run:
        await desk.waits.wait()
        desk.let_go.set()
        while len(desk.model.requests) < 2:
            await asyncio.sleep(0)
    assert run.turn.text == "Waited."


async def test_nothing_begins_before_it_is_read() -> None:
    desk = Desk().loop(text_answer("Hello."))
    run = desk.agent.run("Hi")
    with pytest.raises(UsageError, match="not over"):
        _ = run.turn
    await run.aclose()
    assert desk.model.requests == []


async def test_events_are_for_one_reader() -> None:
    run = Desk().loop(text_answer("Hello.")).agent.run("Hi")
    one, two = await asyncio.gather(events_of(run), events_of(run), return_exceptions=True)
    assert isinstance(two, UsageError)
    assert isinstance(one, list)
    check_events(one)


async def test_runs_of_one_loop_don_t_mix() -> None:
    desk = Desk().loop(
        call_answer(call("c1", "look", at="a")),
        call_answer(call("c1", "look", at="b")),
        text_answer("A"),
        text_answer("B"),
    )
    first, second = desk.agent.run("a"), desk.agent.run("b")
    for events in await asyncio.gather(events_of(first), events_of(second)):
        check_events(events)
        assert len(results(events)) == 1
    assert {first.turn.text, second.turn.text} == {"A", "B"}
