"""Blob access: a unit may read a blob if one of its records exposes the blob's ref. Knowing a ref grants nothing.

Only blobs that a unit was *given* count: those in events and receipts that came in, and those that its own steps made.
The parameters of its effects and the events that it raised itself do not count: else asking would be having.
"""

from __future__ import annotations

from collections.abc import Iterator

from demiurge.stores.protocol import JournalStore
from demiurge.values.refs import Ref, ref_digest
from demiurge.world.record import Record, decode_row
from demiurge.world.unit import Unit

__all__ = ["granting_records"]

PAGE = 256


def granting_records(journal: JournalStore, unit: Unit, ref: Ref) -> Iterator[Record]:
    """Yields the records that gave `unit` access to `ref`, the newest pages first.

    Most questions are about recent blobs. For a ref that was never given, each of the unit's records is looked at once,
    but only those that hold its 32 bytes are decoded.
    """
    head = journal.head(str(unit))
    digest = ref_digest(ref)
    end = head.next_seq if head is not None else 0
    while end > 0:
        start = max(0, end - PAGE)
        for row in journal.read(str(unit), start, end - start):
            if digest in row.data:
                record = decode_row(row)
                if ref in record.refs and (record.is_ingress or record.kind in ("step", "manifest")):
                    yield record
        end = start
