"""Verify: every record's bytes, every link of every chain, and every blob that a record exposes.

It reads no schema and runs no code, so it can't be fooled by either; the first thing that is wrong is named.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from demiurge.errors import Damaged, DemiurgeError, NotFound
from demiurge.stores.protocol import Head, Store
from demiurge.values import cbor
from demiurge.values.refs import Ref, ref_from_digest
from demiurge.world.record import GENESIS, Record
from demiurge.world.replay import decode_row

__all__ = ["Verified", "verify"]

NESTED = re.compile(rb"sha256:[0-9a-f]{64}")
"""Blobs name other blobs by ref (a message its attachments, an answer its items); those are followed too."""


@dataclass(frozen=True, slots=True)
class Verified:
    """`seal` is a digest over all unit heads in name order. `problem` names the first thing that is wrong."""

    records: int
    units: int
    blobs: int
    seal: Ref
    problem: str | None = None

    @property
    def ok(self) -> bool:
        return self.problem is None


def verify(store: Store, progress: Callable[[int], None] = lambda _done: None) -> Verified:
    """Read the whole world once. `progress` is told the number of records so far."""
    blobs = _Blobs(store)
    records = units = 0
    heads: list[list[object]] = []
    try:
        for problem in store.damaged.values():
            raise problem
        for head in store.heads():
            expected, previous = 0, GENESIS
            for row in store.read(head.unit, limit=head.next_seq):  # the unit may grow while we read
                record = decode_row(row)
                if record.unit_seq != expected or record.prev != previous:
                    raise Damaged(f"record {record.unit} {record.unit_seq} does not follow the one before it")
                blobs.check_all(record)
                expected, previous = expected + 1, record.hash
                records += 1
                progress(records)
            if (head.next_seq, head.hash) != (expected, previous):
                raise Damaged(
                    f"record {head.unit} {head.next_seq - 1} is the head, but the chain ends at {expected - 1}"
                )
            _check_end(store, head)
            heads.append([head.unit, head.next_seq, head.hash])
            units += 1
        blobs.check_rest()
    except DemiurgeError as error:
        return Verified(records, units, len(blobs.good), _seal(heads), str(error))
    return Verified(records, units, len(blobs.good), _seal(heads))


def _check_end(store: Store, head: Head) -> None:
    """Rows beyond the head are a unit's growth since, or nobody's. Raises Damaged."""
    if any(store.read(head.unit, head.next_seq, 1)):
        now = store.head(head.unit)
        if now is None or now.next_seq == head.next_seq:
            raise Damaged(f"record {head.unit} {head.next_seq} is there, but the unit's head does not know of it")


def _seal(heads: list[list[object]]) -> Ref:
    return ref_from_digest(cbor.digest(heads))


class _Blobs:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.good: set[Ref] = set()

    def check_all(self, record: Record) -> None:
        """Check what `record` exposes. Raises Damaged, naming the record."""
        for ref in record.refs:
            try:
                self.check(ref)
            except (Damaged, NotFound) as error:
                raise Damaged(f"record {record.unit} {record.unit_seq} ({record.kind}): {error}") from error

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
