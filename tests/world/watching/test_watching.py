"""What an effect shows while it runs, across its end, a crash, and a second try."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.world.small_world import A, poke_event, running_host, small_manifest

from demiurge.errors import Unavailable
from demiurge.stores import MemoryStore
from demiurge.tools.events import TextDelta
from demiurge.values.caller import Caller
from demiurge.world.effect import EffectCall, Restart, Result, succeeded
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.state import OpenIntent
from demiurge.world.watching.broadcast import Watcher
from demiurge.world.watching.frame import Began, Closed, WatchFrame, frame_to_json, places_of


class Teller:
    """Tells what it has, and then answers, fails or hangs."""

    kinds = ("ex.echo",)

    def __init__(self, *pieces: str, hangs: bool = False, stalls: bool = False, restart: Restart = "retry") -> None:
        self.pieces, self._hangs, self._stalls, self._restart = pieces, hangs, stalls, restart
        self.told = asyncio.Event()

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return self._restart

    async def perform(self, call: EffectCall) -> Result:
        for piece in self.pieces:
            call.progress(TextDelta(piece))
            await asyncio.sleep(0)
        self.told.set()
        if self._hangs:
            await asyncio.Event().wait()
        if self._stalls:
            self._stalls = False
            call.stalled = Unavailable("The disk is full.")
        return succeeded(text="".join(self.pieces), blob=None)


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore("world_1")


async def submit_ask(host: Host) -> None:
    await host.submit("ex/Ev@1", poke_event("ask:x"))


def shown_events(frames: list[WatchFrame]) -> list[Any]:
    return [(frame.attempt, frame.event) for frame in frames]


def text_of(frames: list[WatchFrame]) -> str:
    return "".join(frame.event.delta for frame in frames if isinstance(frame.event, TextDelta))


async def all_of(watcher: Watcher, host: Host) -> list[WatchFrame]:
    """Everything until the end of the effect, whose record is there as soon as it is told."""
    frames: list[WatchFrame] = []
    async for frame in watcher:
        frames.append(frame)
        if isinstance(frame.event, Closed):
            assert frame.event.seq is not None
            record = next(host.records(A, frame.event.seq))
            assert (record.kind, record.body["intent"]) == ("receipt", frame.intent)
            break
    return frames


async def test_a_watcher_sees_what_is_told_and_the_end_when_it_is_recorded(memory: MemoryStore) -> None:
    async with running_host(memory, small_manifest(), [Teller("Hel", "lo")]) as host:
        with host.broadcast.watch(A) as watcher:
            await submit_ask(host)
            frames = await all_of(watcher, host)
        assert frames[0].event == Began("ex.echo")
        assert text_of(frames) == "Hello"
        await host.settle()
        with host.broadcast.watch() as late:
            assert late.take() == []


async def test_after_a_crash_the_next_attempt_makes_void_what_was_shown(memory: MemoryStore) -> None:
    first = Teller("Hel", hangs=True)
    async with running_host(memory, small_manifest(), [first]) as host:
        with host.broadcast.watch(A) as watcher:
            await submit_ask(host)
            await first.told.wait()
            before = watcher.take()
    assert shown_events(before) == [(0, Began("ex.echo")), (0, TextDelta("Hel"))]
    async with running_host(memory, small_manifest(), [Teller("Good ", "day")]) as host:
        with host.broadcast.watch(A, places_of(map(frame_to_json, before))) as watcher:
            assert watcher.take() == []
            await host.settle()
            after = await all_of(watcher, host)
    assert {frame.attempt for frame in after} == {1}
    assert after[0].event == Began("ex.echo")
    assert text_of(after) == "Good day"


async def test_a_second_try_in_the_same_process_is_another_attempt(memory: MemoryStore) -> None:
    async with running_host(memory, small_manifest(), [Teller("Hello", stalls=True)]) as host:
        with host.broadcast.watch(A) as watcher:
            await submit_ask(host)
            with pytest.raises(Unavailable):
                await host.settle()
            before = watcher.take()
            await host.settle()
            after = await all_of(watcher, host)
    assert (text_of(before), text_of(after)) == ("Hello", "Hello")
    assert [frame.attempt for frame in (before[0], after[0], after[-1])] == [0, 1, 1]


async def test_an_attempt_that_is_in_doubt_is_told_to_have_ended(memory: MemoryStore) -> None:
    first = Teller("Hel", hangs=True)
    async with running_host(memory, small_manifest(), [first]) as host:
        with host.broadcast.watch(A) as watcher:
            await submit_ask(host)
            await first.told.wait()
            before = watcher.take()
    async with running_host(memory, small_manifest(), [Teller(restart="in_doubt")]) as host:
        with host.broadcast.watch(A, places_of(map(frame_to_json, before))) as watcher:
            await host.settle()
            [end] = await all_of(watcher, host)
            assert (end.attempt, end.offset) == (0, before[-1].end)


async def test_text_that_was_shown_of_what_was_stopped_is_kept(memory: MemoryStore) -> None:
    teller = Teller("Hel", "lo", hangs=True)
    async with running_host(memory, small_manifest(), [teller]) as host:
        with host.broadcast.watch(A) as watcher:
            await submit_ask(host)
            await teller.told.wait()
            await host.cancel(A, reason="enough", caller=Caller("user"))
            *_, end = await all_of(watcher, host)
        assert isinstance(end.event, Closed)
        receipt = next(host.records(A, end.event.seq or 0))
        assert receipt.body["payload"]["code"] == "cancelled"
        assert [host.get_blob(kept) for kept in receipt.refs] == [b"Hello"]


async def test_an_effect_that_was_stopped_before_it_began_is_not_shown(memory: MemoryStore) -> None:
    async with running_host(memory, small_manifest(), [Teller("Hello")]) as host:
        with host.broadcast.watch(A) as watcher:
            await submit_ask(host)
            await host.cancel(A, reason="enough", caller=Caller("user"))
            assert not host.state(A).intents
            assert watcher.take() == []
