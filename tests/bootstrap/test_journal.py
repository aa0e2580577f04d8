"""Following the journal: each record once, in order, here or in another process, and also when the owner changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from demiurge import World
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.connection import OwnerConnection
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.socket import socket_path
from demiurge.errors import Conflict


def opened(folder: Path) -> World:
    return World.open(folder, environment={"LLM_API_KEY": "sk-test"})


def guest(owner: World, folder: Path) -> World:
    """The world as another process has it, which becomes its owner when that one goes."""
    return World(Remote(OwnerConnection(socket_path(folder), lambda: opened(folder).backend)), owner.opening)


@pytest.fixture
async def owner(tmp_path: Path) -> AsyncIterator[World]:
    async with opened(tmp_path / "w") as world:
        yield world


async def say(world: World, *names: str) -> None:
    for name in names:
        await world.chat(name).create()
    await world.settle()


class Followed:
    """Follows in a task; `seen` are the positions so far."""

    def __init__(self, world: World, start: int = 0) -> None:
        self.seen: list[int | None] = []
        self._more = asyncio.Event()
        self.task = asyncio.create_task(self._follow(world, start))

    async def _follow(self, world: World, start: int) -> None:
        async with aclosing(world.journal.follow(start)) as records:
            async for record in records:
                self.seen.append(record.position)
                self._more.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.seen) < count:
                self._more.clear()
                await self._more.wait()


async def test_a_follower_gets_the_records_that_are_there_and_each_new_one(owner: World) -> None:
    await say(owner, "a")
    there = len(list(owner.journal.read()))
    followed = Followed(owner)
    await followed.until(there)
    for name in ("b", "c"):
        await say(owner, name)
        await followed.until(len(list(owner.journal.read())))
    assert followed.seen == list(range(1, len(followed.seen) + 1))
    followed.task.cancel()


async def test_following_begins_at_a_given_position(owner: World) -> None:
    await say(owner, "a", "b")
    length = len(list(owner.journal.read()))
    followed = Followed(owner, length)
    await followed.until(1)
    await say(owner, "c")
    await followed.until(2)
    assert followed.seen[:2] == [length, length + 1]
    followed.task.cancel()


async def test_a_follower_is_idle_while_nothing_is_written(owner: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await say(owner, "a")
    reads: list[int] = []
    rows = owner.backend.read.rows

    def counting(unit: str | None, start: int, limit: int) -> list[tuple[int, bytes]]:
        reads.append(start)
        return rows(unit, start, limit)

    monkeypatch.setattr(owner.backend.read, "rows", counting)
    followed = Followed(owner)
    await followed.until(3)
    await asyncio.sleep(0.3)
    assert len(reads) == 1
    followed.task.cancel()


async def test_following_ends_when_the_world_is_closed(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await say(world, "a")
        followed = Followed(world)
        await followed.until(3)
    await asyncio.wait_for(followed.task, 30)


async def test_a_follower_in_another_process_goes_on_when_the_owner_exits(tmp_path: Path) -> None:
    owner = opened(tmp_path / "w")
    await owner.__aenter__()
    other = guest(owner, tmp_path / "w")
    followed = Followed(other)
    await say(owner, "a")
    await followed.until(len(list(owner.journal.read())))
    await owner.close()
    await say(other, "b")
    assert other.owned
    length = len(list(other.journal.read()))
    await followed.until(length)
    assert followed.seen == list(range(1, length + 1))
    await other.close()
    await asyncio.wait_for(followed.task, 30)


async def test_a_guest_that_is_closed_follows_no_more(owner: World, tmp_path: Path) -> None:
    def nobody() -> Backend:
        raise Conflict("Nobody takes over.", code="gone")

    other = World(Remote(OwnerConnection(socket_path(tmp_path / "w"), nobody)), owner.opening)
    await say(owner, "a")
    followed = Followed(other)
    await followed.until(3)
    await other.close()
    await asyncio.wait_for(followed.task, 30)
    await say(owner, "b")
