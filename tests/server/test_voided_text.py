"""A model request that is made again when the owner of a world goes: what each stream says of the text that is void.

The first owner lives in a thread of its own, as another process would.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.test_watch import ANSWER, guest, opened
from tests.provider import Provider
from tests.server.conftest import Served, served_on
from tests.server.test_journal_stream import events
from tests.slow_provider import SlowProvider, serving_slowly

from demiurge import World
from demiurge.bootstrap.backend import Backend
from demiurge.server.turn_stream import AGAIN

MESSAGE = {"role": "user", "content": [{"type": "text", "text": "Count."}]}


@pytest.fixture
async def provider() -> AsyncIterator[SlowProvider]:
    async with serving_slowly() as running:
        yield running


class OwnerThread:
    """A thread that owns the world in `folder` until it is told to leave."""

    def __init__(self, folder: Path, provider: SlowProvider) -> None:
        self._folder, self._provider = folder, provider
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._own()))
        self._thread.start()
        assert self._ready.wait(20)

    async def _own(self) -> None:
        async with opened(self._folder, self._provider) as self.world:
            self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
            self._ready.set()
            await self._over.wait()

    def successor(self) -> Backend:
        """Opens the world once this owner has left: one process cannot own it twice."""
        self._thread.join()
        return opened(self._folder, self._provider).backend

    async def leave(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
        await asyncio.to_thread(self._thread.join)


@asynccontextmanager
async def served_by_an_heir(folder: Path, provider: SlowProvider) -> AsyncIterator[tuple[Served, OwnerThread]]:
    """A server that joined a world, and takes it over when its owner leaves."""
    provider.say(*[Provider.answer(Provider.text(ANSWER))] * 2)
    owner = OwnerThread(folder, provider)
    heir: World = guest(owner.world, folder, owner.successor)
    try:
        async with served_on(heir, provider) as served, asyncio.timeout(100):
            yield served, owner
    finally:
        await owner.leave()
        await heir.close()


async def take_over(owner: OwnerThread, provider: SlowProvider) -> None:
    await owner.leave()
    await provider.asker_leaves()
    provider.let_go()


def text_of(lines: list[tuple[str, Any]]) -> str:
    return "".join(value for kind, value in lines if kind == "0")


async def test_the_chat_stream_says_that_the_text_before_is_void(tmp_path: Path, provider: SlowProvider) -> None:
    found: list[tuple[str, Any]] = []
    async with served_by_an_heir(tmp_path / "w", provider) as (served, owner):
        user = await served.client()
        async with user.stream("POST", "/api/ai/chat", json={"messages": [MESSAGE]}) as answer:
            provider.let_go(3)
            async for line in answer.aiter_lines():
                kind, _, value = line.partition(":")
                found.append((kind, json.loads(value)))
                if text_of(found) == "one two":
                    await take_over(owner, provider)
    assert text_of(found) == f"one two\n\n{ANSWER}"
    said = ("2", [{"type": "status", "phase": "thinking", "label": AGAIN}])
    assert found.index(said) < found.index(("0", "\n\n"))
    assert [kind for kind, _ in found].count("d") == 1
    assert found[-1][1]["finishReason"] == "stop"


async def test_the_journal_stream_begins_the_same_intent_again(tmp_path: Path, provider: SlowProvider) -> None:
    began: list[tuple[str, int]] = []
    text = ""
    async with served_by_an_heir(tmp_path / "w", provider) as (served, owner):
        user = await served.client()
        async with user.stream("GET", "/api/journal/stream?frames=true") as response:
            await user.post("/api/chats/c1/messages", json={"text": "Count."})
            provider.let_go(3)
            async for event in events(response):
                frame = event["data"] if event["event"] == "frame" else {}
                if frame.get("type") == "began":
                    began.append((frame["intent"], frame["attempt"]))
                    text = ""
                text += frame.get("delta", "")
                if text == "one two" and len(began) == 1:
                    await take_over(owner, provider)
                    going_on = asyncio.create_task(served.world.settle())
                if frame.get("type") == "closed":
                    break
        await going_on
    assert text == ANSWER
    assert began == [(began[0][0], 0), (began[0][0], 1)]
