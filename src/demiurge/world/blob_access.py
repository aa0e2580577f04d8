"""Blob access: a unit may read a blob if one of its records exposes the blob's ref. Knowing a ref grants nothing.

Only blobs that a unit was *given* count: those in events and receipts that came in, and those that its own steps made.
The parameters of its effects and the events that it raised itself do not count: else asking would be having.

The store's index says which records to look at (`stores.exposures.Exposures`). Invariant: access follows from a record
that was read, checked against its hash and decoded, never from the index.
"""

from __future__ import annotations

from collections.abc import Iterator

from demiurge.stores.exposures import gives
from demiurge.stores.protocol import JournalStore
from demiurge.values.refs import Ref, ref_digest
from demiurge.world.moment import length_at
from demiurge.world.record import Record, decode_row
from demiurge.world.unit import Unit

__all__ = ["exposing_records", "granting_records"]

PAGE = 256


def granting_records(journal: JournalStore, unit: Unit, ref: Ref) -> Iterator[Record]:
    """The records by which `unit` was given `ref`, the newest first.

    The cost does not depend on the number of the unit's records. Those that an older program wrote and that are not in
    the index yet (`Exposures.indexed_from`) are looked at one by one, after the others.
    """
    yield from _found(journal, ref, str(unit))
    yield from _not_indexed(journal, unit, ref)


def exposing_records(journal: JournalStore, ref: Ref) -> Iterator[Record]:
    """The records by which any unit was given `ref`, each unit's newest first; after them those that are not in the
    index, as far as their bytes are here."""
    yield from _found(journal, ref, None)
    first, digest = journal.exposures.indexed_from(), ref_digest(ref)
    for row in journal.read_all(1, first - 1, away=True):
        if digest in row.data and _grants(record := decode_row(row), ref):
            yield record


def _found(journal: JournalStore, ref: Ref, unit: str | None) -> Iterator[Record]:
    for name, seq in journal.exposures.find(ref_digest(ref), unit):
        for row in journal.read(name, seq, 1):
            record = decode_row(row)
            if _grants(record, ref):
                yield record


def _not_indexed(journal: JournalStore, unit: Unit, ref: Ref) -> Iterator[Record]:
    first = journal.exposures.indexed_from()
    end = length_at(journal, str(unit), first - 1) if first > 1 else 0
    digest = ref_digest(ref)
    while end > 0:
        start = max(0, end - PAGE)
        for row in journal.read(str(unit), start, end - start):
            if digest in row.data and _grants(record := decode_row(row), ref):
                yield record
        end = start


def _grants(record: Record, ref: Ref) -> bool:
    return ref in record.refs and gives(record.kind, record.is_ingress)
