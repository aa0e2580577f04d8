"""A world for one test."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path

import pytest

from demiurge import ToolPolicy, ToolResult, tool
from demiurge.errors import UsageError
from demiurge.testing import (
    FrozenClock,
    ScriptedModel,
    assert_tool_called,
    assert_waits_for_approval,
    call,
    memory_world,
)


@tool(effect="read_only")
def add(a: int, b: int) -> ToolResult[int]:
    """Adds two numbers."""
    return ToolResult(f"{a + b}", a + b)


@tool
def send(to: str) -> ToolResult[None]:
    """Sends a message."""
    return ToolResult(f"Sent to {to}.")


ASKED = ToolPolicy(("add", "send"), require_approval_for_tools=("send",))


async def test_a_chat_is_answered_by_the_scripted_model() -> None:
    model = ScriptedModel([call("add", a=1, b=2), "It is 3."])
    async with memory_world([add], model=model, policy=ASKED) as world:
        reply = await world.chat("main").send("What is 1 + 2?")
        assert (reply.status, reply.text) == ("done", "It is 3.")
        assert_tool_called(reply, "add", times=1, arguments={"a": 1, "b": 2}, ok=True)
    model.assert_offered("add")
    model.assert_told("What is 1 + 2?")
    model.assert_finished()


async def test_a_model_without_an_answer_fails_the_turn_with_the_script() -> None:
    async with memory_world([add]) as world:
        reply = await world.chat("main").send("What is 1 + 2?")
    assert reply.status == "failed"
    assert "no answer left" in reply.message


async def test_nothing_of_the_world_stays_and_nothing_of_the_user_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    async with memory_world([add], policy=ASKED) as world:
        folder = world.opening.options.folder
        assert folder.exists()
        assert folder.stat().st_uid == os.getuid()
        assert dict(world.opening.options.environment) == {"HOME": str(folder.with_name("home"))}
        await world.call("add", '{"a": 1, "b": 2}')
    assert not folder.parent.exists()
    assert list(tmp_path.iterdir()) == []


async def test_two_worlds_at_once_know_nothing_of_each_other() -> None:
    async with memory_world([add], policy=ASKED) as one, memory_world([add], policy=ASKED) as other:
        await one.call("add", '{"a": 1, "b": 2}')
        assert_tool_called(one, "add", times=1)
        with pytest.raises(AssertionError, match="No tool was called"):
            assert_tool_called(other, "add")


async def test_an_approval_expires_when_the_clock_is_advanced() -> None:
    clock = FrozenClock("2026-03-01T12:00:00+00:00")
    model = ScriptedModel([call("send", to="ann"), "Nobody decided."])
    async with memory_world([send], model=model, policy=ASKED, clock=clock) as world:
        chat = world.chat("main")
        waits = await chat.send("Write to Ann.")
        assert_waits_for_approval(waits, "send")
        clock.advance(8 * 86400)
        await world.settle()
        reply = await chat.reply()
        assert (reply.status, reply.text) == ("done", "Nobody decided.")
        assert_tool_called(reply, "send", times=1, ok=False)


async def test_advancing_the_clock_wakes_a_worlds_timers_by_itself() -> None:
    clock = FrozenClock()
    model = ScriptedModel([call("send", to="ann"), "Nobody decided."])
    async with memory_world([send], model=model, policy=ASKED, clock=clock) as world:
        chat = world.chat("main")
        await chat.send("Write to Ann.")
        clock.advance(timedelta(days=8))
        while (await chat.reply()).status != "done":
            await asyncio.sleep(0.001)
        assert (await chat.reply()).text == "Nobody decided."


async def test_an_option_of_another_world_is_refused() -> None:
    with pytest.raises(TypeError):
        async with memory_world([add], nothing=1):
            pass
    with pytest.raises(UsageError):
        async with memory_world([add], policy="all"):  # type: ignore[arg-type]
            pass
