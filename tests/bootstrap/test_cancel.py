"""Stopping a turn: at once, from wherever, recorded as such; and the chat goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider
from tests.slow_provider import SlowProvider, serving_slowly

from demiurge import Reply, Tool, ToolEffect, ToolPolicy, World
from demiurge.bootstrap.backend import Shown
from demiurge.bootstrap.backend.connection import OwnerConnection
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.socket import socket_path
from demiurge.world.record import Record

ANSWER = "one two three four"


@pytest.fixture
async def provider() -> AsyncIterator[SlowProvider]:
    async with serving_slowly() as running:
        yield running


def opened(folder: Path, provider: SlowProvider, *tools: Tool[Any, Any], asks: bool = False) -> World:
    names = tuple(tool.name for tool in tools)
    policy = ToolPolicy(allowed_tools=names, require_approval_for_tools=names if asks else ())
    environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}
    return World.open(folder, tools, policy if tools else None, environment=environment)


def guest(owner: World, folder: Path) -> World:
    """The world as another process has it."""
    return World(Remote(OwnerConnection(socket_path(folder), lambda: owner.backend)), owner.opening)


def ring(rung: list[str], effect: ToolEffect) -> Tool[Any, Any]:
    async def ring_bell() -> str:
        """Ring the bell."""
        rung.append("pulled")
        await asyncio.Event().wait()
        return "rang"

    return Tool.wrap(ring_bell, effect=effect)


def receipts(world: World) -> list[Record]:
    return [record for record in world.journal.read() if record.kind == "receipt"]


async def say_until(world: World, text: str) -> tuple[asyncio.Task[Reply], list[Shown]]:
    """Say something, and look on until this much of the answer is shown."""
    sending = asyncio.create_task(world.chat().send("Count."))
    frames: list[Shown] = []
    async with asyncio.timeout(20), aclosing(world.watch()) as watched:
        async for shown in watched:
            frames.append(shown)
            if "".join(frame.get("delta", "") for frame in frames) == text:
                break
    return sending, frames


async def goes_on(world: World, provider: SlowProvider) -> None:
    """The chat takes the next message, and the world is sound."""
    provider.say(Provider.answer(Provider.text("Here I am.")))
    provider.let_go()
    assert (await world.chat().send("Still there?")).text == "Here I am."
    assert world.journal.verify().ok
    assert (await world.replay())["ok"]


@pytest.mark.parametrize("far", [False, True])
async def test_an_answer_that_is_stopped_midway(tmp_path: Path, provider: SlowProvider, far: bool) -> None:
    provider.say(Provider.answer(Provider.text(ANSWER)))
    async with opened(tmp_path / "w", provider) as world:
        provider.let_go(3)
        sending, frames = await say_until(world, "one two")
        stopped = guest(world, tmp_path / "w") if far else world
        async with aclosing(world.watch(after=frames)) as watched:
            await stopped.chat().cancel()
            async with asyncio.timeout(20):
                end = await anext(watched)
        await provider.asker_leaves()
        reply = await sending
        assert (reply.status, reply.error_code, reply.text) == ("failed", "cancelled", "")
        [receipt] = receipts(world)
        assert (end["type"], end["seq"]) == ("closed", receipt.unit_seq)
        assert (receipt.body["status"], receipt.body["payload"]["code"]) == ("error", "cancelled")
        assert [world.blobs.get(ref) for ref in receipt.refs] == [b"one two"]
        await goes_on(world, provider)
        told = str(provider.seen[-1])
        assert "Count." in told
        assert "one two" not in told, "what was shown of it is no part of the conversation"


async def test_an_answer_that_breaks_off_is_not_asked_for_again(tmp_path: Path, provider: SlowProvider) -> None:
    provider.say(Provider.answer(Provider.text(ANSWER)), breaks_after=3)
    provider.let_go()
    async with opened(tmp_path / "w", provider) as world:
        frames: list[Shown] = []
        reply = await world.chat().send("Count.", on_frame=frames.append)
        assert (reply.status, reply.error_code) == ("failed", "truncated")
        assert len(provider.seen) == 1
        assert [frame["type"] for frame in frames if frame["type"] in ("began", "closed")] == ["began", "closed"]
        assert "".join(frame.get("delta", "") for frame in frames) == "one two"
        [receipt] = receipts(world)
        assert b"one two" in [world.blobs.get(ref) for ref in receipt.refs]
        await goes_on(world, provider)


@pytest.mark.parametrize("far", [False, True])
async def test_a_call_that_waits_for_a_person_is_withdrawn(tmp_path: Path, provider: SlowProvider, far: bool) -> None:
    rung: list[str] = []
    provider.say(Provider.answer(Provider.call("ring_bell", {})))
    provider.let_go()
    async with opened(tmp_path / "w", provider, ring(rung, ToolEffect.EXTERNAL_SIDE_EFFECT), asks=True) as world:
        assert (await world.chat().send("Ring.")).status == "awaiting_approval"
        await (guest(world, tmp_path / "w") if far else world).chat().cancel()
        assert await world.approvals() == []
        assert (await world.chat().reply()).error_code == "cancelled"
        assert rung == []
        await goes_on(world, provider)


@pytest.mark.parametrize(
    ("effect", "code"),
    [(ToolEffect.READ_ONLY, "cancelled"), (ToolEffect.EXTERNAL_SIDE_EFFECT, "unknown_outcome")],
)
async def test_a_running_tool_that_is_stopped_says_no_more_than_is_known(
    tmp_path: Path, provider: SlowProvider, effect: ToolEffect, code: str
) -> None:
    rung: list[str] = []
    provider.say(Provider.answer(Provider.call("ring_bell", {})))
    provider.let_go()
    async with opened(tmp_path / "w", provider, ring(rung, effect)) as world:
        sending = asyncio.create_task(world.chat().send("Ring."))
        async with asyncio.timeout(20):
            while not rung:
                await asyncio.sleep(0)
        await world.chat().cancel()
        assert (await sending).error_code == "cancelled"
        *_, receipt = receipts(world)
        assert receipt.body["payload"]["code"] == code
        assert rung == ["pulled"]
        await goes_on(world, provider)
        assert rung == ["pulled"]


async def test_stopping_twice_or_too_late_changes_nothing(tmp_path: Path, provider: SlowProvider) -> None:
    provider.say(Provider.answer(Provider.text(ANSWER)))
    async with opened(tmp_path / "w", provider) as world:
        provider.let_go(1)
        sending, _ = await say_until(world, "one")
        await asyncio.gather(world.chat().cancel(), world.chat().cancel())
        assert (await sending).error_code == "cancelled"
        assert len(receipts(world)) == 1
        await provider.asker_leaves()
        await goes_on(world, provider)
        await world.chat().cancel()
        assert (await world.chat().reply()).text == "Here I am."
