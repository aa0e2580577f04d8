"""Assertions about tool calls, and what they say when they fail."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from demiurge import AgentLoop, ToolPolicy, ToolResult, ToolRunner, ToolUserError, World, tool
from demiurge.errors import UsageError
from demiurge.testing import (
    ScriptedModel,
    assert_no_tool_called,
    assert_tool_called,
    assert_tool_denied,
    assert_tool_not_called,
    assert_waits_for_approval,
    call,
    memory_world,
    tool_calls,
)


@tool(effect="read_only")
def add(a: int, b: int) -> ToolResult[int]:
    """Adds two numbers."""
    if a == 13:
        raise ToolUserError("13 is not added here.")
    return ToolResult(f"{a + b}", a + b)


@tool
def send(to: str) -> ToolResult[None]:
    """Sends a message."""
    return ToolResult(f"Sent to {to}.")


POLICY = ToolPolicy(("add", "send"), require_approval_for_tools=("send",))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with memory_world([add, send], policy=POLICY) as opened:
        yield opened


async def test_the_calls_of_a_world_are_those_of_its_journal(world: World) -> None:
    await world.call("add", '{"a": 1, "b": 2}')
    await world.call("add", '{"a": 13, "b": 2}')
    await world.call("remove", "{}")
    await world.call("send", '{"to": "ann"}')
    assert assert_tool_called(world, "add", times=1, ok=True).arguments == {"a": 1, "b": 2}
    assert assert_tool_called(world, "add", ok=False).message == "13 is not added here."
    assert_tool_called(world, "add", times=2)
    assert_tool_called(world, "add", times=1, arguments={"a": 1})
    assert_tool_called(world, "add", times=2, arguments=lambda given: given["b"] == 2)
    assert_tool_denied(world, "remove", code="policy_denied")
    assert_waits_for_approval(world, "send")
    assert_tool_not_called(world, "drop")
    with pytest.raises(AssertionError) as caught:
        assert_tool_called(world, "add", times=1, arguments={"a": 7}, ok=True)
    assert str(caught.value).split("\n")[:5] == [
        "Expected one call with {'a': 7} that succeeded of add, found 0. The calls were:",
        '  add {"a": 1, "b": 2} -> ok',
        '  add {"a": 13, "b": 2} -> execution: 13 is not added here.',
        "  remove {} -> policy_denied: This tool is not allowed here.",
        '  send {"to": "ann"} -> waits for a person',
    ]


async def test_decisions_of_a_person_are_seen(world: World) -> None:
    for approve in (True, False):
        waits = await world.call("send", f'{{"to": "{approve}"}}')
        assert waits.approval is not None
        await world.decide(waits.approval, approve=approve, reason="tested")
    await world.settle()
    assert_tool_called(world, "send", times=1, arguments={"to": "True"}, ok=True)
    assert_tool_denied(world, "send", code="approval_rejected")
    with pytest.raises(AssertionError, match="a call that waits for a person of send, found 0"):
        assert_waits_for_approval(world, "send")


async def test_outcomes_and_records_are_calls_too(world: World) -> None:
    outcomes = [await world.call("add", '{"a": 1, "b": 2}'), await world.call("send", '{"to": "ann"}')]
    assert_tool_called(outcomes, "add", times=1, ok=True)
    assert_waits_for_approval(outcomes, "send")
    runner = ToolRunner([add, send], policy=POLICY)
    ran = await runner.exec("add", {"a": 1, "b": 2})
    for each in (ran, ran.record, [ran, ran]):
        assert_tool_called(each, "add", arguments={"b": 2}, ok=True)
    assert_tool_denied(await runner.exec("remove", {}), "remove")


async def test_the_calls_of_a_loops_turn() -> None:
    model = ScriptedModel([call("add", a=1, b=2), call("remove"), "It is 3."])
    loop = AgentLoop(model, ToolRunner([add, send], policy=POLICY), provider="anthropic", model_name="m")
    turn = await loop.complete("1 + 2?")
    assert_tool_called(turn, "add", times=1, arguments={"a": 1, "b": 2}, ok=True)
    assert [call.ok for call in tool_calls(turn)] == [True, False]


async def test_nothing_called(world: World) -> None:
    assert_no_tool_called(world)
    with pytest.raises(AssertionError, match=r"Expected a call of add, found 0\. No tool was called\."):
        assert_tool_called(world, "add")
    await world.call("add", '{"a": 1, "b": 2}')
    with pytest.raises(AssertionError, match="No tool should have been called"):
        assert_no_tool_called(world)
    with pytest.raises(AssertionError, match="Expected no call of add, found 1"):
        assert_tool_not_called(world, "add")


async def test_an_object_without_calls_is_refused() -> None:
    for given in ("add", {"add": 1}, 3):
        with pytest.raises(UsageError, match="The tool calls of"):
            assert_no_tool_called(given)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="assert_tool_not_called"):
        assert_tool_called([], "add", times=0)
