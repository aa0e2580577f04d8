"""Archiving: a world goes on as before, and while a file is away only what needs its records waits for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.world.small_world import (
    MAIN,
    START_NS,
    A,
    EchoAdapter,
    ScriptedModel,
    chat_world,
    poke_event,
    running_host,
    small_manifest,
    text_answer,
)

from demiurge.errors import Damaged, UsageError
from demiurge.stores import MemoryStore, Row, SqliteStore, Store
from demiurge.stores.errors import Archived
from demiurge.values.caller import Caller
from demiurge.values.clock import FixedClock, SeededEntropy
from demiurge.values.refs import ref_of
from demiurge.world.blob_access import granting_records
from demiurge.world.history.replay import Manifests
from demiurge.world.history.seal import prove, sealed
from demiurge.world.history.verify import verify
from demiurge.world.host import Host
from demiurge.world.host.loader import Loader
from demiurge.world.moment import length_at, moment
from demiurge.world.record import Stamp
from demiurge.world.retention.archive import Archiving, archive
from demiurge.world.retention.erasure import erase
from demiurge.world.retention.garbage import collect

START_S = START_NS // 10**9


@pytest.fixture
def store(tmp_path: Path) -> object:
    with SqliteStore.create(tmp_path / "w", "world_1") as made:
        yield made


async def send_pokes(store: Store, count: int, *, room: str = "a", tail_bytes: int = 1 << 20) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()], tail_bytes=tail_bytes) as host:
        for number in range(count):
            await host.submit("ex/Ev@1", poke_event(f"p{number}", room), idempotency_key=f"{room}{store.length()}")


async def run_turns(store: Store, turns: int) -> None:
    answers = [text_answer(f"Answer {number}.") for number in range(turns)]
    async with chat_world(store, ScriptedModel(*answers)) as talk:
        for number in range(turns):
            await talk.say(f"Message {number}.")
            assert talk.turn["status"] == "done"


def all_rows(store: Store) -> list[Row]:
    return list(store.read_all())


def move_archives_away(store: Store) -> list[Path]:
    """Move all archives to cold storage; where they are now."""
    places = []
    for segment in store.archives.segments():
        place = segment.path.parent.parent.parent / segment.path.name
        shutil.move(segment.path, place)
        places.append(place)
    return places


async def test_all_that_reads_records_reads_those_too(store: SqliteStore) -> None:
    await run_turns(store, 4)
    before, seal, cut = all_rows(store), sealed(store), store.length() - 2
    checked = verify(store, str(seal))
    proof = prove(store, 3, seal)
    given_before = [record.hash for record in granting_records(store, MAIN, ref_of(b"nobody's"))]
    done = archive(store, before=cut + 1)
    assert done.seal == str(sealed(store, cut))
    assert (done.records, done.position, done.segments) == (cut, cut, 1)
    assert 0 < done.packed < done.bytes == sum(len(row.data) for row in before[:cut])
    assert all_rows(store) == before
    assert verify(store, str(seal)) == checked
    assert prove(store, 3, seal) == proof
    assert [record.hash for record in granting_records(store, MAIN, ref_of(b"nobody's"))] == given_before
    assert collect(store, now_s=START_S, dry_run=True).kept > 0
    async with chat_world(store, ScriptedModel(text_answer("Still here."))) as talk:
        assert list(talk.host.replay())
        await talk.say("And now?")
        assert talk.turn["status"] == "done"
    assert verify(store, str(seal)).ok


async def test_an_event_that_was_archived_is_not_taken_twice(store: SqliteStore) -> None:
    await send_pokes(store, 3)
    archive(store, before=100)
    length = store.length()
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        first = await host.submit("ex/Ev@1", poke_event("p0"), idempotency_key="a0")
        assert first.seq == 0
    assert store.length() == length


async def test_a_unit_that_starts_from_a_snapshot_needs_no_archive(store: SqliteStore) -> None:
    await send_pokes(store, 6, tail_bytes=1)
    await send_pokes(store, 2, room="b")
    snapshot = store.latest_snapshot(str(A))
    assert snapshot is not None
    archive(store, before=10_000)
    places = move_archives_away(store)
    length = store.length()
    async with running_host(store, small_manifest(), [EchoAdapter()], tail_bytes=1) as host:
        await host.submit("ex/Ev@1", poke_event("again"))
        await host.submit("ex/Ev@1", poke_event("new", "c"))
        with pytest.raises(Archived, match="put it back there"):
            await host.submit("ex/Ev@1", poke_event("more", "b"))
        with pytest.raises(Archived):
            list(host.replay())
    assert store.length() > length
    assert moment(store, 3) >= 3
    assert length_at(store, str(A), length) > 0
    found = verify(store)
    assert (found.ok, found.archived) == (True, length)
    for place, segment in zip(places, store.archives.segments(), strict=True):
        shutil.move(place, segment.path)
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", poke_event("more", "b"))
        assert list(host.replay())
    assert verify(store).archived == 0


async def test_verify_says_what_it_did_not_check_and_checks_a_file_elsewhere(store: SqliteStore) -> None:
    await send_pokes(store, 6)
    seal, length = str(sealed(store)), store.length()
    archive(store, before=8)
    [place] = move_archives_away(store)
    found = verify(store, seal)
    assert (found.ok, found.archived, found.records, found.seal) == (True, 7, length, seal)
    with store.archives.reading_from([place]):
        assert verify(store, seal).archived == 0
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes(data)
    with store.archives.reading_from([place]):
        assert "archive" in (verify(store, seal).problem or "")


async def test_a_hash_that_was_changed_below_a_seal_is_found_without_the_file(
    store: SqliteStore, tmp_path: Path
) -> None:
    await send_pokes(store, 6)
    archive(store, before=8)
    move_archives_away(store)
    with store._db.writing("meta") as db:  # as somebody with the file could
        db.execute("UPDATE journal SET hash = zeroblob(32) WHERE position = 3")
    assert "not those that were archived" in (verify(store).problem or "")


async def test_garbage_and_erasure_wait_for_a_file_that_is_away(store: SqliteStore) -> None:
    await run_turns(store, 2)
    secret = store.put_blob(b"a canary")
    archive(store, before=100)
    [segment] = store.archives.segments()
    packed = segment.path.read_bytes()
    [place] = move_archives_away(store)
    before = {*store.iter_blobs()}
    manifests = Manifests(small_manifest(), store.get_blob)
    stamp = Stamp(START_NS, b"\0" * 16, Caller("user"), small_manifest().ref)
    with pytest.raises(Archived):
        collect(store, now_s=START_S * 2)
    with pytest.raises(Archived):
        erase(store, manifests, [secret], "asked to", stamp, SeededEntropy(1))
    assert {*store.iter_blobs()} == before
    shutil.move(place, segment.path)
    assert collect(store, now_s=START_S * 2).blobs > 0
    assert segment.path.read_bytes() == packed, "archives hold records, and blobs are not in them"


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(1, 60), max_size=4), read_at=st.integers(1, 40))
async def test_no_choice_of_cuts_changes_what_is_computed(
    cuts: list[int], read_at: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with SqliteStore.create(tmp_path_factory.mktemp("cuts") / "w", "world_1") as store:
        await send_pokes(store, 8, tail_bytes=2000)
        manifests = Manifests(small_manifest(), store.get_blob)
        at = min(read_at, store.length())
        length = length_at(store, str(A), moment(store, at))
        expected = Loader(store, manifests, []).load(A, length)
        for cut in cuts:
            archive(store, before=cut)
        assert length_at(store, str(A), moment(store, at)) == length
        assert Loader(store, manifests, []).load(A, length) == expected
        assert verify(store).ok


async def test_the_window_is_in_days_and_a_dry_run_moves_nothing(store: SqliteStore) -> None:
    await send_pokes(store, 3)
    old = store.length()
    clock = FixedClock(START_NS + 10**9 * 3600 * 24 * 40)
    host = Host(store, small_manifest(), [EchoAdapter()], clock=clock)
    await host.start()
    await host.submit("ex/Ev@1", poke_event("young"))
    await host.close()
    now_ns = clock.now_ns()
    size = sum(len(row.data) for row in store.read_all(1, old))
    assert archive(store, now_ns=now_ns, dry_run=True) == Archiving(old, size, 0, 0, old, None)
    assert store.archives.segments() == []
    assert archive(store, now_ns=now_ns, keep_s=50 * 24 * 3600).records == 0
    done = archive(store, now_ns=now_ns)
    assert (done.records, done.bytes) == (old, size)
    assert archive(store, now_ns=now_ns) == Archiving(0, 0, 0, 0, old, None)
    assert archive(store, before=2) == Archiving(0, 0, 0, 0, old, None)
    assert archive(store, now_ns=now_ns + 10**15, keep_s=0).position == store.length()


async def test_a_record_that_is_damaged_is_left_where_it_is(store: SqliteStore) -> None:
    await send_pokes(store, 3)
    with store._db.writing("meta") as db:
        db.execute("UPDATE journal SET data = x'00' WHERE position = 4")
    with pytest.raises(Damaged, match="restore the world"):
        archive(store, before=10)
    assert store.archives.segments() == []


async def test_memory_has_no_archives() -> None:
    memory = MemoryStore("world_1")
    await send_pokes(memory, 1)
    with pytest.raises(UsageError):
        archive(memory, before=10)
