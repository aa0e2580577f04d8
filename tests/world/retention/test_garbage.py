"""Garbage: what nothing leads to goes, what anything leads to stays, whoever works on the world meanwhile."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.world.small_world import (
    MAIN,
    A,
    EchoAdapter,
    ScriptedModel,
    call_answer,
    chat_world,
    poke_event,
    running_host,
    small_manifest,
    text_answer,
)

from demiurge import faults
from demiurge.errors import Damaged, Unavailable
from demiurge.stores import Batch, MemoryStore, Outgoing, Row, SqliteStore, Store
from demiurge.stores.protocol import REFRESH_S
from demiurge.values import cbor
from demiurge.values.clock import FixedClock
from demiurge.values.refs import Ref, ref_digest, ref_of
from demiurge.world.history.verify import verify
from demiurge.world.record import decode_row
from demiurge.world.retention.garbage import KEEP_S, Garbage, collect

NOW_S = 4_000_000_000
"""Long after everything that the tests write."""

BIG = "a large text " * 4000


def collect_now(store: Store, **over: object) -> Garbage:
    return collect(store, now_s=NOW_S, **over)  # type: ignore[arg-type]  # the test's own words


def stored_blobs(store: Store) -> set[Ref]:
    return {*store.iter_blobs()}


async def chat_with_files(store: Store, turns: int = 3) -> None:
    """A chat with files, an answer each, and snapshots."""
    answers = [
        (
            call_answer((f"c{n}", "workspace__write", {"path": f"d/{n}.txt", "text": f"{n} {BIG}"})),
            text_answer(f"Done {n}."),
        )
        for n in range(turns)
    ]
    async with chat_world(store, ScriptedModel(*(answer for pair in answers for answer in pair))) as talk:
        for _ in range(turns):
            await talk.say("Write it.")
            assert talk.turn["status"] == "done"


async def test_a_world_in_use_loses_nothing_that_it_needs(store: Store) -> None:
    await chat_with_files(store)
    before = stored_blobs(store)
    garbage = {store.put_blob(data) for data in (b"nobody's", cbor.encode([1, 2]))}
    done = collect_now(store)
    assert garbage.isdisjoint(stored_blobs(store))
    assert done.blobs >= 2
    assert done.snapshots > 0
    assert done.kept == len(stored_blobs(store))
    assert verify(store).ok
    async with chat_world(store, ScriptedModel(text_answer("Still here."))) as talk:
        assert list(talk.host.replay())
        await talk.say("And now?")
        assert talk.turn["status"] == "done"
    assert stored_blobs(store) <= before | stored_blobs(store)
    assert verify(store).ok


async def test_a_second_run_finds_nothing(store: Store) -> None:
    await chat_with_files(store, 1)
    collect_now(store)
    left = stored_blobs(store)
    assert collect_now(store) == Garbage(0, 0, 0, len(left))
    assert stored_blobs(store) == left


async def test_a_dry_run_says_what_would_go_and_removes_nothing(store: Store) -> None:
    await chat_with_files(store)
    before = stored_blobs(store)
    said_before = collect_now(store, dry_run=True)
    assert stored_blobs(store) == before
    assert said_before.blobs > 0
    assert collect_now(store) == said_before


async def test_only_the_newest_snapshot_of_a_unit_stays_when_the_others_are_old(memory: MemoryStore) -> None:
    async with running_host(memory, small_manifest(), [EchoAdapter()], tail_bytes=200) as host:
        for number in range(20):
            await host.submit("ex/Ev@1", poke_event(str(number)))
    newest = memory.latest_snapshot(str(A))
    assert newest is not None
    older = memory.latest_snapshot(str(A), newest.unit_seq)
    assert older is not None
    at_s = int(_time_ns(memory, older.unit_seq) / 10**9)
    collect(memory, now_s=at_s + KEEP_S - 1)
    assert memory.latest_snapshot(str(A), newest.unit_seq) == older, "it is in the window"
    assert collect_now(memory).snapshots > 0
    assert memory.latest_snapshot(str(A)) == newest
    assert memory.latest_snapshot(str(A), newest.unit_seq) is None
    async with running_host(memory, small_manifest(), [EchoAdapter()]) as host:
        assert host.state(A).seq > newest.unit_seq
        assert list(host.replay())


def _time_ns(store: Store, seq: int) -> int:
    return decode_row(next(store.read(str(A), seq, 1))).stamp.time_ns


async def test_a_snapshot_that_was_lost_supersedes_nothing(memory: MemoryStore) -> None:
    async with running_host(memory, small_manifest(), [EchoAdapter()], tail_bytes=200) as host:
        for number in range(20):
            await host.submit("ex/Ev@1", poke_event(str(number)))
    newest = memory.latest_snapshot(str(A))
    assert newest is not None
    memory.put_snapshot(replace(newest, ref=ref_of(b"lost")))
    with pytest.raises(Damaged, match="is lost"):
        collect_now(memory)
    assert memory.latest_snapshot(str(A), newest.unit_seq) is not None


class TestWindow:
    def store(self) -> tuple[MemoryStore, FixedClock]:
        clock = FixedClock(1_800_000_000 * 10**9)
        return MemoryStore("world_1", clock), clock

    @pytest.mark.parametrize(("keep_s", "age_s", "stays"), [(KEEP_S, KEEP_S - 9, True), (KEEP_S, KEEP_S + 9, False)])
    def test_a_blob_put_within_the_retention_time_stays(self, keep_s: int, age_s: int, stays: bool) -> None:
        store, clock = self.store()
        ref = store.put_blob(b"its event comes next")
        collect(store, now_s=clock.now_ns() // 10**9 + age_s, keep_s=keep_s)
        assert store.has_blob(ref) is stays

    def test_the_last_hour_stays_whatever_is_asked_for(self) -> None:
        store, clock = self.store()
        ref = store.put_blob(b"its event comes next")
        collect(store, now_s=clock.now_ns() // 10**9 + REFRESH_S - 1, keep_s=0)
        assert store.has_blob(ref)

    def test_putting_it_again_begins_anew(self) -> None:
        store, clock = self.store()
        ref = store.put_blob(b"its event comes next")
        clock.advance(KEEP_S * 10**9)
        store.put_blob(b"its event comes next")
        collect(store, now_s=clock.now_ns() // 10**9 + 60)
        assert store.has_blob(ref)

    def test_an_old_blob_that_a_young_blob_names_stays(self) -> None:
        store, clock = self.store()
        old = store.put_blob(b"an old file")
        folder = store.put_blob(cbor.encode({"entries": [{"hash": old}]}))
        clock.advance(2 * KEEP_S * 10**9)
        store.put_blob(cbor.encode([ref_digest(folder)]))
        collect(store, now_s=clock.now_ns() // 10**9 + 60)
        assert store.has_blob(old)


def test_roots_and_messages_on_their_way_count(memory: MemoryStore) -> None:
    kept = [memory.put_blob(data) for data in (b"of the manifest", b"of a message", b"of a row", b"named by that")]
    named = memory.put_blob(b'{"ref":"%s"}' % kept[3].encode())
    data = cbor.encode({"refs": [ref_digest(kept[2]), ref_digest(named)]})
    row = Row("a", 0, "event", sha256(data).digest(), data)
    memory.append([Batch("a", 0, (row,), False, (Outgoing("m", "a", "b", kept[1].encode()),))])
    memory.put_blob(b"of nobody")
    collect_now(memory, roots=[b"... %s ..." % kept[0].encode()])
    assert stored_blobs(memory) == {*kept, named}


def test_a_damaged_blob_on_the_way_stops_it_before_anything_goes(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1", FixedClock(10**18)) as store:
        child = store.put_blob(b"child")
        node = cbor.encode([ref_digest(child)])
        data = ref_of(node).encode()
        store.append([Batch("a", 0, (Row("a", 0, "event", sha256(data).digest(), data),), False)], blobs=[node])
    db = sqlite3.connect(tmp_path / "w" / "journal.db", isolation_level=None)
    db.execute("UPDATE blob SET data = ? WHERE data = ?", (node[:-1] + b"\0", node))
    db.close()
    with SqliteStore.open(tmp_path / "w") as store:
        before = stored_blobs(store)
        with pytest.raises(Damaged, match="blobs that it names are not known"):
            collect_now(store)
        assert stored_blobs(store) == before


async def test_a_host_that_works_meanwhile_loses_nothing(tmp_path: Path) -> None:
    """Collections run in a thread as fast as they can, while a host takes events and snapshots and puts blobs again."""
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        async with running_host(store, small_manifest(), [EchoAdapter()], tail_bytes=300) as host:
            stop = asyncio.Event()

            async def clean() -> int:
                runs = 0
                while not stop.is_set():
                    roots = [ref.encode() for ref in (host.manifest.ref, *host.manifest.sources.values())]
                    await asyncio.to_thread(collect, store, now_s=NOW_S, roots=roots)
                    runs += 1
                return runs

            cleaning = asyncio.create_task(clean())
            for number in range(60):
                ref = await host.put_blob(b"again %d " % (number % 4) * 3000)
                await host.submit("ex/Ev@1", poke_event(f"ask:{number},{ref}", f"r{number % 3}"))
            await host.settle()
            stop.set()
            assert await cleaning
            assert list(host.replay())
        assert verify(store).problem is None
        async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
            assert list(host.replay())


@settings(max_examples=60, deadline=None)
@given(
    edges=st.lists(st.tuples(st.integers(0, 30), st.sets(st.integers(0, 30), max_size=3)), max_size=31),
    roots=st.sets(st.integers(0, 30), max_size=4),
)
def test_exactly_what_roots_lead_to_stays(edges: list[tuple[int, set[int]]], roots: set[int]) -> None:
    """Blobs that name others, as text or as bytes; a blob can only name older ones."""
    store = MemoryStore("world_1")
    named = dict(edges)
    refs: list[Ref] = []
    children: dict[Ref, list[Ref]] = {}
    for number in range(31):
        below = [refs[child] for child in sorted(named.get(number, ())) if child < number]
        form = [ref if number % 2 else ref_digest(ref) for ref in below]
        refs.append(store.put_blob(cbor.encode([number, form])))
        children[refs[-1]] = below
    data = cbor.encode([refs[root] for root in sorted(roots)])
    store.append([Batch("a", 0, (Row("a", 0, "event", sha256(data).digest(), data),), False)])
    done = collect_now(store)
    assert stored_blobs(store) == _reached((refs[root] for root in roots), children)
    assert done.blobs == 31 - len(stored_blobs(store))


def _reached(waiting: Iterable[Ref], children: dict[Ref, list[Ref]]) -> set[Ref]:
    found: set[Ref] = set()
    stack = list(waiting)
    while stack:
        ref = stack.pop()
        if ref not in found:
            found.add(ref)
            stack += children[ref]
    return found


CUT_SHORT = (
    "snapshot.before_commit",
    "snapshot.after_commit",
    "gc.before_commit",
    "gc.after_commit",
    "remove.before_unlink",
    "store.before_rewrite",
    "store.after_rewrite",
)


@pytest.mark.parametrize("fault", [KeyboardInterrupt, "enospc"], ids=["interrupt", "full disk"])
@pytest.mark.parametrize("point", CUT_SHORT)
async def test_a_collection_that_is_cut_short_leaves_garbage_and_nothing_else(
    point: str, fault: str | type[BaseException], tmp_path: Path
) -> None:
    folder = tmp_path / "w"
    with SqliteStore.create(folder, "world_1") as store:
        await chat_with_files(store)
        store.put_blobs([b"%d nobody's " % number * (100 if number % 9 else 9000) for number in range(200)])
    with SqliteStore.open(folder) as store:
        expected = collect_now(store, dry_run=True)
        with suppress(KeyboardInterrupt, Unavailable), faults.armed({point: fault}):
            collect_now(store)
        assert verify(store).problem is None
    with SqliteStore.open(folder) as store:
        assert verify(store).problem is None
    with SqliteStore.open(folder) as store:
        collect_now(store)
        assert store.latest_snapshot(str(MAIN)) is not None
        assert len(stored_blobs(store)) == expected.kept
        async with chat_world(store, ScriptedModel(text_answer("Still here."))) as talk:
            assert list(talk.host.replay())
            await talk.say("And now?")
            assert talk.turn["status"] == "done"
