"""Who may read a blob: a unit one of whose records exposes its ref. Knowing a ref grants nothing.

What counts is what a unit was *given*: events and receipts that came in, and blobs that its own steps made. What it
asked for counts for nothing, nor do events that it raised itself: else asking would be having.
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
    """The records by which `unit` was given `ref`, the newest pages first.

    What is asked about is mostly recent. A ref that was never given costs one look at each of the unit's records, but
    only those that hold its 32 bytes are decoded.
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
