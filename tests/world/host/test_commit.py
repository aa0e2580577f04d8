"""Blobs that wait for the records that name them."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from threading import Event

import pytest

from demiurge.errors import NotFound, Unavailable
from demiurge.stores import MemoryStore
from demiurge.stores.errors import UnitConflict
from demiurge.stores.protocol import Attempt, Batch, Row
from demiurge.values.refs import ref_of
from demiurge.world.host.commit import HELD_BYTES, Committer


def batch(seq: int) -> Batch:
    data = b"record %d" % seq
    return Batch("u", seq, (Row("u", seq, "event", sha256(data).digest(), data),), False)


def append(committer: Committer, number: int, *blobs: bytes) -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(error: BaseException | None) -> None:
        done.set_result(None) if error is None else done.set_exception(error)

    committer.append(batch(number), blobs, tell)
    return done


class Breakable(MemoryStore):
    broken = False

    def append(self, *args: object, **kwargs: object) -> list[list[int]]:
        if self.broken:
            raise Unavailable("The disk is full.")
        return super().append(*args, **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize("said", [b"said", b""])
async def test_a_held_blob_can_be_read_at_once_and_is_stored_with_the_next_records(said: bytes) -> None:
    store = MemoryStore("world_1")
    committer = Committer(store)
    ref = await committer.hold(said)
    assert committer.get_blob(ref) == said
    assert committer.has_blob(ref)
    assert not store.has_blob(ref)
    await append(committer, 0, b"another")
    assert store.get_blob(ref) == said
    assert store.has_blob(ref_of(b"another"))
    await committer.close()


async def test_a_write_that_fails_keeps_what_was_held_for_the_next() -> None:
    store = Breakable("world_1")
    committer = Committer(store)
    ref = await committer.hold(b"said")
    store.broken = True
    with pytest.raises(Unavailable):
        await append(committer, 0)
    assert committer.get_blob(ref) == b"said"
    store.broken = False
    await append(committer, 0)
    assert store.get_blob(ref) == b"said"
    await committer.close()


async def test_many_held_blobs_do_not_wait() -> None:
    store = MemoryStore("world_1")
    committer = Committer(store)
    refs = [await committer.hold(bytes([n]) * (HELD_BYTES // 4)) for n in range(6)]
    assert [store.has_blob(ref) for ref in refs] == [True] * 5 + [False]
    assert [committer.get_blob(ref)[:1] for ref in refs] == [bytes([n]) for n in range(6)]
    await committer.close()


async def test_a_blob_that_is_nowhere_is_told() -> None:
    committer = Committer(MemoryStore("world_1"))
    assert not committer.has_blob(ref_of(b"x"))
    with pytest.raises(NotFound):
        committer.get_blob(ref_of(b"x"))
    await committer.close()


async def test_exclusive_work_runs_after_earlier_writes_and_before_later_ones() -> None:
    store = MemoryStore("world_1")
    committer = Committer(store)
    begun, entered, leave = append(committer, 0), Event(), Event()
    await asyncio.sleep(0)

    def work() -> int:
        entered.set()
        assert leave.wait(10)
        return store.length()

    alone = asyncio.create_task(committer.alone(work))
    assert await asyncio.to_thread(entered.wait, 10)
    steps: list[asyncio.Future[None]] = []
    committer.soon(lambda: steps.append(append(committer, 1)))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not steps
    leave.set()
    assert await alone == 1
    await asyncio.gather(begun, *steps)
    assert store.length() == 2
    await committer.close()


async def test_a_batch_that_cannot_be_written_does_not_fail_the_others() -> None:
    store = MemoryStore("world_1")
    committer = Committer(store)
    good, bad = append(committer, 0), append(committer, 7)
    attempt = committer.begin(Attempt(b"i", "u", "t", 1))
    with pytest.raises(UnitConflict):
        await bad
    await asyncio.gather(good, attempt)
    assert store.length() == 1
    assert store.attempts([b"i"])
    await committer.close()


async def test_a_closed_committer_accepts_nothing() -> None:
    committer = Committer(MemoryStore("world_1"))
    await committer.close()
    with pytest.raises(Unavailable):
        await append(committer, 0)
    with pytest.raises(Unavailable):
        await committer.begin(Attempt(b"i", "u", "t", 1))


async def test_cancelled_exclusive_work_lets_later_writes_go_on() -> None:
    entered, leave, taken = Event(), Event(), []

    class Slow(MemoryStore):
        def append(self, *args: object, **kwargs: object) -> list[list[int]]:
            entered.set()
            assert leave.wait(10)
            return super().append(*args, **kwargs)  # type: ignore[arg-type]

    committer = Committer(Slow("world_1"))
    begun = append(committer, 0)
    assert await asyncio.to_thread(entered.wait, 10)
    alone = asyncio.create_task(committer.alone(lambda: None))
    await asyncio.sleep(0)
    committer.soon(lambda: taken.append("first"))
    await asyncio.sleep(0)
    alone.cancel()
    await asyncio.gather(alone, return_exceptions=True)
    leave.set()
    await begun
    committer.soon(lambda: taken.append("second"))
    await asyncio.sleep(0)
    await committer.close()
    assert taken == ["first", "second"]


async def test_exclusive_work_that_has_begun_ends_before_later_writes() -> None:
    committer = Committer(MemoryStore("world_1"))
    entered, leave, order = Event(), Event(), []

    def work() -> None:
        entered.set()
        assert leave.wait(10)
        order.append("work")

    alone = asyncio.create_task(committer.alone(work))
    assert await asyncio.to_thread(entered.wait, 10)
    committer.soon(lambda: order.append("step"))
    for _ in range(2):
        alone.cancel()
        await asyncio.sleep(0)
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await alone
    await committer.close()
    assert order == ["work", "step"]
