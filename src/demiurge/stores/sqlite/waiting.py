"""The list of intents that wait for a person, as SQL.

Invariant: the meta data has the number of entries and the exclusive-or of their digests, and both are changed in the
transaction that changes the entries. So an entry that was lost, changed or added by damage is noticed by whoever reads
the list. A world that has no such sum has no list: an older program wrote it, or the sum itself is damaged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from hashlib import sha256
from typing import Final

from demiurge.errors import Damaged
from demiurge.stores.sqlite import schema
from demiurge.stores.sqlite.connections import Connections

__all__ = ["SqliteWaiting", "change"]

_SUM: Final = schema.WAITING_SUM
_INSERT: Final = "INSERT OR REPLACE INTO waiting (intent, unit) VALUES (?, ?)"


class SqliteWaiting:
    """See `demiurge.stores.protocol.WaitingList`. `length` counts the rows of the journal."""

    def __init__(self, connections: Connections, length: Callable[[sqlite3.Connection], int]) -> None:
        self._db, self._length = connections, length

    def read(self) -> Mapping[bytes, str] | None:
        try:
            with self._db.reading() as db:
                entries = db.execute("SELECT intent, unit FROM waiting NOT INDEXED").fetchall()
                known = _sum(db)
        except Damaged:
            return None
        is_whole = all(isinstance(intent, bytes) and isinstance(unit, str) for intent, unit in entries)
        return dict(entries) if is_whole and known == _sum_of(entries) else None

    def find(self, intent: bytes) -> str | None:
        try:
            with self._db.reading() as db:
                found = db.execute("SELECT unit FROM waiting WHERE intent = ?", (intent,)).fetchone()
        except Damaged:
            return None
        return found[0] if found and isinstance(found[0], str) else None

    def replace(self, found: Mapping[bytes, str], length: int) -> bool:
        with self._db.writing("meta") as db:
            if self._length(db) != length:
                return False
            db.execute("DELETE FROM waiting")
            db.executemany(_INSERT, found.items())
            schema.set_meta(db, _SUM, _sum_of(found.items()))
            return True


def change(db: sqlite3.Connection, unit: str, intents: Iterable[bytes]) -> None:
    """Makes `intents` those of `unit`, in the transaction that is open. A list that is damaged stays so."""
    before = db.execute("SELECT intent, unit FROM waiting WHERE unit = ?", (unit,)).fetchall()
    after = [(intent, unit) for intent in intents]
    db.execute("DELETE FROM waiting WHERE unit = ?", (unit,))
    db.executemany(_INSERT, after)
    known = _sum(db)
    if known is not None:
        count, digest = known.split()
        digest = reduce(_xor, (_digest(*entry) for entry in (*before, *after)), digest)
        schema.set_meta(db, _SUM, f"{int(count) - len(before) + len(after)} {digest}")


def _sum(db: sqlite3.Connection) -> str | None:
    try:
        return schema.get_meta(db, _SUM)
    except Damaged:
        return None


def _sum_of(entries: Iterable[tuple[object, object]]) -> str:
    digests = [_digest(*entry) for entry in entries]
    return f"{len(digests)} {reduce(_xor, digests, bytes(32).hex())}"


def _digest(intent: object, unit: object) -> str:
    return sha256(repr((intent, unit)).encode()).hexdigest()


def _xor(one: str, other: str) -> str:
    return f"{int(one, 16) ^ int(other, 16):064x}"
