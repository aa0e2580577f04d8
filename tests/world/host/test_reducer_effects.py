"""Reducers' own effects on a host: performed once, heard of by the cell that asked, whatever happens in between."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.world.manual_clock import HOUR, Time
from tests.world.recomputed_stores import assert_sound, fork_store
from tests.world.reducer_effects import (
    blob_get_request,
    blob_put_request,
    effect_requesting_manifest,
    effect_requesting_reducer,
    timer_request,
)
from tests.world.reducer_effects_child import POKES, open_host
from tests.world.retention.blob_reading_world import erase_blob
from tests.world.small_world import START_NS, A, poke_event, stored_records

from demiurge.stores import MemoryStore, SqliteStore, Store
from demiurge.values.clock import SeededEntropy
from demiurge.values.refs import ref_of
from demiurge.world.effect import Adapter
from demiurge.world.effects.blob import BlobEffects
from demiurge.world.effects.timer import TimerEffects
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.reducer import EffectRequest, ReducerContext, Step

ROOT = Path(__file__).parents[3]


def asked(what: str) -> Sequence[EffectRequest]:
    if what == "blobs":
        return [
            blob_put_request(b"hello", "put"),
            blob_put_request(b"x" * 100_000, "large"),
            blob_get_request(ref_of(b"foreign"), "stranger"),
        ]
    return [blob_get_request(ref_of(b"hello"), "mine")] if what == "again" else [timer_request(START_NS + HOUR, what)]


MANIFEST = effect_requesting_manifest(effect_requesting_reducer(asked))


@asynccontextmanager
async def host_on_time(store: Store, time: Time, manifest: Manifest = MANIFEST) -> AsyncIterator[Host]:
    adapters: list[Adapter] = [TimerEffects(time.clock), BlobEffects()]
    entropy = SeededEntropy(sum(head.next_seq for head in store.heads()))
    host = Host(store, manifest, adapters, clock=time.clock, entropy=entropy, sleep=time.sleep, tail_bytes=1)
    await host.start()
    try:
        yield host
    finally:
        await host.close()


def room_log(host: Host) -> list[str]:
    cell = host.state(A).cell
    return list(cell["log"]) if cell is not None else []


async def test_a_timer_goes_off_in_the_next_process_and_the_reducer_hears_of_it(store: Store) -> None:
    time = Time()
    async with host_on_time(store, time) as host:
        await host.submit("ex/Ev@1", poke_event("tea"))
        await host.submit("ex/Ev@1", poke_event("bread"))
        await time.pass_by(HOUR - 1, host)
        assert room_log(host) == []
    later = Time(START_NS + 2 * HOUR)
    async with host_on_time(store, later) as host:
        await host.settle()
        assert sorted(room_log(host)) == sorted(f"TimerFired {key} ok delivered_at_ns,key" for key in ("tea", "bread"))
        assert not host.state(A).is_open
        assert_sound(store, host)


async def test_blobs_are_put_and_read_under_the_rules_of_all_effects(store: Store) -> None:
    store.put_blob(b"foreign")
    async with host_on_time(store, Time()) as host:
        await host.submit("ex/Ev@1", poke_event("blobs"))
        await host.settle()
        assert sorted(room_log(host)) == [
            "BlobGetResult stranger error not_found",
            "BlobPutResult large error too_large",
            "BlobPutResult put ok blob_ref,size",
        ]
        await host.submit("ex/Ev@1", poke_event("again"))
        await host.settle()
        assert room_log(host)[-1] == "BlobGetResult mine ok blob_ref,bytes,size"
        assert_sound(store, host)


async def test_a_reducer_that_is_denied_hears_so_at_once(memory: MemoryStore) -> None:
    manifest = effect_requesting_manifest(
        effect_requesting_reducer(asked), rules=[{"when": {"origin_kind": "plan"}, "decision": "allow"}]
    )
    async with host_on_time(memory, Time(), manifest) as host:
        await host.submit("ex/Ev@1", poke_event("tea"))
        assert room_log(host) == ["TimerFired tea error policy_denied"]
        assert not host.state(A).is_open
        assert_sound(memory, host)


async def test_a_fork_tells_the_reducer_that_its_timer_is_in_doubt_there(memory: MemoryStore) -> None:
    time = Time()
    async with host_on_time(memory, time) as host:
        await host.submit("ex/Ev@1", poke_event("tea"))
        target, made = fork_store(memory, MANIFEST)
        assert made.ended == 1
        async with host_on_time(target, time) as other:
            assert room_log(other) == ["TimerFired tea error unknown_outcome"]
            await other.submit("ex/Ev@1", poke_event("tea"))
            [theirs], [mine] = (list(h.state(A).intents) for h in (other, host))
            assert theirs != mine
        await time.pass_by(HOUR, host)
        assert room_log(host) == ["TimerFired tea ok delivered_at_ns,key"]


async def test_a_cell_with_an_erased_blob_hears_of_its_timer(memory: MemoryStore) -> None:
    def reduce(state: Mapping[str, Any] | None, event: Any, context: ReducerContext) -> Step:
        step = effect_requesting_reducer(asked)(state, event, context)
        return Step(step.set, step.append, blobs=[b"secret"], effects=step.effects)

    manifest, time = effect_requesting_manifest(reduce), Time()
    async with host_on_time(memory, time, manifest) as host:
        await host.submit("ex/Ev@1", poke_event("tea"))
    erase_blob(memory, ref_of(b"secret"), of=manifest)
    unchecked: Counter[Any] = Counter()
    async with host_on_time(memory, time, manifest) as host:
        await time.pass_by(HOUR, host)
        assert room_log(host) == ["TimerFired tea ok delivered_at_ns,key"]
        assert_sound(memory, host, unchecked)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "point",
    [
        "effect.before_attempt",
        "attempts.after_commit",
        "effect.attempted",
        "effect.performed",
        "effect.received",
        "journal.before_commit",
        "journal.after_commit",
    ],
)
async def test_a_kill_loses_no_answer_and_repeats_none(point: str, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    SqliteStore.create(folder, "world_1").close()
    deaths = [await _run(folder, f"{point}=kill@{hit}") for hit in (1, 2, 3)]
    assert -signal.SIGKILL in deaths
    assert set(deaths) <= {0, -signal.SIGKILL}
    assert await _run(folder, "") == 0
    with SqliteStore.open(folder) as store:
        host = open_host(store)
        timers = [f"TimerFired {what}-timer ok delivered_at_ns,key" for what in POKES]
        blobs = [f"BlobPutResult {what}-blob ok blob_ref,size" for what in POKES]
        assert sorted(room_log(host)) == sorted([*timers, *blobs])
        assert len([record for record in stored_records(store) if record.kind == "intent"]) == 4
        assert_sound(store, host)


async def _run(folder: Path, fault: str) -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DEMIURGE_FAULTS": fault}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.world.reducer_effects_child", str(folder), env=environment
    )
    return await child.wait()
