"""A store on dicts, for tests and notebooks: the same rules as on disk, and gone with the process.

Invariant: an append prepares all it changes and puts it in place in the end: a refused one leaves no trace.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType, TracebackType
from typing import Self

from demiurge.errors import NotFound, UsageError
from demiurge.stores import rows
from demiurge.stores.errors import DamagedRow
from demiurge.stores.protocol import Attempt, Batch, Head, Outgoing, Row, Snapshot
from demiurge.values.draft import draft_of
from demiurge.values.refs import Ref, parse_ref, ref_of

__all__ = ["MemoryStore"]

_Row = draft_of(Row)
_NO_DAMAGE: Mapping[str, DamagedRow] = MappingProxyType({})


@dataclass(slots=True)
class _Unit:
    rows: list[Row] = field(default_factory=list)
    open: bool = False
    ingress: dict[str, int] = field(default_factory=dict)
    snapshots: dict[int, Snapshot] = field(default_factory=dict)


class _Change:
    """One append in the making: what it will add to the units it touches, and the outbox as it will be."""

    def __init__(self, units: Mapping[str, _Unit], outbox: Mapping[str, Outgoing]) -> None:
        self._units = units
        self.added: dict[str, _Unit] = {}
        self.outbox = dict(outbox)
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
        new.open = batch.open
        if batch.snapshot is not None:
            new.snapshots[batch.snapshot.unit_seq] = batch.snapshot
        if batch.rows or old.rows or new.rows:
            self.added[batch.unit] = new
        return list(range(position, position + len(batch.rows)))


class MemoryStore:
    """`MemoryStore(world_id)`. See `demiurge.stores.protocol.Store`."""

    format = 1

    def __init__(self, world_id: str) -> None:
        self.world_id = world_id
        self._units: dict[str, _Unit] = {}
        self._rows: list[Row] = []
        self._outbox: dict[str, Outgoing] = {}
        self._attempts: dict[bytes, Attempt] = {}
        self._blobs: dict[Ref, bytes] = {}
        self._meta = {"world_id": world_id}
        self._lock = threading.RLock()
        self._closed = False

    @property
    def damaged(self) -> Mapping[str, DamagedRow]:
        return _NO_DAMAGE

    # journal

    def append(self, batches: Sequence[Batch], *, blobs: Sequence[bytes] = ()) -> list[list[int]]:
        rows.check_batches(batches)
        with self._using():
            change = _Change(self._units, self._outbox)
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
            self._outbox = change.outbox
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

    def read_all(self, from_position: int = 0, limit: int | None = None) -> Iterator[Row]:
        with self._using():
            start = max(from_position - 1, 0)
        yield from islice(self._rows, start, None if limit is None else start + limit)

    def find_ingress(self, unit: str, ingress_id: str) -> int | None:
        with self._using():
            found = self._units.get(unit)
            return found.ingress.get(ingress_id) if found else None

    def begin_attempts(self, attempts: Sequence[Attempt]) -> None:
        with self._using():
            for attempt in attempts:
                self._attempts.setdefault(attempt.intent, attempt)

    def attempts(self, intents: Collection[bytes]) -> dict[bytes, Attempt]:
        with self._using():
            return {intent: self._attempts[intent] for intent in intents if intent in self._attempts}

    def outbox(self) -> list[Outgoing]:
        with self._using():
            return list(self._outbox.values())

    def put_snapshot(self, snapshot: Snapshot) -> None:
        with self._using():
            unit = self._units.get(snapshot.unit)
            if unit is None:
                raise NotFound(f"There is no unit {snapshot.unit} to take a snapshot of.")
            unit.snapshots[snapshot.unit_seq] = snapshot

    def latest_snapshot(self, unit: str, before: int | None = None) -> Snapshot | None:
        with self._using():
            found = self._units.get(unit)
            numbers = [seq for seq in found.snapshots if before is None or seq < before] if found else []
            return found.snapshots[max(numbers)] if found and numbers else None

    # blobs

    def put_blob(self, data: bytes) -> Ref:
        return self.put_blobs([data])[0]

    def put_blobs(self, blobs: Sequence[bytes]) -> list[Ref]:
        refs = [ref_of(data) for data in blobs]
        with self._using():
            self._blobs.update(zip(refs, map(bytes, blobs), strict=True))
        return refs

    def get_blob(self, ref: Ref) -> bytes:
        with self._using():
            try:
                return self._blobs[parse_ref(ref)]
            except KeyError:
                raise NotFound(f"There is no blob {ref} in this world.") from None

    def has_blob(self, ref: Ref) -> bool:
        with self._using():
            return parse_ref(ref) in self._blobs

    def blob_size(self, ref: Ref) -> int:
        return len(self.get_blob(ref))

    def iter_blobs(self) -> Iterator[Ref]:
        with self._using():
            refs = list(self._blobs)
        yield from refs

    # the world

    def get_meta(self, key: str) -> str | None:
        with self._using():
            return self._meta.get(key)

    def set_meta(self, key: str, value: str) -> None:
        if key == "world_id":
            raise UsageError("A world keeps its id: make a fork to get another.")
        with self._using():
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
