"""Verify: every record's bytes, every link of every chain, and every blob that a record exposes.

It reads no schema and runs no code, so it can't be fooled by either; the first thing that is wrong is named. A *seal*
is a running digest over all records in the order they became durable: a world that only grew still holds every seal
it ever had, and one that was shortened or rewritten does not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from demiurge.errors import Damaged, DemiurgeError, NotFound
from demiurge.stores.protocol import Row, Store
from demiurge.stores.rows import verify_journal
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_from_digest
from demiurge.values.vector import Vector
from demiurge.world.record import GENESIS, Record
from demiurge.world.replay import decode_row
from demiurge.world.snapshot import read_snapshot
from demiurge.world.unit import Unit

__all__ = ["Verified", "verify"]

NESTED = re.compile(rb"sha256:[0-9a-f]{64}")
"""Blobs name other blobs by ref (a message its attachments, an answer its items); those are followed too."""


@dataclass(frozen=True, slots=True)
class Verified:
    """`seal` covers every record. `problem` names the first thing that is wrong; `sealed` is false when the seal that
    was asked for is not one that this world ever had."""

    records: int
    units: int
    blobs: int
    seal: Ref
    problem: str | None = None
    sealed: bool = True

    @property
    def ok(self) -> bool:
        return self.problem is None and self.sealed


def verify(store: Store, seal: str | None = None, progress: Callable[[int], None] = lambda _done: None) -> Verified:
    """Read the whole world once; with `seal`, one kept elsewhere, check that it is still the world it was taken of.

    `progress` is told the number of records so far.
    """
    walk = _Walk(store, seal, progress)
    units, problem = 0, None
    try:
        for damaged in store.damaged.values():
            raise damaged
        tails = verify_journal(store, walk.step)
        units = len(tails)
        for unit, tail in tails.items():
            head = store.head(unit)
            if head is None or head.next_seq < tail.next_seq:
                raise Damaged(f"Record {tail.next_seq - 1} of unit {unit} is there, but its head does not know of it.")
            walk.blobs.check_snapshots(unit)
        walk.blobs.check_rest()
    except DemiurgeError as error:
        problem = str(error)
    return Verified(walk.records, units, len(walk.blobs.good), walk.seal, problem, walk.sealed)


class _Walk:
    """What is gathered on the way: the seal so far, and whether it ever was the one that is looked for."""

    def __init__(self, store: Store, wanted: str | None, progress: Callable[[int], None]) -> None:
        self.blobs = _Blobs(store)
        self.records = 0
        self._wanted, self._progress, self._running = wanted, progress, GENESIS
        self.sealed = wanted in (None, self.seal)

    @property
    def seal(self) -> Ref:
        return ref_from_digest(self._running)

    def step(self, row: Row) -> bytes:
        """Take in the next record; the hash that it says comes before it. Raises Damaged."""
        record = decode_row(row)
        self._running = hashlib.sha256(self._running + row.hash).digest()
        self.sealed = self.sealed or self.seal == self._wanted
        self.records += 1
        self._progress(self.records)
        self.blobs.check_all(record)
        return record.prev


class _Blobs:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.good: set[Ref] = set()
        self.lists: set[Ref] = set()

    def check_all(self, record: Record) -> None:
        """Check what `record` exposes. Raises Damaged, naming the record."""
        for ref in record.refs:
            try:
                self.check(ref)
            except (Damaged, NotFound) as error:
                raise Damaged(f"record {record.unit} {record.unit_seq} ({record.kind}): {error}") from error

    def check_snapshots(self, unit: str) -> None:
        """Check that each snapshot stands on a record of the chain and has all its nodes. Raises Damaged."""
        snapshot = self.store.latest_snapshot(unit)
        while snapshot is not None:
            where = f"the snapshot of {unit} after record {snapshot.unit_seq}"
            anchor = next(self.store.read(unit, snapshot.unit_seq, 1), None)
            if anchor is None or anchor.hash != snapshot.hash:
                raise Damaged(f"{where} is of another record")
            try:
                state = read_snapshot(snapshot, self.store.world_id, Unit.parse(unit), self.store.get_blob)
                for value in (state.cell or {}).values():
                    if isinstance(value, Vector):
                        self.check_list(value.root()[0])
            except DemiurgeError as error:
                raise Damaged(f"{where}: {error}") from error
            snapshot = self.store.latest_snapshot(unit, snapshot.unit_seq)

    def check_list(self, root: Mapping[str, Any]) -> None:
        """Check the chunks of a list; those that an earlier one shares are known."""
        waiting = [(Ref(root["top"]), root["levels"]), (Ref(root["tail"]), 0)]
        while waiting:
            ref, level = waiting.pop()
            if ref is None or ref in self.lists:
                continue
            self.lists.add(ref)
            data = self.store.get_blob(ref)
            if level:
                waiting += [(ref_from_digest(child), level - 1) for child in cbor.decode(data)]

    def check(self, ref: Ref) -> None:
        waiting = [ref]
        while waiting:
            ref = waiting.pop()
            if ref in self.good:
                continue
            data = self.store.get_blob(ref)
            self.good.add(ref)
            nested = {Ref(found.decode()) for found in NESTED.findall(data)}
            waiting.extend(inner for inner in nested - self.good if self.store.has_blob(inner))

    def check_rest(self) -> None:
        """Blobs that no record names: put by somebody who never used them."""
        for ref in self.store.iter_blobs():
            self.check(ref)
