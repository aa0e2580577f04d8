"""The list of intents that wait for a person, as SQL.

Invariant: `waiting_sum` holds the number of entries and the exclusive-or of their digests, and is changed in the same
transaction as the entries. So a reader of the list notices an entry that was lost, changed or added by damage. A world
without a sum has no list: an older program wrote the world, or the sum itself is damaged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from hashlib import sha256
from typing import Final
from zlib import crc32

from demiurge.errors import Damaged
from demiurge.stores.sqlite.database import Database

__all__ = ["SqliteWaitingList", "change", "replace"]

_INSERT: Final = "INSERT OR REPLACE INTO waiting (intent, unit, guard) VALUES (?, ?, ?)"


class SqliteWaitingList:
    """The `demiurge.stores.protocol.WaitingList` of a database. `length` counts the rows of the journal."""

    def __init__(self, database: Database, length: Callable[[sqlite3.Connection], int]) -> None:
        self._db, self._length = database, length

    def read(self) -> Mapping[bytes, str] | None:
        try:
            with self._db.reading() as db:
                entries = db.execute("SELECT intent, unit FROM waiting NOT INDEXED").fetchall()
                known = _sum(db)
        except Damaged:
            return None
        is_whole = all(isinstance(intent, bytes) and isinstance(unit, str) for intent, unit in entries)
        return dict(entries) if is_whole and known == (len(entries), _digest(entries)) else None

    def find(self, intent: bytes) -> str | None:
        try:
            with self._db.reading() as db:
                found = db.execute("SELECT unit, guard FROM waiting WHERE intent = ?", (intent,)).fetchone()
        except Damaged:
            return None
        return str(found[0]) if found and _guard(intent, found[0]) == found[1] else None

    def replace(self, found: Mapping[bytes, str], length: int) -> bool:
        with self._db.writing("meta") as db:
            is_current = self._length(db) == length
            if is_current:
                replace(db, found)
            return is_current


def replace(db: sqlite3.Connection, found: Mapping[bytes, str]) -> None:
    """Replaces the list by `found`, in the open transaction."""
    db.execute("DELETE FROM waiting")
    _insert(db, found.items())
    _put_sum(db, len(found), _digest(found.items()))


def change(db: sqlite3.Connection, unit: str, intents: Iterable[bytes]) -> None:
    """Replaces the entries of `unit` by `intents`, in the open transaction. A damaged list stays damaged."""
    before = db.execute("SELECT intent, unit FROM waiting WHERE unit = ?", (unit,)).fetchall()
    after = [(intent, unit) for intent in intents]
    db.execute("DELETE FROM waiting WHERE unit = ?", (unit,))
    _insert(db, after)
    known = _sum(db)
    if known is not None:
        count, digest = known
        _put_sum(db, count - len(before) + len(after), _digest([*before, *after], digest))


def _insert(db: sqlite3.Connection, entries: Iterable[tuple[bytes, str]]) -> None:
    db.executemany(_INSERT, [(intent, unit, _guard(intent, unit)) for intent, unit in entries])


def _guard(intent: object, unit: object) -> int:
    return crc32(repr((intent, unit)).encode())


def _sum(db: sqlite3.Connection) -> tuple[int, bytes] | None:
    """Returns the count and the digest; None if there is no sum, or it is damaged."""
    found = db.execute("SELECT count, digest, guard FROM waiting_sum").fetchall()
    return found[0][:2] if len(found) == 1 and _guard(*found[0][:2]) == found[0][2] else None


def _put_sum(db: sqlite3.Connection, count: int, digest: bytes) -> None:
    db.execute("DELETE FROM waiting_sum")
    guard = _guard(count, digest)
    db.execute("INSERT INTO waiting_sum (count, digest, guard) VALUES (?, ?, ?)", (count, digest, guard))


def _digest(entries: Iterable[tuple[object, object]], start: bytes = bytes(32)) -> bytes:
    """Returns the exclusive-or of `start` and the digests of the entries."""
    digests = (int.from_bytes(sha256(repr(entry).encode()).digest(), "big") for entry in entries)
    return reduce(int.__xor__, digests, int.from_bytes(start, "big")).to_bytes(32, "big")
