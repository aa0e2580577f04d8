"""Snapshots: a unit is what its records make it, with them and without them; they only save time."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.world.small_world import (
    A,
    EchoAdapter,
    Kernel,
    ScriptedModel,
    call_answer,
    chat_world,
    echo_result,
    plain_data,
    poke_event,
    running_host,
    small_manifest,
)

from demiurge import faults
from demiurge.errors import Damaged, DemiurgeError, Divergence, Unavailable
from demiurge.stores import MemoryStore, SqliteStore, Store
from demiurge.stores.protocol import Row, Snapshot
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.policy import ToolPolicy
from demiurge.values import cbor
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref, ref_of
from demiurge.world.history.verify import verify
from demiurge.world.host import Host
from demiurge.world.reducer import ReducerContext, Step
from demiurge.world.snapshot import read_snapshot, snapshot_node
from demiurge.world.state import UnitState

WORLD = Path(__file__).parents[2]


def snapshots(store: Store, unit: str = str(A)) -> list[Snapshot]:
    """Newest first."""
    found: list[Snapshot] = []
    while (one := store.latest_snapshot(unit, found[-1].unit_seq if found else None)) is not None:
        found.append(one)
    return found


def recompute_state(store: Store) -> UnitState:
    *_, last = Host(store, small_manifest(), []).replay()
    return last


def state_after_snapshot(state: UnitState, store: Store) -> UnitState:
    """A state after it was a snapshot."""
    node, chunks = snapshot_node(state)
    store.put_blobs([node, *chunks.values()])
    snapshot = Snapshot(str(state.unit), state.seq - 1, state.head, ref_of(node))
    return read_snapshot(snapshot, state.world, state.unit, store.get_blob)


class Counting(MemoryStore):
    """Counts the rows of single units that are read."""

    rows_read = 0

    def read(self, unit: str, from_seq: int = 0, limit: int | None = None) -> Iterator[Row]:
        for row in super().read(unit, from_seq, limit):
            self.rows_read += 1
            yield row


async def send_pokes(store: Store, count: int, *, tail_bytes: int = 1) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()], tail_bytes=tail_bytes) as host:
        for number in range(count):
            await host.submit("ex/Ev@1", poke_event(f"p{number}"))


# -- what is kept -----------------------------------------------------------------------------------------------------


def test_every_part_of_a_state_comes_back() -> None:
    unit = Kernel(small_manifest())
    unit.poke("hello")
    unit.poke("ask:x,y")
    unit.receipt(unit.intents[0], echo_result("x"))
    [intent] = unit.intents
    edited_from = {"intent": bytes(32), "call_ref": ref_of(b"proposed")}
    unit.state.intents[intent.id] = replace(intent, edited_from=edited_from)
    unit.state.rules["r1"] = {"id": "r1", "bound": {"tool": "t"}, "pattern": "{}", "left": 2, "roles": ["user"]}
    again = state_after_snapshot(unit.state, MemoryStore("world_1"))
    assert plain_data(again) == plain_data(unit.state)
    assert list(again.cell or ()) == list(unit.state.cell or ()), "a reducer may see the order of the fields"


async def test_an_open_call_with_its_requests_and_its_question_comes_back() -> None:
    begun, store = asyncio.Event(), MemoryStore("world_1")

    async def slow(n: int) -> str:
        """Never ends."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    tools = [Tool.wrap(slow, name="slow"), Tool.wrap(slow, name="asked")]
    policy = ToolPolicy(allowed_tools=("slow", "asked"), require_approval_for_tools=("asked",))
    model = ScriptedModel(call_answer(("c1", "slow", {"n": 1}), ("c2", "asked", {"n": 2})))
    async with chat_world(store, model, tools, policy=policy) as talk:
        await talk.say("go", settle=False)
        await begun.wait()
        state = talk.host.state(talk.unit)
        assert talk.host.state(talk.unit).plans
        assert {intent.kind for intent in state.intents.values()} == {"tool.call"}
        assert [intent.awaits_approval for intent in state.intents.values()] == [False, True]
        assert plain_data(state_after_snapshot(state, store)) == plain_data(state)
        await talk.host.cancel(talk.unit, reason="enough", caller=Caller("user"))


POKES = st.one_of(
    st.sampled_from(["ask:x", "ask:x,y,!z", "forget", "post:n", "fail:x"]), st.integers(0, 99).map(lambda n: f"p{n}")
)
PARTS = st.lists(st.tuples(st.lists(POKES, max_size=25), st.integers(1, 3000)), min_size=1, max_size=4)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PARTS)
def test_any_history_loads_the_same_with_snapshots_and_without(parts: Sequence[tuple[list[str], int]]) -> None:
    async def run(store: MemoryStore, *, snapshot: bool) -> None:
        for pokes, tail_bytes in parts:
            limit = tail_bytes if snapshot else 1 << 40
            async with running_host(
                store, small_manifest(), [EchoAdapter({"!z": RuntimeError("broken")})], tail_bytes=limit
            ) as host:
                for what in pokes:
                    await host.submit("ex/Ev@1", poke_event(what))
                    await host.settle(A)

    with_them, without = MemoryStore("world_1"), MemoryStore("world_1")
    asyncio.run(run(with_them, snapshot=True))
    asyncio.run(run(without, snapshot=False))
    for head in with_them.heads():
        assert head == without.head(head.unit)
    if with_them.head(str(A)) is not None:
        reader = Host(with_them, small_manifest(), [])
        assert plain_data(reader.state(A)) == plain_data(Host(without, small_manifest(), []).state(A))
        assert reader.notices == []
    assert verify(with_them).ok
    list(Host(with_them, small_manifest(), []).replay())


# -- what they save ---------------------------------------------------------------------------------------------------


async def test_loading_reads_the_tail_and_not_the_history() -> None:
    read = []
    for count in (40, 400):
        store = Counting("world_1")
        await send_pokes(store, count, tail_bytes=2000)
        store.rows_read = 0
        state = Host(store, small_manifest(), []).state(A)
        read.append(store.rows_read)
        assert state.seq > 2 * count
    assert max(read) < 20


async def test_a_snapshot_stores_what_changed() -> None:
    store = MemoryStore("world_1")
    await send_pokes(store, 600)
    assert len(snapshots(store)) > 250
    before = len(list(store.iter_blobs()))
    await send_pokes(store, 16)
    fresh = list(store.iter_blobs())[before:]
    assert len(fresh) <= 16 * 2 + 4, "a node and the last chunk of the list for each, and one path of its tree"
    assert sum(store.blob_size(ref) for ref in fresh) < 16 * 1000


async def test_a_snapshot_waits_for_a_tail_as_large_as_the_last_one() -> None:
    store = MemoryStore("world_1")
    async with running_host(store, small_manifest(schemas=BOXED, reduce=hoarding_reducer), [], tail_bytes=1) as host:
        for number in range(60):
            await host.submit("ex/Ev@1", poke_event(f"p{number}"))
    taken = [store.blob_size(snapshot.ref) for snapshot in snapshots(store)]
    assert sum(taken) <= 2 * sum(len(row.data) for row in store.read(str(A))) + taken[0]


BOXED: dict[str, Any] = {}


def hoarding_reducer(state: Any, event: Any, context: ReducerContext) -> Step:
    """Keeps all in a field that is no chunked list."""
    items = list(state["box"]["items"]) if state is not None else []
    return Step(set={"n": len(items), "box": {"items": [*items, *range(50)]}})


async def test_the_code_of_what_lies_before_a_snapshot_is_not_needed_to_go_on() -> None:
    store = MemoryStore("world_1")
    await send_pokes(store, 3)
    changed = small_manifest(reduce=lambda _s, _e, _c: Step(set={"n": 100}), source=b"2")
    async with running_host(store, changed, []) as host:
        await host.submit("ex/Ev@1", poke_event("x"))
        cell = host.state(A).cell
        assert cell is not None
        assert (cell["n"], list(cell["log"])) == (100, ["p0", "p1", "p2"])
    with pytest.raises(Divergence, match="can't be checked"):
        list(Host(store, changed, []).replay())


# -- what is wrong with them ------------------------------------------------------------------------------------------


def spoil_newest(store: MemoryStore) -> None:
    store._blobs[snapshots(store)[0].ref] = b"spoiled"


def lose_newest(store: MemoryStore) -> None:
    del store._blobs[snapshots(store)[0].ref]


def lose_all(store: MemoryStore) -> None:
    for snapshot in snapshots(store):
        del store._blobs[snapshot.ref]


def point_elsewhere(store: MemoryStore) -> None:
    newest = snapshots(store)[0]
    store.put_snapshot(replace(newest, hash=b"?" * 32))


def point_beyond(store: MemoryStore) -> None:
    newest = snapshots(store)[0]
    store.put_snapshot(replace(newest, unit_seq=newest.unit_seq + 100))


def show_an_older_one(store: MemoryStore) -> None:
    newest, older, *_ = snapshots(store)
    store.put_snapshot(replace(newest, ref=older.ref))


def no_snapshot_at_all(store: MemoryStore) -> None:
    store.put_snapshot(replace(snapshots(store)[0], ref=store.put_blob(cbor.encode({"format": 1}))))


def no_ref_at_all(store: MemoryStore) -> None:
    store.put_snapshot(replace(snapshots(store)[0], ref=Ref("sha256:xyz")))


WRONG: list[Callable[[MemoryStore], None]] = [
    spoil_newest,
    lose_newest,
    lose_all,
    point_elsewhere,
    point_beyond,
    show_an_older_one,
    no_snapshot_at_all,
    no_ref_at_all,
]


class Spoilable(MemoryStore):
    """A store whose blobs may be damaged, which those of a memory store can't be."""

    def get_blob(self, ref: Ref) -> bytes:
        data = super().get_blob(ref)
        if ref_of(data) != ref:
            raise Damaged(f"Blob {ref} is damaged.")
        return data


@pytest.mark.parametrize("spoil", WRONG, ids=lambda spoil: spoil.__name__)
async def test_a_snapshot_that_is_wrong_is_passed_over_and_told(spoil: Callable[[MemoryStore], None]) -> None:
    store = Spoilable("world_1")
    await send_pokes(store, 8)
    good = plain_data(Host(store, small_manifest(), []).state(A))
    spoil(store)
    host = Host(store, small_manifest(), [])
    assert plain_data(host.state(A)) == good
    assert "is skipped" in host.notices[0]
    assert not verify(store).ok
    with pytest.raises(DemiurgeError):
        list(Host(store, small_manifest(), []).replay())


async def test_a_snapshot_with_another_state_is_found_by_replay() -> None:
    store = MemoryStore("world_1")
    await send_pokes(store, 3)
    newest = snapshots(store)[0]
    node = cbor.decode(store.get_blob(newest.ref))
    node["cell"] = [[name, kind, 7 if name == "n" else value] for name, kind, value in node["cell"]]
    store.put_snapshot(replace(newest, ref=store.put_blob(cbor.encode(node))))
    with pytest.raises(Divergence, match=rf"the snapshot of ex/Room@1/a after record {newest.unit_seq} is not what"):
        list(Host(store, small_manifest(), []).replay())
    async with running_host(store, small_manifest(), [], tail_bytes=1 << 40) as host:
        assert plain_data(host.state(A).cell)["n"] == 7
        await host.submit("ex/Ev@1", poke_event("x"))
    with pytest.raises(Divergence):
        list(Host(store, small_manifest(), []).replay())


@pytest.mark.parametrize("damage", ["lost", "spoiled"])
async def test_a_list_that_is_damaged_is_computed_again_and_put_back(damage: str) -> None:
    store = Spoilable("world_1")
    await send_pokes(store, 600)
    good = plain_data(Host(store, small_manifest(), []).state(A))
    roots = [root for _, is_list, root in cbor.decode(store.get_blob(snapshots(store)[0].ref))["cell"] if is_list]
    assert roots[0]["top"] is not None
    for ref in (roots[0]["top"], roots[0]["tail"]):
        if damage == "lost":
            del store._blobs[ref]
        else:
            store._blobs[ref] = b"spoiled"
    assert "after record" in (verify(store).problem or "")
    async with running_host(store, small_manifest(), []) as host:
        await host.submit("ex/Ev@1", poke_event("and on"))
        cell = host.state(A).cell
        assert cell is not None
        assert plain_data(cell["log"]) == [*good["cell"]["log"], "and on"]
        assert "is computed again" in host.notices[0]
    assert verify(store).ok
    list(Host(store, small_manifest(), []).replay())


async def test_a_disk_that_fails_under_a_list_is_no_failure_of_the_reducer() -> None:
    """Else a step would be recorded that replay could not compute."""

    def looking(state: Any, event: Any, context: ReducerContext) -> Step:
        try:
            seen = len([line for line in state["log"] if line]) if state is not None else 0
        except Exception:  # noqa: BLE001 - what a reducer may well do
            seen = -1
        return Step(set={"n": seen}, append={"log": [event["$value"]["what"]]})

    class Failing(MemoryStore):
        broken = False

        def get_blob(self, ref: Ref) -> bytes:
            if self.broken:
                raise Unavailable("The disk failed.")
            return super().get_blob(ref)

    store, manifest = Failing("world_1"), small_manifest(reduce=looking)
    async with running_host(store, manifest, [], tail_bytes=1) as host:
        for number in range(41):
            await host.submit("ex/Ev@1", poke_event(f"p{number}"))
    async with running_host(store, manifest, []) as host:
        assert snapshots(store)[0].hash == host.state(A).head, "so no list was looked at yet"
        before = host.state(A).seq
        store.broken = True
        with pytest.raises(Unavailable):
            await host.submit("ex/Ev@1", poke_event("x"))
        store.broken = False
        assert host.state(A).seq == before
        await host.submit("ex/Ev@1", poke_event("y"))
        assert plain_data(host.state(A).cell)["n"] == 41
    list(Host(store, manifest, []).replay())


async def test_a_write_that_fails_leaves_no_snapshot_that_lacks_its_lists(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        async with running_host(store, small_manifest(), [], tail_bytes=1) as host:
            for number in range(40):
                await host.submit("ex/Ev@1", poke_event(f"p{number}"))
            with faults.armed({"journal.before_commit": "enospc"}), pytest.raises(Unavailable):
                await host.submit("ex/Ev@1", poke_event("x"))
            await host.read_cell(A)
            for number in range(40):
                await host.submit("ex/Ev@1", poke_event(f"q{number}"))
        assert verify(store).ok
        reader = Host(store, small_manifest(), [])
        assert len(plain_data(reader.state(A).cell)["log"]) == 80
        assert reader.notices == []


def test_a_row_of_the_table_that_is_damaged_costs_only_time(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        asyncio.run(send_pokes(store, 5))
        good = plain_data(recompute_state(store))
    db = sqlite3.connect(tmp_path / "w" / "journal.db")
    with db:
        db.execute("UPDATE snapshot SET ref = 'nonsense', hash = x'00'")
    db.close()
    with SqliteStore.open(tmp_path / "w") as store:
        host = Host(store, small_manifest(), [])
        assert plain_data(host.state(A)) == good
        assert len(host.notices) == 5
        assert not verify(store).ok


# -- kill -9 ----------------------------------------------------------------------------------------------------------

POINTS = (
    "unit.advanced",
    "journal.before_rows",
    "journal.before_commit",
    "journal.after_commit",
    "unit.committed",
    "blob.before_write",
    "blob.half_written",
    "blob.before_fsync",
    "blob.before_rename",
)


@pytest.mark.sampled
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_while_a_snapshot_is_taken_leaves_a_world_that_loads(point: str, tmp_path: Path) -> None:
    took = 0
    for fault in (f"{point}=kill@4", f"{point}=kill@6", ""):
        child = subprocess.run(
            [sys.executable, "-m", "tests.world.snapshot_child", str(tmp_path / "w"), "8"],
            cwd=WORLD,
            env={**os.environ, faults.VARIABLE: fault},
            stdout=subprocess.PIPE,
            check=False,
            timeout=60,
        )
        assert child.returncode == (-signal.SIGKILL if fault else 0)
        took = max([took, *(int(line.split()[1]) for line in child.stdout.splitlines() if line.startswith(b"took"))])
        with SqliteStore.open(tmp_path / "w") as store:
            host = Host(store, small_manifest(), [])
            loaded = host.state(A)
            assert loaded.cell is not None
            assert took <= loaded.cell["n"], "what was acknowledged is there"
            assert plain_data(loaded) == plain_data(recompute_state(store))
            assert host.notices == []
            assert verify(store).ok
