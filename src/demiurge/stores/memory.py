"""A store in dicts, for tests and notebooks: the same rules as on disk, but gone with the process.

Invariant: an append prepares all changes and applies them at the end, so a refused append leaves no trace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from demiurge.errors import InvalidValue, NotFound, UsageError
from demiurge.stores import rows
from demiurge.stores.errors import DamagedRow
from demiurge.stores.exposures import Given, given_by
from demiurge.stores.gc_barrier import GcBarrier
from demiurge.stores.listeners import Listeners
from demiurge.stores.protocol import Attempt, Batch, BlobInfo, Head, Outgoing, Row, Segment, Snapshot
from demiurge.stores.read_only import ReadOnly
from demiurge.values.clock import Clock, SystemClock
from demiurge.values.fast_constructor import fast_constructor
from demiurge.values.refs import Ref, parse_ref, ref_digest, ref_from_digest, ref_of

__all__ = ["MemoryStore"]

_Row = fast_constructor(Row)
_NO_DAMAGE: Mapping[str, DamagedRow] = MappingProxyType({})


@dataclass(slots=True)
class _Unit:
    rows: list[Row] = field(default_factory=list)
    open: bool = False
    ingress: dict[str, int] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)


class _Change:
    """One append in preparation: the changed units, the new outbox and the new waiting list."""

    def __init__(
        self, units: Mapping[str, _Unit], outbox: Mapping[str, Outgoing], waiting: Mapping[bytes, str]
    ) -> None:
        self._units = units
        self.added: dict[str, _Unit] = {}
        self.outbox = dict(outbox)
        self.waiting = dict(waiting)
        self.rows: list[Row] = []

    def apply(self, batch: Batch, position: int) -> list[int]:
        old = self._units.get(batch.unit) or _Unit()
        new = self.added.get(batch.unit) or _Unit(open=old.open)
        next_seq = len(old.rows) + len(new.rows)
        if batch.expected_seq != next_seq:
            raise rows.stale(batch, next_seq)
        for at, row in enumerate(batch.rows, position):
            if row.ingress_id is not None:
                if row.ingress_id in old.ingress or row.ingress_id in new.ingress:
                    raise rows.duplicate_ingress(batch)
                new.ingress[row.ingress_id] = row.unit_seq
            stored = _Row(row.unit, row.unit_seq, row.kind, row.hash, row.data, row.ingress_id, at)
            new.rows.append(stored)
            self.rows.append(stored)
        for message in batch.outbox:
            if message.id in self.outbox:
                raise rows.duplicate_message(batch, message.id)
            self.outbox[message.id] = message
        for message_id in batch.delivered:
            self.outbox.pop(message_id, None)
        if batch.waiting is not None:
            for intent in [intent for intent, unit in self.waiting.items() if unit == batch.unit]:
                del self.waiting[intent]
            self.waiting.update(dict.fromkeys(batch.waiting, batch.unit))
        new.open = batch.open
        if batch.snapshot is not None:
            new.snapshots[batch.snapshot.unit_seq] = batch.snapshot
        if batch.rows or old.rows or new.rows:
            self.added[batch.unit] = new
        return list(range(position, position + len(batch.rows)))


class MemoryStore:
    """A `demiurge.stores.protocol.Store` in memory."""

    format = 4

    def __init__(self, world_id: str, clock: Clock | None = None) -> None:
        self.world_id = world_id
        self.archives = _NoArchives()
        self.waiting, self.exposures = _MemoryWaitingList(self), _MemoryExposures(self)
        self._listeners = Listeners()
        self._clock: Clock = clock or SystemClock()
        self._units: dict[str, _Unit] = {}
        self._rows: list[Row] = []
        self._outbox: dict[str, Outgoing] = {}
        self._waiting: dict[bytes, str] = {}
        self._exposures: dict[bytes, dict[str, list[int]]] = {}
        self._approvals: dict[str, tuple[str, int]] = {}
        self._attempts: dict[bytes, Attempt] = {}
        self._blobs: dict[Ref, bytes] = {}
        self._put_s: dict[Ref, int] = {}
        self._erased: set[Ref] = set()
        self._tiles: dict[int, list[bytes]] = {}
        self._gc_barrier = GcBarrier()
        self._meta = {"world_id": world_id}
        self._lock = threading.RLock()
        self._closed = False

    @property
    def damaged(self) -> Mapping[str, DamagedRow]:
        return _NO_DAMAGE

    lost: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    read_only: ReadOnly | None = None

    def accept_losses(self) -> None:
        """Does nothing: a store in memory loses nothing."""

    # journal

    def append(
        self, batches: Sequence[Batch], *, blobs: Sequence[bytes] = (), attempts: Sequence[Attempt] = ()
    ) -> list[list[int]]:
        rows.check_batches(batches)
        with self._gc_barrier.writing(batches, blobs), self._using():
            change = _Change(self._units, self._outbox, self._waiting)
            first = len(self._rows) + 1
            positions = [change.apply(batch, first + len(change.rows)) for batch in batches]
            if blobs:
                self.put_blobs(blobs)
            for name, added in change.added.items():
                unit = self._units.get(name) or self._units.setdefault(name, _Unit())
                unit.rows.extend(added.rows)
                unit.ingress.update(added.ingress)
                unit.snapshots.update(added.snapshots)
                unit.open = added.open
            self._rows.extend(change.rows)
            self._outbox, self._waiting = change.outbox, change.waiting
            for row in change.rows:
                for digest in given_by(row):
                    self._exposures.setdefault(digest, {}).setdefault(row.unit, []).append(row.unit_seq)
                if row.kind == "approval" and row.ingress_id is not None:
                    self._approvals[row.ingress_id] = row.unit, row.unit_seq
            for attempt in attempts:
                self._attempts.setdefault(attempt.intent, attempt)
        if change.rows:
            self._listeners.call()
        return positions

    def head(self, unit: str) -> Head | None:
        with self._using():
            found = self._units.get(unit)
            if found is None:
                return None
            last = found.rows[-1]
            return Head(unit, len(found.rows), last.hash, found.open, last.position)

    def heads(self, prefix: str | None = None, open_only: bool = False) -> Iterator[Head]:
        with self._using():
            names = sorted(name for name in self._units if name.startswith(prefix or ""))
        for name in names:
            head = self.head(name)
            if head is not None and (head.open or not open_only):
                yield head

    def read(self, unit: str, from_seq: int = 0, limit: int | None = None) -> Iterator[Row]:
        with self._using():
            found = self._units.get(unit)
        yield from islice(found.rows if found else (), from_seq, None if limit is None else from_seq + limit)

    def outline(self, unit: str, from_seq: int = 0, limit: int | None = None) -> Iterator[Row]:
        return (replace(row, data=b"") for row in MemoryStore.read(self, unit, from_seq, limit))

    def read_all(self, from_position: int = 0, limit: int | None = None, *, away: bool = False) -> Iterator[Row]:
        with self._using():
            start = max(from_position - 1, 0)
        yield from islice(self._rows, start, None if limit is None else start + limit)

    def find_ingress(self, unit: str, ingress_id: str) -> int | None:
        with self._using():
            found = self._units.get(unit)
            return found.ingress.get(ingress_id) if found else None

    def find_approval(self, ingress_id: str) -> tuple[str, int] | None:
        with self._using():
            return self._approvals.get(ingress_id)

    def attempts(self, intents: Collection[bytes]) -> dict[bytes, Attempt]:
        with self._using():
            return {intent: self._attempts[intent] for intent in intents if intent in self._attempts}

    def outbox(self, source: str | None = None) -> list[Outgoing]:
        with self._using():
            return [message for message in self._outbox.values() if source in (None, message.source)]

    def listen(self, appended: Callable[[], None]) -> Callable[[], None]:
        return self._listeners.add(appended)

    def put_snapshot(self, snapshot: Snapshot) -> None:
        with self._gc_barrier.writing(text=snapshot.ref), self._using():
            unit = self._units.get(snapshot.unit)
            if unit is None:
                raise NotFound(f"There is no unit {snapshot.unit} to take a snapshot of.")
            unit.snapshots[snapshot.unit_seq] = snapshot

    def latest_snapshot(self, unit: str, before: int | None = None) -> Snapshot | None:
        with self._using():
            found = self._units.get(unit)
            numbers = [seq for seq in found.snapshots if before is None or seq < before] if found else []
            return found.snapshots[max(numbers)] if found and numbers else None

    def drop_snapshots(self, snapshots: Sequence[Snapshot]) -> None:
        with self._using():
            for snapshot in snapshots:
                self._units[snapshot.unit].snapshots.pop(snapshot.unit_seq, None)

    def length(self) -> int:
        with self._using():
            return len(self._rows)

    def record_hashes(self, from_position: int, limit: int) -> list[bytes]:
        return [row.hash for row in self.read_all(from_position, limit)]

    def tiles(self, level: int, first: int, limit: int) -> list[bytes]:
        with self._using():
            return self._tiles.get(level, [])[first : first + limit]

    def keep_tiles(self, level: int, first: int, tiles: Sequence[bytes]) -> None:
        with self._using():
            self._tiles.setdefault(level, [])[first:] = tiles

    # blobs

    def put_blob(self, data: bytes) -> Ref:
        return self.put_blobs([data])[0]

    def put_blobs(self, blobs: Sequence[bytes]) -> list[Ref]:
        refs = [ref_of(data) for data in blobs]
        with self._gc_barrier.writing(blobs=blobs), self._using():
            self._blobs.update(zip(refs, map(bytes, blobs), strict=True))
            self._put_s.update(dict.fromkeys(refs, self._clock.now_ns() // 10**9))
        return refs

    def get_blob(self, ref: Ref) -> bytes:
        self._gc_barrier.touch(ref_digest(parse_ref(ref)))
        with self._using():
            if ref in self._blobs:
                return self._blobs[ref]
            if ref in self._erased:
                raise NotFound(f"Blob {ref} was erased: its bytes are gone for good.", code="erased")
            raise NotFound(f"There is no blob {ref} in this world.")

    def has_blob(self, ref: Ref) -> bool:
        self._gc_barrier.touch(ref_digest(parse_ref(ref)))
        with self._using():
            return ref in self._blobs

    def blob_size(self, ref: Ref) -> int:
        return len(self.get_blob(ref))

    def iter_blobs(self) -> Iterator[Ref]:
        with self._using():
            refs = list(self._blobs)
        yield from refs

    def list_blobs(self) -> Iterator[BlobInfo]:
        with self._using():
            blobs = [BlobInfo(ref_digest(ref), len(data), self._put_s[ref]) for ref, data in self._blobs.items()]
        yield from blobs

    @contextmanager
    def collecting(self) -> Iterator[_Collecting]:
        with self._gc_barrier.collecting():
            yield _Collecting(self._blobs, self._gc_barrier)

    def erasures(self) -> Iterator[Ref]:
        with self._using():
            refs = sorted(self._erased)
        yield from refs

    def erase(self, refs: Sequence[Ref], batches: Sequence[Batch] = ()) -> None:
        with self._using():
            self.append(batches)
            for ref in map(parse_ref, refs):
                self._erased.add(ref)
                self._blobs.pop(ref, None)

    # the world

    def get_meta(self, key: str) -> str | None:
        with self._using():
            return self._meta.get(key)

    def set_meta(self, key: str, value: str) -> None:
        if key == "world_id":
            raise UsageError("A world keeps its id: make a fork to get another.")
        with self._gc_barrier.writing(text=value), self._using():
            self._meta[key] = value

    def close(self) -> None:
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _using(self) -> threading.RLock:
        if self._closed:
            raise UsageError("This world is closed: open it again.")
        return self._lock


@dataclass(frozen=True, slots=True)
class _Collecting:
    """A `protocol.GarbageCollection` in memory."""

    blobs: dict[Ref, bytes]
    barrier: GcBarrier

    def read(self, digest: bytes) -> bytes | None:
        return self.blobs.get(ref_from_digest(digest))

    def remove(self, choose: Callable[[set[bytes]], Sequence[BlobInfo]]) -> None:
        with self.barrier.lock:
            for blobs in choose(self.barrier.take()):
                self.blobs.pop(ref_from_digest(blobs.digest), None)


class _MemoryWaitingList:
    """A `protocol.WaitingList` in memory, which cannot be damaged."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def read(self) -> Mapping[bytes, str]:
        with self._store._using():
            return dict(self._store._waiting)

    def find(self, intent: bytes) -> str | None:
        with self._store._using():
            return self._store._waiting.get(intent)

    def replace(self, found: Mapping[bytes, str], length: int) -> bool:
        with self._store._using():
            if length == len(self._store._rows):
                self._store._waiting = dict(found)
            return length == len(self._store._rows)


class _MemoryExposures:
    """An `exposures.Exposures` in memory, which cannot be damaged."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def find(self, digest: bytes, unit: str | None = None) -> Iterator[tuple[str, int]]:
        with self._store._using():
            found = self._store._exposures.get(digest, {})
            places = {name: list(found[name]) for name in found if unit in (None, name)}
        for name, numbers in places.items():
            yield from ((name, seq) for seq in reversed(numbers))

    def indexed_from(self) -> int:
        return 1

    def lacking(self, found: Sequence[Given]) -> Given | None:
        return None


class _NoArchives:
    """A `protocol.Archives` without archives: a store in memory has no files."""

    def segments(self) -> list[Segment]:
        return []

    def move(self, last: int) -> Generator[Segment, None, None]:
        raise UsageError("A world in memory has no archives.", code="no_folder")

    @contextmanager
    def reading_from(self, paths: Sequence[Path]) -> Iterator[None]:
        if paths:
            raise InvalidValue(f"{paths[0]} is no archive of this world.", code="not_an_archive")
        yield
