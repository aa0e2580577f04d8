"""`latest_records`: the end of a world's journal, read backwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from demiurge.stores.protocol import JournalStore
from demiurge.world.record import Record, decode_row

__all__ = ["latest_records"]

_PAGE: Final = 500


def latest_records(journal: JournalStore, kind: str, most: int) -> Iterator[Record]:
    """Yields the records of this kind among the last `most` records of all units, newest first. Records whose archive
    is not here are left out. Raises DamagedRow, Damaged."""
    end = journal.length() + 1
    last = max(end - most, 1)
    while end > last:
        start = max(end - _PAGE, last)
        rows = list(journal.read_all(start, end - start, away=True))
        yield from (decode_row(row) for row in reversed(rows) if row.kind == kind and not row.is_away)
        end = start
