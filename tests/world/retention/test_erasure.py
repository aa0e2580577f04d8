"""Erasure: the bytes are nowhere, and the world still opens, verifies, replays as far as it can, and goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.world.recomputed_stores import assert_sound, fork_store
from tests.world.retention.blob_reading_world import blob_reading_manifest, blob_reading_reducer, erase_blob
from tests.world.small_world import (
    MAIN,
    A,
    EchoAdapter,
    ScriptedModel,
    ask_event,
    call_answer,
    chat_world,
    poke_event,
    running_host,
    small_manifest,
    stored_records,
    text_answer,
)

from demiurge import faults
from demiurge.errors import Conflict, Damaged, InvalidValue, NotFound, Unavailable, UsageError
from demiurge.stores import MemoryStore, SqliteStore, Store
from demiurge.values.refs import Ref, ref_of
from demiurge.world.history.verify import verify
from demiurge.world.manifest import Manifest
from demiurge.world.messages import user_blob
from demiurge.world.reducer import Emit, ReducerContext, Step
from demiurge.world.retention.erasure import ERASURES, Erasure
from demiurge.world.retention.garbage import collect
from demiurge.world.unit import Unit

SECRET = b"<a canary that nobody else says>"
LONG = SECRET * 1000


async def log_after_pokes(store: Store, *whats: str, tail_bytes: int = 1 << 20, room: str = "a") -> list[str]:
    """What is in the log in the end."""
    async with running_host(store, blob_reading_manifest(), [EchoAdapter()], tail_bytes=tail_bytes) as host:
        for what in whats:
            await host.submit("ex/Ev@1", poke_event(what, room))
        cell = host.state(Unit(A.module, room)).cell
        assert cell is not None
        return list(cell["log"])


async def unchecked_counts(store: Store) -> Counter[Unit]:
    """How many records could not be checked, by unit."""
    unchecked = Counter[Unit]()
    async with running_host(store, blob_reading_manifest(), [EchoAdapter()]) as host:
        for _ in host.replay(unchecked):
            pass
    return unchecked


@pytest.mark.parametrize("data", [SECRET, LONG], ids=["small", "long"])
async def test_a_blob_that_steps_have_read_is_erased_and_the_unit_goes_on(data: bytes, store: Store) -> None:
    ref = store.put_blob(data)
    log = await log_after_pokes(store, "one", ref, "two")
    done = erase_blob(store, ref)
    assert done == Erasure((ref,), len(data), 1, (str(A),), (str(A),), True)
    with pytest.raises(NotFound) as caught:
        store.get_blob(ref)
    assert caught.value.code == "erased"
    assert await log_after_pokes(store, "three") == [*log, "three"]
    assert verify(store).problem is None
    assert (await unchecked_counts(store))[A] == 4, "its own step and the one after, up to the snapshot"


async def test_an_erasure_records_its_actor_and_reason(memory: MemoryStore) -> None:
    ref = memory.put_blob(SECRET)
    erase_blob(memory, ref, why="GDPR, request 17")
    (record,) = [record for record in stored_records(memory) if record.kind == "erased"]
    assert record.unit == str(ERASURES)
    assert record.body == {"ref": ref, "actor": "user", "why": "GDPR, request 17"}
    other = memory.put_blob(b"another")
    erase_blob(memory, other)
    async with running_host(memory, blob_reading_manifest(), []) as host:
        assert_sound(memory, host)
    assert verify(memory).ok


async def test_verify_counts_an_erased_blob_only_if_records_name_it(memory: MemoryStore) -> None:
    async with chat_world(memory, ScriptedModel(text_answer("Hello."))) as talk:
        await talk.say("my secret words")
        message = talk.state["messages"][0]["message_ref"]
        erase_blob(memory, message, of=talk.host.manifest)
        erase_blob(memory, memory.put_blob(SECRET), of=talk.host.manifest)
    found = verify(memory)
    assert (found.problem, found.erased) == (None, 1)


async def test_a_dry_run_says_the_same_and_does_nothing(store: Store) -> None:
    ref = store.put_blob(SECRET)
    await log_after_pokes(store, ref)
    before = list(store.read_all())
    found = erase_blob(store, ref, dry_run=True)
    assert found == Erasure((ref,), len(SECRET), 1, (str(A),), (str(A),), False)
    assert store.get_blob(ref) == SECRET
    assert list(store.read_all()) == before
    assert store.latest_snapshot(str(A)) is None


async def test_a_unit_that_a_snapshot_covers_needs_no_other(memory: MemoryStore) -> None:
    ref = memory.put_blob(SECRET)
    await log_after_pokes(memory, ref, *map(str, range(40)), tail_bytes=300)
    snapshots = _snapshots(memory)
    assert erase_blob(memory, ref).unchecked == ()
    assert _snapshots(memory) == snapshots
    assert 0 < (await unchecked_counts(memory))[A] < 40


def _snapshots(store: Store) -> int:
    found, count = store.latest_snapshot(str(A)), 0
    while found is not None:
        found, count = store.latest_snapshot(str(A), found.unit_seq), count + 1
    return count


async def test_several_gaps_are_counted_and_what_lies_between_them_is_checked(memory: MemoryStore) -> None:
    first, second = memory.put_blob(b"first"), memory.put_blob(b"second")
    await log_after_pokes(
        memory, *map(str, range(30)), first, *map(str, range(30)), second, *map(str, range(30)), tail_bytes=300
    )
    erase_blob(memory, first)
    erase_blob(memory, second)
    unchecked = await unchecked_counts(memory)
    assert 4 <= unchecked[A] < 40
    assert set(unchecked) == {A}


async def test_an_erasure_outlives_a_garbage_collection(store: Store) -> None:
    ref = store.put_blob(SECRET)
    log = await log_after_pokes(store, ref, *map(str, range(40)), tail_bytes=300)
    erase_blob(store, ref)
    collect(store, now_s=4_000_000_000)
    assert await log_after_pokes(store, "more") == [*log, "more"]
    assert (await unchecked_counts(store))[A] > 0
    assert verify(store).problem is None


async def test_the_same_bytes_can_be_put_again_and_erased_again(store: Store) -> None:
    ref = store.put_blob(SECRET)
    await log_after_pokes(store, ref)
    erase_blob(store, ref)
    store.put_blob(SECRET)
    assert (await unchecked_counts(store))[A] == 0, "what came back is there to be read"
    assert verify(store).erased == 0
    assert erase_blob(store, ref).done
    assert len([record for record in stored_records(store) if record.kind == "erased"]) == 2


async def test_erasing_it_twice_is_said_once(memory: MemoryStore) -> None:
    ref = memory.put_blob(SECRET)
    erase_blob(memory, ref)
    assert erase_blob(memory, ref) == Erasure((ref,), 0, 0, (), (), True)
    assert len([record for record in stored_records(memory) if record.kind == "erased"]) == 1


@pytest.mark.parametrize(("ref", "why"), [("nonsense", "x"), (ref_of(b"x"), ""), (ref_of(b"x"), "x" * 2001)])
async def test_an_erasure_with_an_invalid_ref_or_reason_is_refused(ref: str, why: str, memory: MemoryStore) -> None:
    memory.put_blob(b"x")
    with pytest.raises(InvalidValue):
        erase_blob(memory, ref, why=why)
    assert memory.get_blob(ref_of(b"x")) == b"x"


async def test_a_blob_that_is_not_there_is_not_found(memory: MemoryStore) -> None:
    with pytest.raises(NotFound) as caught:
        erase_blob(memory, ref_of(b"never seen"))
    assert caught.value.code == "not_found"


async def test_a_manifest_source_or_snapshot_in_use_is_not_erased(memory: MemoryStore) -> None:
    await log_after_pokes(memory, *map(str, range(40)), tail_bytes=300)
    current, snapshot = blob_reading_manifest(), memory.latest_snapshot(str(A))
    assert snapshot is not None
    for ref in (current.ref, *current.sources.values(), snapshot.ref):
        with pytest.raises(UsageError) as caught:
            erase_blob(memory, ref)
        assert caught.value.code == "needed"
    assert verify(memory).ok


async def test_a_fork_made_afterwards_has_the_gap_and_goes_on(memory: MemoryStore) -> None:
    ref = memory.put_blob(SECRET)
    log = await log_after_pokes(memory, ref, "one")
    erase_blob(memory, ref)
    target, _ = fork_store(memory, blob_reading_manifest(), tail_bytes=1 << 20)
    with pytest.raises(NotFound) as caught:
        target.get_blob(ref)
    assert caught.value.code == "erased"
    assert await log_after_pokes(target, "there") == [*log, "there"]
    assert verify(target).problem is None
    assert (await unchecked_counts(target))[A] > 0


B = Unit(A.module, "b")


async def test_the_past_can_be_forked_and_what_can_t_be_known_of_it_comes_as_records(store: Store) -> None:
    ref = store.put_blob(SECRET)
    await log_after_pokes(store, "one")
    await log_after_pokes(store, ref, "two", room="b")
    position = max(row.position for row in store.read_all())
    await log_after_pokes(store, "later")
    await log_after_pokes(store, "later", room="b")
    erase_blob(store, ref)
    target, made = fork_store(store, blob_reading_manifest(), position)
    assert made.unchecked == (str(B),)
    assert list(target.read_all(0, position)) == [row for row in store.read_all() if row.position <= position]
    assert (await log_after_pokes(target, "there"))[0] == "one", "other units have their state"
    async with running_host(target, blob_reading_manifest(), [EchoAdapter()]) as host:
        await host.settle()
        for work in (lambda: host.submit("ex/Ev@1", poke_event("there", "b")), lambda: host.read_cell(B)):
            with pytest.raises(
                NotFound, match="The state of ex/Room@1/b from its first record on can't be known"
            ) as caught:
                await work()
            assert caught.value.code == "erased"
    assert verify(target).problem is None
    assert set(await unchecked_counts(target)) == {B}
    again, made = fork_store(target, blob_reading_manifest(), world="world_3")
    assert made.unchecked == (str(B),)
    assert (await log_after_pokes(again, "and there"))[-2:] == ["there", "and there"]
    other = target.put_blob(b"another")
    await log_after_pokes(target, other)
    assert erase_blob(target, other).unchecked == (str(A),), "more can be erased in it"


async def test_a_unit_forked_as_records_stays_closed_when_its_erased_blob_returns(memory: MemoryStore) -> None:
    """What was open in it may be done in the world that it was in."""
    await log_after_pokes(memory, "one")
    async with running_host(memory, echoing_manifest(), [EchoAdapter()], perform=False, tail_bytes=1 << 20) as host:
        ref = await host.put_blob(SECRET)
        await host.submit("ex/Ev@1", poke_event(ref, "b"))
        await host.submit("ex/Ev@1", poke_event("ask", "b"))
    position = max(row.position for row in memory.read_all())
    async with running_host(memory, echoing_manifest(), [EchoAdapter()], tail_bytes=1 << 20) as host:
        await host.settle()
    erase_blob(memory, ref, of=echoing_manifest())
    target, made = fork_store(memory, echoing_manifest(), position)
    assert made.unchecked == (str(B),)
    target.put_blob(SECRET)
    echo = EchoAdapter()
    async with running_host(target, echoing_manifest(), [echo]) as host:
        await host.settle()
        with pytest.raises(NotFound, match="as records alone"):
            await host.submit("ex/Ev@1", poke_event("there", "b"))
    assert echo.performed == []


def echoing_manifest() -> Manifest:
    """Where `ask` asks for an effect."""

    def reduce(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
        if event["$tag"] == "Poke" and event["$value"]["what"] == "ask":
            return Step(events=[ask_event("hello", room=context.key)])
        return blob_reading_reducer(state, event, context) if event["$tag"] == "Poke" else Step()

    return small_manifest(reduce=reduce)


async def test_a_message_that_it_had_sent_arrives_in_the_fork(memory: MemoryStore) -> None:
    ref = memory.put_blob(SECRET)

    def reduce(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
        step = blob_reading_reducer(state, event, context)
        return replace(step, events=[Emit("ex/Note@1", {"board": "b", "text": "hello"})])

    current = small_manifest(reduce=reduce)
    async with running_host(memory, current, [], tail_bytes=1 << 20) as host:
        await host.submit("ex/Ev@1", poke_event(ref))
        await host.settle()
        await host.submit("ex/Ev@1", poke_event("later"))
    sent = next(record.position for record in stored_records(memory) if record.unit == str(A) and record.kind == "step")
    assert sent is not None
    erase_blob(memory, ref, of=current)
    target, made = fork_store(memory, current, sent)
    assert made.unchecked == (str(A),)
    async with running_host(target, current, []) as host:
        await host.settle()
        board = host.state(Unit("ex/Board@1", "b")).cell
        assert board is not None
        assert list(board["notes"]) == ["hello"]
    assert target.outbox() == []


async def test_a_damaged_snapshot_is_named_as_what_is_wrong(memory: MemoryStore) -> None:
    ref = memory.put_blob(SECRET)
    await log_after_pokes(memory, ref, "one")
    erase_blob(memory, ref)
    snapshot = memory.latest_snapshot(str(A))
    assert snapshot is not None
    memory.put_snapshot(replace(snapshot, hash=bytes(32)))
    with pytest.raises(Damaged, match="another record is at that place"):
        await log_after_pokes(memory, "two")


async def test_a_fork_has_what_came_back(memory: MemoryStore) -> None:
    async with chat_world(memory, ScriptedModel(text_answer("GcBarrier."))) as talk:
        await talk.say("my secret words")
        message, current = talk.state["messages"][0]["message_ref"], talk.host.manifest
    data = memory.get_blob(message)
    erase_blob(memory, message, of=current)
    memory.put_blob(data)
    target, _ = fork_store(memory, current)
    assert target.get_blob(message) == data


async def test_nothing_of_it_is_left_on_disk(tmp_path: Path) -> None:
    canary, folder = "quokka-4711-canary", tmp_path / "w"
    with SqliteStore.create(folder, "world_1") as store:
        write = call_answer(("c1", "workspace__write", {"path": "note.txt", "text": "nothing special " * 3000}))
        async with chat_world(store, ScriptedModel(text_answer("GcBarrier."), write, text_answer("Done."))) as talk:
            message = await talk.host.put_blob(user_blob(f"remember {canary}"))
            await talk.say("a text that stands in the event", message_ref=message)
            await talk.say("Write it.")
            current = talk.host.manifest
        holding = [Ref(ref) for ref in store.iter_blobs() if canary.encode() in store.get_blob(ref)]
        assert message in holding
        for ref in holding:
            await asyncio.to_thread(erase_blob, store, ref, of=current)
        assert _holding(folder, canary) == []
        assert verify(store).problem is None
    assert _holding(folder, canary) == []


def _holding(folder: Path, canary: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and canary.encode() in path.read_bytes()]


async def test_a_chat_goes_on_after_one_of_its_messages_was_erased(memory: MemoryStore) -> None:
    async with chat_world(memory, ScriptedModel(text_answer("GcBarrier."))) as talk:
        await talk.say("my secret words")
        message, current = talk.state["messages"][0]["message_ref"], talk.host.manifest
    erase_blob(memory, message, of=current)
    model = ScriptedModel(text_answer("Still here."))
    async with chat_world(memory, model) as talk:
        await talk.say("And now?")
        assert talk.turn["status"] == "done"
        assert list(talk.host.replay())
    assert "my secret words" not in repr(model.requests)
    assert str(MAIN) in {record.unit for record in stored_records(memory)}


async def test_a_plan_that_needs_it_now_keeps_it(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = memory.put_blob(SECRET)
    await log_after_pokes(memory, ref)

    def unwritable(_state: object) -> tuple[bytes, dict[Ref, bytes]]:
        raise InvalidValue("a running plan holds what is no plain data")

    monkeypatch.setattr("demiurge.world.retention.erasure.snapshot_node", unwritable)
    with pytest.raises(Conflict) as caught:
        erase_blob(memory, ref)
    assert caught.value.code == "busy"
    assert memory.get_blob(ref) == SECRET


@pytest.mark.parametrize("fault", [KeyboardInterrupt, "enospc"], ids=["interrupt", "full disk"])
@pytest.mark.parametrize(
    "point",
    [
        "blob.before_commit",
        "blob.after_commit",
        "snapshot.before_commit",
        "snapshot.after_commit",
        "erase.before_commit",
        "erase.after_commit",
        "remove.before_unlink",
        "store.before_rewrite",
        "store.after_rewrite",
        "erased.before_commit",
        "erased.after_commit",
    ],
)
async def test_an_erasure_that_is_cut_short_has_not_begun_or_is_finished_by_the_next(
    point: str, fault: str | type[BaseException], tmp_path: Path
) -> None:
    folder = tmp_path / "w"
    with SqliteStore.create(folder, "world_1") as store:
        ref = store.put_blob(SECRET)
        log = await log_after_pokes(store, "one", ref)
        with suppress(KeyboardInterrupt, Unavailable), faults.armed({point: fault}):
            erase_blob(store, ref)
        assert verify(store).problem is None
    with SqliteStore.open(folder) as store:
        begun = any(record.kind == "erased" for record in stored_records(store))
        assert store.has_blob(ref) is not begun
        assert bool(_holding(folder, SECRET.decode())) is not begun
        assert erase_blob(store, ref).done
        assert _holding(folder, SECRET.decode()) == []
        assert len([record for record in stored_records(store) if record.kind == "erased"]) == 1
        assert await log_after_pokes(store, "two") == [*log, "two"]
        assert verify(store).problem is None


async def test_a_unit_that_reads_a_blob_during_its_erasure_can_be_loaded_afterwards(
    memory: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = memory.put_blob(SECRET)
    loop = asyncio.get_running_loop()
    reading: list[asyncio.Task[Any]] = []
    erase = memory.erase
    async with running_host(memory, blob_reading_manifest(), [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", poke_event(ref))

        def last_moment(*args: Any) -> None:
            """When it is known who has read it, somebody reads it again."""
            loop.call_soon_threadsafe(lambda: reading.append(loop.create_task(host.submit("ex/Ev@1", poke_event(ref)))))
            for _ in range(20):
                asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
            erase(*args)

        monkeypatch.setattr(memory, "erase", last_moment)
        assert (await host.erasing(lambda: erase_blob(memory, ref))).done
        with pytest.raises(NotFound):
            await reading[0]
    assert await log_after_pokes(memory, "two") == [str(len(SECRET)), "two"]
