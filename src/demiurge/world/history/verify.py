"""Verify: checks every record's bytes, every link of every chain, and every blob that a record exposes.

It reads no schema and runs no code, so neither can mislead it. It names the first fault. A seal that was kept elsewhere
shows whether the journal still begins as it did then (see `seal`): a journal that only grew does, one that was
shortened, reordered or rewritten does not. An erased blob is not damage and is counted. So is a record whose archive is
away: its hash is taken on trust, and all hashes up to the archive's last record must lead to the root that was noted
when the archive was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from demiurge.errors import Damaged, DemiurgeError, InvalidValue, NotFound, UsageError
from demiurge.stores.errors import with_backup_advice
from demiurge.stores.exposures import Given, gives
from demiurge.stores.merkle import Frontier, leaf_hash
from demiurge.stores.protocol import Row, Store
from demiurge.stores.rows import verify_journal
from demiurge.stores.tiles import BITS
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_digest, ref_from_digest
from demiurge.values.vector import Vector
from demiurge.world.history.seal import Seal
from demiurge.world.record import Record, decode_row
from demiurge.world.snapshot import read_snapshot
from demiurge.world.unit import Unit

__all__ = ["Verified", "verify"]

NESTED = re.compile(rb"sha256:[0-9a-f]{64}")
"""A ref inside a blob: a message names its attachments, an answer its items. Nested blobs are checked too."""

_TILE = (1 << BITS) - 1

_AT_ONCE = 1000
"""How many entries of the index are looked up together."""


@dataclass(frozen=True, slots=True)
class Verified:
    """The outcome of a check. `seal` covers every record (the text form of a `Seal`). `problem` names the first fault;
    `sealed` is false if this world never had the wanted seal. `erased` counts the erased blobs that records name;
    `archived` counts the records in archives that are away, which were not read."""

    records: int
    units: int
    blobs: int
    seal: str
    problem: str | None = None
    sealed: bool = True
    erased: int = 0
    archived: int = 0

    @property
    def ok(self) -> bool:
        return self.problem is None and self.sealed


def verify(store: Store, seal: str | None = None, progress: Callable[[int], None] = lambda _done: None) -> Verified:
    """Reads the whole world once. With `seal`, one kept elsewhere, also checks that the world once had it. `progress`
    is called with the number of records so far. Raises UsageError if the store is closed."""
    walk = _Walk(store, seal, progress)
    units, problem = 0, None
    try:
        for damaged in store.damaged.values():
            raise damaged
        walk.expect_archives()
        tails = verify_journal(store, walk.step)
        units = len(tails)
        for unit, tail in tails.items():
            head = store.head(unit)
            if head is None or head.next_seq < tail.next_seq:
                raise Damaged(f"Record {tail.next_seq - 1} of unit {unit} exists, but the unit's head ends before it.")
            walk.blobs.check_snapshots(unit)
        walk.check_positions()
        walk.index.check()
        walk.blobs.check_rest()
    except UsageError:  # the caller's fault, not the world's
        raise
    except DemiurgeError as error:
        problem = str(error)
    blobs = walk.blobs
    gone = len(blobs.erased), walk.archived
    return Verified(walk.tree.size, units, len(blobs.good), str(walk.seal), problem, walk.sealed, *gone)


class _Walk:
    """The state of one pass: the tree of the seal so far, and whether it ever was the wanted one."""

    def __init__(self, store: Store, wanted: str | None, progress: Callable[[int], None]) -> None:
        self.blobs, self.index = _Blobs(store), _ExposureCheck(store)
        self.tree = Frontier()
        self._store, self._progress, self._last = store, progress, 0
        self.archived = 0
        self._roots: dict[int, bytes] = {}
        self._wanted: Seal | None = None
        try:
            self._wanted = Seal.parse(wanted) if wanted is not None else None
            self.sealed = wanted is None
        except InvalidValue:  # not a seal, so none that the world had
            self.sealed = False
        self._look()

    @property
    def seal(self) -> Seal:
        return Seal(self.tree.size, self.tree.root())

    def expect_archives(self) -> None:
        """Reads the roots that were noted for the archives. Raises Damaged."""
        self._roots = {segment.last: segment.root for segment in self._store.archives.segments()}

    def step(self, row: Row) -> bytes | None:
        """Takes the next record. Returns the hash that it names as its predecessor's, None if its bytes are away.
        Raises Damaged."""
        record = decode_row(row) if not row.is_away else None
        self.tree.add(leaf_hash(row.hash), self._check_tile if self.tree.size & _TILE == _TILE else None)
        self._last = row.position
        self._look()
        self._progress(self.tree.size)
        if self.tree.size in self._roots and self._roots[self.tree.size] != self.tree.root():
            raise Damaged(f"The records up to position {self.tree.size} are not those that were archived.")
        if record is None:
            self.archived += 1
            return None
        self.blobs.check_all(record)
        self.index.take(record)
        return record.prev

    def check_positions(self) -> None:
        """Checks that no record is missing in between. Raises Damaged."""
        if self._last != self.tree.size:
            raise Damaged(f"{self._last - self.tree.size} of the records up to position {self._last} are missing.")

    def _look(self) -> None:
        if self._wanted is not None and self._wanted.size == self.tree.size:
            self.sealed = self._wanted == self.seal

    def _check_tile(self, level: int, index: int, tile: bytes) -> None:
        kept = self._store.tiles(level, index, 1) if level % BITS == 0 else []
        if kept and kept[0] != tile:
            first, last = (index << level) + 1, (index + 1) << level
            raise Damaged(f"The records from position {first} to {last} are not those that were sealed before.")


class _ExposureCheck:
    """Checks that the index of blobs has every record that exposes a blob."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: list[Given] = []

    def take(self, record: Record) -> None:
        """Takes the next record. Raises Damaged."""
        if gives(record.kind, record.is_ingress):
            place = record.unit, record.unit_seq, record.position or 0
            self._found += [Given(ref_digest(ref), *place) for ref in record.refs]
            if len(self._found) >= _AT_ONCE:
                self.check()

    def check(self) -> None:
        """Checks the records taken since the last check. Raises Damaged."""
        found, self._found = self._found, []
        lacking = self._store.exposures.lacking(found)
        if lacking is not None:
            raise Damaged(
                f"The index of blobs lacks record {lacking.unit_seq} of unit {lacking.unit}, so a blob may be refused "
                "to who was given it. The records are whole: `demiurge losses accept --reason TEXT` makes the index "
                "anew."
            )


class _Blobs:
    """Checks blobs, each once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.good: set[Ref] = set()
        self.erased: set[Ref] = set()
        self.lists: set[Ref] = set()

    def check_all(self, record: Record) -> None:
        """Checks the blobs that `record` exposes. Raises Damaged, naming the record."""
        for ref in record.refs:
            try:
                self.check(ref)
            except (Damaged, NotFound) as error:
                raise Damaged(
                    f"record {record.unit} {record.unit_seq} ({record.kind}): {with_backup_advice(error)}"
                ) from error

    def check_snapshots(self, unit: str) -> None:
        """Checks that each snapshot of the unit stands on a record of the chain and has all its nodes. Raises
        Damaged."""
        snapshot = self.store.latest_snapshot(unit)
        while snapshot is not None:
            where = f"the snapshot of {unit} after record {snapshot.unit_seq}"
            anchor = next(self.store.outline(unit, snapshot.unit_seq, 1), None)
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
        """Checks the chunks of a list; chunks shared with an earlier list are not read again."""
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
        """Checks a blob and the blobs that it names. Raises Damaged, NotFound."""
        waiting = [ref]
        while waiting:
            ref = waiting.pop()
            if ref in self.good or ref in self.erased:
                continue
            try:
                data = self.store.get_blob(ref)
            except NotFound as error:
                if error.code != "erased":
                    raise
                self.erased.add(ref)
                continue
            self.good.add(ref)
            nested = {Ref(found.decode()) for found in NESTED.findall(data)}
            waiting.extend(inner for inner in nested - self.good if self.store.has_blob(inner))

    def check_rest(self) -> None:
        """Checks the blobs that no record names: somebody stored them and never used them."""
        for ref in self.store.iter_blobs():
            self.check(ref)
