"""What a stream is made of: sources that are merged, and the records that all streams share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest

from demiurge.errors import Conflict
from demiurge.server import record_feed
from demiurge.server.record_feed import RecordFeed
from demiurge.server.streams import EventStream, StreamEvent, before_closing, merged, while_allowed


async def numbered(name: str, count: int, draw: random.Random, taken: list[str]) -> AsyncGenerator[bytes, None]:
    """Yields `name0`, `name1` and so on, after pauses of random length, and then waits."""
    try:
        for number in range(count):
            for _ in range(draw.randrange(3)):
                await asyncio.sleep(0)
            taken.append(f"{name}{number}")
            yield f"{name}{number}".encode()
        await asyncio.Event().wait()
    finally:
        taken.append(f"{name} closed")


@pytest.mark.parametrize("seed", range(20))
async def test_merged_sources_lose_nothing_and_keep_their_order(seed: int) -> None:
    draw = random.Random(seed)
    taken: list[str] = []
    sources = [numbered(name, 30, draw, taken) for name in "abc"]
    found = []
    async with asyncio.timeout(60), aclosing(merged(*sources)) as events:
        async for each in events:
            found.append(each.decode())
            for _ in range(draw.randrange(3)):
                await asyncio.sleep(0)
            if len(found) == 90:
                break
    for name in "abc":
        assert [each for each in found if each[0] == name] == [f"{name}{number}" for number in range(30)]
    assert sorted(taken[-3:]) == ["a closed", "b closed", "c closed"]


async def test_a_source_waits_until_what_it_gave_is_taken() -> None:
    taken: list[str] = []
    async with asyncio.timeout(60), aclosing(merged(numbered("a", 1000, random.Random(1), taken))) as events:
        assert await anext(events) == b"a0"
        for _ in range(1000):
            await asyncio.sleep(0)
        assert taken == ["a0", "a1", "a2"]


async def test_a_stream_whose_source_fails_ends_with_the_error() -> None:
    async def failing() -> AsyncGenerator[bytes, None]:
        yield StreamEvent("record", {"n": 1}, "7").encode()
        raise Conflict("Somebody was first.", code="decided", details={"by": "ada"})

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    sent: list[Any] = []
    await EventStream(failing(), heartbeat_s=60, closing=asyncio.Event())({"type": "http"}, receive, send)
    [head, *parts] = sent
    headers = {name.decode(): value.decode() for name, value in head["headers"]}
    assert (head["status"], headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-store", "no")
    assert "content-length" not in headers
    assert [part["body"].decode() for part in parts] == [
        "retry: 1000\n\n",
        'id: 7\nevent: record\ndata: {"n":1}\n\n',
        'event: error\ndata: {"code":"decided","message":"Somebody was first.","details":{"by":"ada"}}\n\n',
        "",
    ]
    assert [part["more_body"] for part in parts] == [True, True, True, False]


async def test_a_source_that_fails_ends_the_others() -> None:
    async def failing() -> AsyncGenerator[bytes, None]:
        yield b"first"
        raise ValueError("broken")

    taken: list[str] = []
    found: list[bytes] = []

    async def take_all() -> None:
        async for each in merged(failing(), numbered("a", 1, random.Random(1), taken)):
            found.append(each)  # noqa: PERF401 - what comes before the failure counts

    with pytest.raises(ValueError, match="broken"):
        await asyncio.wait_for(take_all(), 60)
    assert b"first" in found
    assert taken[-1] == "a closed"


class GrowingJournal:
    """A world whose journal a test lets grow. It counts how often records are read."""

    def __init__(self) -> None:
        self.length, self.reads = 0, 0
        self._grown = asyncio.Condition()
        self.backend = SimpleNamespace(read=self)

    async def append(self, count: int) -> None:
        async with self._grown:
            self.length += count
            self._grown.notify_all()

    async def appends(self) -> AsyncGenerator[dict[str, int], None]:
        seen = -1
        while True:
            async with self._grown:
                while self.length == seen:
                    await self._grown.wait()
                seen = self.length
            yield {"length": seen}

    def records(self, _unit: str | None, start: int, limit: int) -> list[dict[str, Any]]:
        self.reads += 1
        last = min(self.length, start + limit - 1)
        return [{"position": position, "unit": f"u{position % 3}"} for position in range(max(1, start), last + 1)]


async def positions(feed: RecordFeed, world: Any, start: int | None, upto: int, unit: str | None = None) -> list[int]:
    """The positions that a stream shows, until it shows `upto` or a later one."""
    found: list[int] = []
    async with aclosing(feed.follow(world, start, unit)) as events:
        async for data in events:
            found += [int(line[4:]) for line in data.decode().splitlines() if line.startswith("id: ")]
            if found[-1] >= upto:
                break
    return found


@pytest.mark.parametrize("seed", range(20))
async def test_streams_that_begin_anywhere_see_each_record_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(record_feed, "PAGE", draw.randrange(1, 8))
    monkeypatch.setattr(record_feed, "KEPT", draw.randrange(1, 20))
    monkeypatch.setattr(record_feed, "KEPT_BYTES", draw.choice([100, 10_000]))
    feed, world = RecordFeed(), GrowingJournal()
    starts: list[int] = []
    streams = []
    async with asyncio.timeout(60):
        for _ in range(30):
            await world.append(draw.randrange(1, 12))
            if draw.random() < 0.7:
                starts.append(draw.randrange(1, world.length + 2))
                streams.append(asyncio.create_task(positions(feed, world, starts[-1], 400)))
            for _ in range(draw.randrange(4)):
                await asyncio.sleep(0)
        await world.append(400 - world.length)
        found = await asyncio.gather(*streams)
    assert found == [list(range(start, 401)) for start in starts]


async def test_many_streams_read_a_new_record_once() -> None:
    feed, world = RecordFeed(), GrowingJournal()
    await world.append(1)
    async with asyncio.timeout(60):
        streams = [asyncio.create_task(positions(feed, world, 1, 20)) for _ in range(50)]
        for length in range(2, 21):
            await world.append(1)
            while feed._kept[-1:] == [] or feed._kept[-1].position < length:
                await asyncio.sleep(0)
        assert await asyncio.gather(*streams) == [list(range(1, 21))] * 50
    assert world.reads <= 20


async def test_a_stream_of_one_unit_shows_its_records_alone() -> None:
    feed, world = RecordFeed(), GrowingJournal()
    await world.append(30)
    async with asyncio.timeout(60):
        assert await positions(feed, world, 1, 30, "u0") == list(range(3, 31, 3))


async def test_the_records_kept_for_all_streams_have_a_most_in_number_and_in_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = GrowingJournal()
    await world.append(20)
    for most_records, most_bytes in ((5, 10**9), (10**9, 200)):
        monkeypatch.setattr(record_feed, "KEPT", most_records)
        monkeypatch.setattr(record_feed, "KEPT_BYTES", most_bytes)
        feed = RecordFeed()
        assert await positions(feed, world, 1, 20) == list(range(1, 21))
        assert len(feed._kept) <= most_records
        assert sum(len(record.data) for record in feed._kept) <= most_bytes


async def sent_by(
    source: AsyncGenerator[bytes, None], closing: asyncio.Event, heartbeat_s: float = 60.0, *, is_gone: bool = False
) -> list[str]:
    """The parts of a stream, until it ends by itself or the test has seen a heartbeat."""
    sent: list[str] = []
    seen = asyncio.Event()

    async def receive() -> Any:
        if not is_gone:
            await seen.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            sent.append(message["body"].decode())
            if sent[-1] == ": heartbeat\n\n":
                seen.set()

    async with asyncio.timeout(60):
        await EventStream(source, heartbeat_s=heartbeat_s, closing=closing)({"type": "http"}, receive, send)
    return sent


async def silent(closed: list[str]) -> AsyncGenerator[bytes, None]:
    try:
        await asyncio.Event().wait()
        yield b""
    finally:
        closed.append("closed")


async def test_a_stream_ends_with_its_source() -> None:
    async def two() -> AsyncGenerator[bytes, None]:
        yield StreamEvent("frame", {"a": "é"}).encode()
        yield StreamEvent("frame", {}, "1").encode()

    assert await sent_by(two(), asyncio.Event()) == [
        "retry: 1000\n\n",
        'event: frame\ndata: {"a":"\\u00e9"}\n\n',
        "id: 1\nevent: frame\ndata: {}\n\n",
        "",
    ]


async def test_a_stream_of_a_server_that_closes_says_so_and_closes_its_source() -> None:
    closing, closed = asyncio.Event(), list[str]()
    closing.set()
    assert await sent_by(silent(closed), closing) == ["retry: 1000\n\n", "event: closing\ndata: {}\n\n", ""]
    assert closed == ["closed"]


async def test_a_stream_whose_reader_has_gone_closes_its_source() -> None:
    closed: list[str] = []
    assert await sent_by(silent(closed), asyncio.Event(), is_gone=True) == ["retry: 1000\n\n", ""]
    assert closed == ["closed"]


async def test_a_stream_without_events_sends_heartbeats() -> None:
    closed: list[str] = []
    sent = await sent_by(silent(closed), asyncio.Event(), 0.01)
    assert sent[:2] == ["retry: 1000\n\n", ": heartbeat\n\n"]
    assert closed == ["closed"]


async def test_items_are_yielded_until_they_are_not_allowed_any_more() -> None:
    left, closed = [True, True, False], list[str]()

    async def source() -> AsyncGenerator[int, None]:
        try:
            for number in range(5):
                yield number
        finally:
            closed.append("closed")

    async def is_allowed() -> bool:
        return left.pop(0)

    assert [item async for item in while_allowed(source(), is_allowed)] == [0, 1]
    assert (left, closed) == ([], ["closed"])


async def test_work_is_given_up_when_the_server_closes() -> None:
    closing, ended = asyncio.Event(), list[str]()

    async def answer() -> int:
        return 7

    async def endless() -> int:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")
        return 7

    assert await before_closing(closing, answer()) == 7
    working = asyncio.create_task(before_closing(closing, endless()))
    await asyncio.sleep(0)
    closing.set()
    assert await working is None
    assert ended == ["ended"]


async def test_a_stream_from_now_on_shows_what_comes_and_nothing_before() -> None:
    feed, world = RecordFeed(), GrowingJournal()
    await world.append(5)
    async with asyncio.timeout(60):
        following = asyncio.create_task(positions(feed, world, None, 7))
        for _ in range(5):
            await asyncio.sleep(0)
        await world.append(2)
        assert await following == [6, 7]
