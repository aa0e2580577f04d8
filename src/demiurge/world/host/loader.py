"""`Loader`: loads a unit from its newest good snapshot, and feeds the records after it to the kernel again.

A snapshot that is damaged, or that does not fit its place in the chain, is skipped for an older one, at last for the
first record, and the user is told. So loading costs as much as the tail, however long the history is, and losing a
snapshot loses no state (docs/architecture.md, rule 5).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import NamedTuple

from demiurge.errors import Damaged, DemiurgeError, Divergence, NotFound, Unavailable
from demiurge.stores.errors import Archived
from demiurge.stores.protocol import Row, Snapshot, Store
from demiurge.values.refs import Ref
from demiurge.world.history.replay import Manifests, fold
from demiurge.world.origin import newborn
from demiurge.world.snapshot import read_snapshot, snapshot_node
from demiurge.world.state import UnitState
from demiurge.world.unit import Unit

__all__ = ["Loaded", "Loader"]


class Loaded(NamedTuple):
    """A unit's state as of its last record. `tail` is the size in bytes of the records after its snapshot; it is the
    largest possible number if kept code had to compute them, so that the next step takes a snapshot. `snapshot_bytes`
    is the size of that snapshot, 0 without one."""

    state: UnitState
    tail: int
    snapshot_bytes: int = 0


class Loader:
    """Loads the units of one store. `notices` takes sentences for the user; `get` reads blobs in place of the store."""

    def __init__(
        self, store: Store, manifests: Manifests, notices: list[str], get: Callable[[Ref], bytes] | None = None
    ) -> None:
        self._store, self._manifests, self._notices = store, manifests, notices
        self._get = get or store.get_blob
        self.lost: list[DemiurgeError] = []
        """Errors of lists that could not be read when used. The caller of a step checks it (`advance_with_blobs`)."""

    def load(self, unit: Unit, length: int | None = None) -> Loaded:
        """Returns the unit as it is, or as it was when it had `length` records.

        Raises Damaged, Divergence or NotFound if the journal itself, or a blob that a step reads, is at fault; its code
        is `erased` if that blob was erased, after the last good snapshot.
        """
        skipped: DemiurgeError | None = None
        for snapshot in self.snapshots(unit, length):
            try:
                return self._from(unit, snapshot, length)
            except (Damaged, Divergence, NotFound) as problem:
                if problem.code == "erased":  # older snapshots come before that step too
                    raise (skipped or problem) from None
                skipped = skipped or problem
                place = f"the snapshot of {unit} after record {snapshot.unit_seq}"
                self._notices.append(f"{place} is skipped: {problem}")
        try:
            return self._folded(newborn(self._store, unit), self._store.read(str(unit), 0, length))
        except NotFound as problem:
            raise (skipped if skipped is not None and problem.code == "erased" else problem) from None

    def snapshots(self, unit: Unit, before: int | None = None) -> Iterator[Snapshot]:
        """Yields the unit's snapshots, newest first; with `before`, only those after records with a lower number."""
        found = self._store.latest_snapshot(str(unit), before)
        while found is not None:
            yield found
            found = self._store.latest_snapshot(str(unit), found.unit_seq)

    def replay(self, unit: Unit, unchecked: Counter[Unit] | None = None) -> Iterator[UnitState]:
        """Computes the unit from its first record, and compares every snapshot. Yields its state after each ingress.

        A step that needs an erased blob cannot be computed, nor can the steps after it up to the next snapshot; their
        records are counted in `unchecked`. Raises Divergence, Damaged.
        """
        kept = {snapshot.unit_seq + 1: snapshot for snapshot in self.snapshots(unit)}
        state = newborn(self._store, unit)
        while (number := (yield from self._checked(state, kept))) is not None:
            head = self._store.head(str(unit))
            later = [found for found in kept if found > number]
            end = min(later) if later else head.next_seq if head is not None else number
            if unchecked is not None:
                unchecked[unit] += end - number
            if not later:
                break
            snapshot = kept.pop(end)
            get = self._chunks(unit, snapshot)
            state = read_snapshot(snapshot, self._store.world_id, unit, get, self.lost.append)
            yield state
        for snapshot in kept.values():
            raise Divergence(
                f"the snapshot of {unit} after record {snapshot.unit_seq} belongs to no moment of its history"
            )

    def _checked(self, state: UnitState, kept: dict[int, Snapshot]) -> Generator[UnitState, None, int | None]:
        """Yields the states after `state`, and removes their snapshots from `kept`. Returns the number of records
        before the step that an erased blob keeps from being computed; None at the end."""
        number = state.seq
        rows = self._store.read(str(state.unit), number)
        try:
            for later in fold(state, rows, self._manifests, self._get, self.lost):
                number = later.seq
                snapshot = kept.pop(number, None)
                if snapshot is not None:
                    self._compare(later, snapshot)
                yield later
        except NotFound as gone:
            if gone.code != "erased":
                raise
            return number
        return None

    def _compare(self, state: UnitState, snapshot: Snapshot) -> None:
        if snapshot.hash != state.head or self._get(snapshot.ref) != snapshot_node(state)[0]:
            where = f"the snapshot of {state.unit} after record {snapshot.unit_seq}"
            raise Divergence(f"{where} is not what replay computes")

    def _from(self, unit: Unit, snapshot: Snapshot, length: int | None) -> Loaded:
        anchor = self._anchor(unit, snapshot.unit_seq)
        if anchor is None or anchor.hash != snapshot.hash:
            raise Damaged("another record is at that place")
        get = self._chunks(unit, snapshot)
        state = read_snapshot(snapshot, self._store.world_id, unit, get, self.lost.append)
        limit = None if length is None else length - snapshot.unit_seq - 1
        loaded = self._folded(state, self._store.read(str(unit), snapshot.unit_seq + 1, limit))
        return loaded._replace(snapshot_bytes=self._store.blob_size(snapshot.ref))

    def _anchor(self, unit: Unit, seq: int) -> Row | None:
        """Returns the record that a snapshot follows; if its archive is away, its outline without the bytes."""
        try:
            return next(self._store.read(str(unit), seq, 1), None)
        except Archived:
            return next(self._store.outline(str(unit), seq, 1), None)

    def _folded(self, state: UnitState, rows: Iterator[Row]) -> Loaded:
        tail = 0

        def weighed() -> Iterator[Row]:
            nonlocal tail
            for row in rows:
                tail += len(row.data)
                yield row

        try:
            for later in fold(state, weighed(), self._manifests, self._get, self.lost):
                state = later
                if self._manifests.needed and state.manifest in self._manifests.needed:
                    tail = sys.maxsize
        except NotFound as gone:
            if gone.code != "erased":
                raise
            where = f"after record {state.seq - 1}" if state.seq else "from its first record on"
            raise NotFound(f"The state of {state.unit} {where} can't be known: {gone}", code="erased") from gone
        return Loaded(state, tail)

    def _chunks(self, unit: Unit, snapshot: Snapshot) -> Callable[[Ref], bytes]:
        """Returns a reader of a snapshot's nodes. A list's node that is damaged or lost is computed again, and stored
        again."""

        def get(ref: Ref) -> bytes:
            try:
                return self._get(ref)
            except (Damaged, NotFound) as problem:
                if ref == snapshot.ref:
                    raise
                self._notices.append(f"a list of {unit} is computed again: {problem}")
                chunks = self._recomputed(unit, snapshot)
                if ref not in chunks:
                    raise
                with suppress(Unavailable):
                    self._store.put_blobs(list(chunks.values()))
                return chunks[ref]

        return get

    def _recomputed(self, unit: Unit, snapshot: Snapshot) -> dict[Ref, bytes]:
        state = newborn(self._store, unit)
        rows = self._store.read(str(unit), 0, snapshot.unit_seq + 1)
        for later in fold(state, rows, self._manifests, self._get):
            state = later
        return snapshot_node(state)[1]
