"""Verify: every record's bytes, every link of every chain, and every blob that a record exposes.

It reads no schema and runs no code, so it can't be fooled by either; the first thing that is wrong is named. A *seal*
is a running digest over all records in the order they became durable: a world that only grew still holds every seal
it ever had, and one that was shortened or rewritten does not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from demiurge.errors import Damaged, DemiurgeError, NotFound
from demiurge.stores.protocol import Head, Store
from demiurge.values.refs import Ref, ref_from_digest
from demiurge.world.record import GENESIS, Record
from demiurge.world.replay import decode_row

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
    """Read the whole world; with `seal`, one kept elsewhere, check that this is still the world it was taken of.

    `progress` is told the number of records so far.
    """
    blobs = _Blobs(store)
    records = units = 0
    found = None
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
            units += 1
        blobs.check_rest()
    except DemiurgeError as error:
        found = str(error)
    newest, held = _seal(store, seal)
    return Verified(records, units, len(blobs.good), newest, found, held)


def _check_end(store: Store, head: Head) -> None:
    """Rows beyond the head are a unit's growth since, or nobody's. Raises Damaged."""
    if any(store.read(head.unit, head.next_seq, 1)):
        now = store.head(head.unit)
        if now is None or now.next_seq == head.next_seq:
            raise Damaged(f"record {head.unit} {head.next_seq} is there, but the unit's head does not know of it")


def _seal(store: Store, wanted: str | None) -> tuple[Ref, bool]:
    """The newest seal, up to the first damaged record; and whether `wanted` is one that this world has had."""
    running = GENESIS
    held = wanted in (None, ref_from_digest(running))
    with suppress(Damaged):
        for row in store.read_all():
            running = hashlib.sha256(running + row.hash).digest()
            held = held or wanted == ref_from_digest(running)
    return ref_from_digest(running), held


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
