"""Followers of a store that this process owns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from demiurge.bootstrap.backend.appends import Appends


class CountedStore:
    """The part of a store that followers use. It counts how often the length is read."""

    def __init__(self) -> None:
        self.records, self.reads = 0, 0
        self.callbacks: list[Callable[[], None]] = []

    def append(self) -> None:
        self.records += 1
        for callback in self.callbacks:
            callback()

    def length(self) -> int:
        self.reads += 1
        return self.records

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        self.callbacks.append(callback)
        return lambda: self.callbacks.remove(callback)


async def lengths(appends: Appends, upto: int) -> list[int]:
    """Returns the lengths of the journal that a follower is told, up to and with `upto`."""
    found = []
    async with aclosing(appends.follow()) as told:
        async for each in told:
            found.append(each["length"])
            if found[-1] == upto:
                break
    return found


async def test_an_append_is_read_once_however_many_follow() -> None:
    store: Any = CountedStore()
    appends = Appends(store)
    followers = [asyncio.create_task(lengths(appends, 2)) for _ in range(50)]
    await asyncio.sleep(0)
    begun = store.reads
    for _ in range(2):
        store.append()
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        assert [found[-1] for found in await asyncio.gather(*followers)] == [2] * 50
    assert store.reads == begun + 2
    assert store.callbacks == []


async def test_followers_end_when_the_world_is_closed() -> None:
    store: Any = CountedStore()
    appends = Appends(store)
    follower = asyncio.create_task(lengths(appends, 5))
    await asyncio.sleep(0)
    store.append()
    appends.end()
    async with asyncio.timeout(60):
        assert set(await follower) <= {0, 1}
