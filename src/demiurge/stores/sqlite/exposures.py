"""The index from a blob to the records that give it to a unit, as SQL.

Invariant: an entry is written in the transaction of its row, so every row from the position `indexed_from` on has its
entries. An older program wrote the rows before that position; the first look-up indexes them, a page at a time and from
the last one down, as far as their bytes are here.

An entry has the first 8 bytes of the blob's digest. Two blobs may share them, and damage may change an entry: the
record that an entry leads to decides.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from demiurge.errors import DemiurgeError, Unavailable
from demiurge.stores.errors import DamagedRow
from demiurge.stores.exposures import Given, given_by
from demiurge.stores.protocol import JournalStore, Row
from demiurge.stores.sqlite import schema
from demiurge.stores.sqlite.database import Database

__all__ = ["SqliteExposures", "add", "forget"]

_PAGE: Final = 256
_FILLED: Final = 2000
"""The number of older rows that are indexed in one transaction."""

_INSERT: Final = "INSERT OR IGNORE INTO exposure (blob, unit, seq) VALUES (?, ?, ?)"
_OF_UNIT: Final = """SELECT ?1, seq FROM exposure WHERE blob = ?2 AND unit = (SELECT id FROM unit WHERE name = ?1)
    AND seq < ?3 ORDER BY seq DESC LIMIT ?4"""
_OF_ALL: Final = """SELECT unit.name, seq, exposure.unit FROM exposure JOIN unit ON unit.id = exposure.unit
    WHERE blob = ?1 AND (exposure.unit, seq) < (?2, ?3) ORDER BY exposure.unit DESC, seq DESC LIMIT ?4"""
_HAS: Final = "SELECT 1 FROM exposure WHERE blob = ? AND unit = (SELECT id FROM unit WHERE name = ?) AND seq = ?"
_MOST: Final = 2**63 - 1


def add(db: sqlite3.Connection, unit: int, rows: Iterable[Row]) -> None:
    """Adds the entries of a unit's rows, in the transaction that is open."""
    found = [(_key(digest), unit, row.unit_seq) for row in rows for digest in given_by(row)]
    if found:
        db.executemany(_INSERT, found)


def forget(db: sqlite3.Connection) -> None:
    """Empties the index in the open transaction; the next look-up builds it again."""
    db.execute("DELETE FROM exposure")
    schema.set_indexed_from(db, schema.next_position(db))


class SqliteExposures:
    """The `demiurge.stores.exposures.Exposures` of a database. Any thread may call."""

    def __init__(self, database: Database, journal: JournalStore) -> None:
        self._db, self._journal = database, journal
        self._filling = threading.Lock()

    def find(self, digest: bytes, unit: str | None = None) -> Iterator[tuple[str, int]]:
        self._fill()
        key, at = _key(digest), (_MOST, _MOST)
        while True:
            with self._db.reading() as db:
                if unit is not None:
                    page = db.execute(_OF_UNIT, (unit, key, at[1], _PAGE)).fetchall()
                else:
                    page = db.execute(_OF_ALL, (key, *at, _PAGE)).fetchall()
            for name, seq, *_ in page:
                if isinstance(name, str) and type(seq) is int and seq >= 0:
                    yield name, seq
            if len(page) < _PAGE:
                return
            at = (page[-1][2] if unit is None else 0, page[-1][1])

    def lacking(self, found: Sequence[Given]) -> Given | None:
        start = self.indexed_from()
        with self._db.reading() as db:
            for given in found:
                place = _key(given.digest), given.unit, given.unit_seq
                if given.position >= start and db.execute(_HAS, place).fetchone() is None:
                    return given
        return None

    def indexed_from(self) -> int:
        with self._db.reading() as db:
            return schema.indexed_from(db)

    def _fill(self) -> None:
        """Indexes the rows of an older program, as far as they can be read and the index can be written."""
        if self.indexed_from() == 1:
            return
        try:
            self._db.check_writable()
        except DemiurgeError:  # the world is only read
            return
        with self._filling, suppress(Unavailable):
            end = self.indexed_from()
            while end > 1 and (rows := self._readable(max(1, end - _FILLED), end)) is not None:
                first, last = rows
                with self._db.writing("meta") as db:
                    for row in last:
                        [unit] = db.execute("SELECT id FROM unit WHERE name = ?", (row.unit,)).fetchone()
                        add(db, unit, [row])
                    schema.set_indexed_from(db, first)
                end = first

    def _readable(self, first: int, end: int) -> tuple[int, list[Row]] | None:
        """The rows from the position `first` to before `end`, and the first of these positions, which is higher when
        the bytes of some are away; None when those of the last one are. A damaged row gives nothing."""
        if any(row.is_away for row in self._rows(end - 1, end)):
            return None
        rows: list[Row] = []
        for row in self._rows(first, end):
            if row.is_away:
                first, rows = row.position + 1, []
            else:
                rows.append(row)
        return first, rows

    def _rows(self, position: int, end: int) -> Iterator[Row]:
        """The rows that are not damaged."""
        while position < end:
            try:
                for row in self._journal.read_all(position, end - position, away=True):
                    position = row.position + 1
                    yield row
                return
            except DamagedRow:
                position += 1


def _key(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "big", signed=True)
