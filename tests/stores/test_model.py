"""Any calls, on every store, against a model too simple to be wrong; SQLite is also closed and reopened."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from demiurge.errors import NotFound
from demiurge.stores import (
    GENESIS,
    Attempt,
    Batch,
    MemoryStore,
    Outgoing,
    Row,
    Snapshot,
    SqliteStore,
    Store,
    UnitConflict,
    verify_journal,
)
from demiurge.values.refs import Ref, ref_of

UNITS = st.sampled_from(["a", "a/b", "c"])
INGRESS = st.none() | st.sampled_from([f"in-{number}" for number in range(12)])
WAITING = st.none() | st.sets(st.integers(0, 3), max_size=3)
BLOBS = st.binary(max_size=40) | st.sampled_from([16_384, 16_385, 70_000]).map(bytes)


class Model(RuleBasedStateMachine):
    make: Callable[[Path], Store]
    reopen: Callable[[Store, Path], Store]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = type(self).make(self.folder / "world")
        self.rows: list[Row] = []
        self.open: dict[str, bool] = {}
        self.outbox: dict[str, Outgoing] = {}
        self.waiting: dict[bytes, str] = {}
        self.attempts: dict[bytes, Attempt] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.blobs: dict[Ref, bytes] = {}
        self.meta: str | None = None
        self.sent = 0

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    def unit(self, name: str) -> list[Row]:
        return [row for row in self.rows if row.unit == name]

    @rule(
        plans=st.lists(
            st.tuples(UNITS, st.lists(INGRESS, max_size=3), st.booleans(), st.integers(0, 2), WAITING),
            min_size=1,
            max_size=3,
        ),
        off=st.sampled_from([0] * 8 + [1, -1]),
        blobs=st.lists(BLOBS, max_size=2),
    )
    def append(
        self, plans: list[tuple[str, list[str | None], bool, int, set[int] | None]], off: int, blobs: list[bytes]
    ) -> None:
        rows, is_open, outbox, waits = list(self.rows), dict(self.open), dict(self.outbox), dict(self.waiting)
        batches, conflict, sent = [], False, self.sent
        for name, ingress_ids, opens, messages, numbers in plans:
            mine = [row for row in rows if row.unit == name]
            start, prev, new = len(mine) + off, mine[-1].hash if mine else GENESIS, []
            for seq, ingress_id in enumerate(ingress_ids, start):
                data = prev + f"{name} {seq} {ingress_id}".encode()
                prev = sha256(data).digest()
                new.append(Row(name, seq, "event", prev, data, ingress_id))
            sends = tuple(Outgoing(f"m{sent + n}", name, "c", prev) for n in range(messages))
            sent += messages
            takes = tuple(outbox)[:messages]
            intents = tuple(f"{name} {number}".encode() for number in numbers) if numbers is not None else None
            batches.append(Batch(name, start, tuple(new), opens, sends, takes, waiting=intents))
            if intents is not None:
                waits = {intent: unit for intent, unit in waits.items() if unit != name}
                waits |= dict.fromkeys(intents, name)
            taken = [row.ingress_id for row in mine + new if row.ingress_id is not None]
            conflict = conflict or off != 0 or len(taken) != len(set(taken))
            rows += new
            if new or mine:
                is_open[name] = opens
            outbox = {key: value for key, value in outbox.items() if key not in takes}
            outbox.update((message.id, message) for message in sends)
        if conflict:
            with pytest.raises(UnitConflict):
                self.store.append(batches)
            return
        positions = self.store.append(batches, blobs=blobs)
        assert [len(those) for those in positions] == [len(batch.rows) for batch in batches]
        self.rows, self.open, self.outbox, self.waiting, self.sent = rows, is_open, outbox, waits, sent
        self.blobs.update((ref_of(data), data) for data in blobs)

    @rule(blobs=st.lists(BLOBS, max_size=3))
    def put_blobs(self, blobs: list[bytes]) -> None:
        refs = self.store.put_blobs(blobs)
        self.blobs.update(zip(refs, blobs, strict=True))

    @rule(intent=st.sampled_from([b"1", b"2", b"3"]), token=st.sampled_from(["x", "y"]))
    def attempt(self, intent: bytes, token: str) -> None:
        attempt = Attempt(intent, "a", token, 1)
        self.store.append([], attempts=[attempt])
        self.attempts.setdefault(intent, attempt)

    @rule(name=UNITS, data=BLOBS)
    def snapshot(self, name: str, data: bytes) -> None:
        rows = self.unit(name)
        if not rows:
            with pytest.raises(NotFound):
                self.store.put_snapshot(Snapshot(name, 0, GENESIS, ref_of(data)))
            return
        snapshot = Snapshot(name, rows[-1].unit_seq, rows[-1].hash, ref_of(data))
        self.store.put_snapshot(snapshot)
        self.snapshots[name] = snapshot

    @rule(value=st.text(st.characters(exclude_categories=["Cs"]), max_size=5))
    def set_meta(self, value: str) -> None:
        self.store.set_meta("key", value)
        self.meta = value

    @rule()
    def close_and_open(self) -> None:
        self.store = type(self).reopen(self.store, self.folder / "world")

    @invariant()
    def agree(self) -> None:
        found = list(self.store.read_all())
        assert [(r.unit, r.unit_seq, r.data, r.ingress_id) for r in found] == [
            (r.unit, r.unit_seq, r.data, r.ingress_id) for r in self.rows
        ]
        tails = verify_journal(self.store, lambda row: row.data[:32])
        heads = {head.unit: head for head in self.store.heads()}
        assert {name: head.open for name, head in heads.items()} == self.open
        assert {name: tail.hash for name, tail in tails.items()} == {n: h.hash for n, h in heads.items()}
        for name in self.open:
            assert list(self.store.read(name)) == [row for row in found if row.unit == name]
            assert self.store.latest_snapshot(name) == self.snapshots.get(name)
        for row in self.rows[-3:]:
            if row.ingress_id is not None:
                assert self.store.find_ingress(row.unit, row.ingress_id) == row.unit_seq
        assert self.store.outbox() == list(self.outbox.values())
        for name in self.open:
            assert self.store.outbox(name) == [message for message in self.outbox.values() if message.source == name]
        assert self.store.waiting.read() == self.waiting
        assert self.store.attempts([b"1", b"2", b"3"]) == self.attempts
        assert self.store.get_meta("key") == self.meta

    @rule()
    def hold_the_blobs(self) -> None:
        held = set(self.store.iter_blobs())
        assert held >= set(self.blobs)
        for ref in held:
            assert self.store.get_blob(ref) == self.blobs.get(ref, self.store.get_blob(ref))


class MemoryModel(Model):
    make = staticmethod(lambda folder: MemoryStore("world_1"))
    reopen = staticmethod(lambda store, folder: store)


def _open_again(store: Store, folder: Path) -> Store:
    store.close()
    assert not (folder / "journal.db-wal").exists()
    return SqliteStore.open(folder)


class SqliteModel(Model):
    make = staticmethod(lambda folder: SqliteStore.create(folder, "world_1"))
    reopen = staticmethod(_open_again)


@pytest.mark.parametrize("machine", [MemoryModel, SqliteModel])
def test_every_store_agrees_with_the_model(machine: type[Model]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=20,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
