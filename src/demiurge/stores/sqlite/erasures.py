"""The erased blobs of a store, and the remaining work of an interrupted erasure.

Invariant: the erasure is durable before any bytes are removed, and the remaining work is written in the same
transaction, so that an interrupted erasure is known and finished. If the blob was in the database, the whole database
is rewritten: nothing else makes sure that no unused page part holds a copy.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from typing import Final

from demiurge.errors import Damaged
from demiurge.stores.blob_files import BlobFiles
from demiurge.stores.sqlite.database import Database

__all__ = ["Erasures"]

_FILE: Final = 1  # the blob's file may still exist
_PAGES: Final = 2  # pages of the database may still hold what was in them
_BEGIN: Final = """INSERT INTO erased (digest, remains) VALUES (?, ?)
    ON CONFLICT (digest) DO UPDATE SET remains = excluded.remains"""


class Erasures:
    """The erased blobs of one store."""

    def __init__(self, database: Database, files: BlobFiles) -> None:
        self._db, self._files = database, files
        self._lock = threading.Lock()
        with database.reading() as db:
            found = _read(db, "SELECT digest, remains FROM erased")
        self.digests = {digest for digest, _ in found}
        self._is_interrupted = any(remains for _, remains in found)

    def begin(self, db: sqlite3.Connection, digests: Iterable[bytes]) -> None:
        """Deletes the blobs from the table and registers the remaining work, in the open transaction. An earlier
        erasure must be finished."""
        for digest in digests:
            inside = db.execute("DELETE FROM blob WHERE digest = ?", (digest,)).rowcount
            db.execute(_BEGIN, (digest, _PAGES if inside else _FILE))

    def mark_durable(self, digests: Iterable[bytes]) -> None:
        """Registers in memory that the transaction of `begin` is durable."""
        with self._lock:
            self.digests.update(digests)
            self._is_interrupted = True

    def finish(self) -> None:
        """Does the remaining work. Raises Unavailable; then some work is left."""
        with self._lock:  # a thread that puts a file waits, so that its file is not removed
            if not self._is_interrupted:
                return
            with self._db.reading() as db:
                found = _read(db, "SELECT digest, remains FROM erased WHERE remains <> 0")
            self._files.remove(digest for digest, _ in found)
            if any(remains == _PAGES for _, remains in found):
                self._db.rewrite()
            with self._db.writing("erased") as db:
                db.executemany("UPDATE erased SET remains = 0 WHERE digest = ?", [(digest,) for digest, _ in found])
            self._is_interrupted = False


def _read(db: sqlite3.Connection, statement: str) -> list[tuple[bytes, int]]:
    """Returns digests and their remaining work. Raises Damaged for values of another form: a flipped bit can make
    SQLite read rows of another table here, and no file may be removed because of that."""
    found = db.execute(statement).fetchall()
    for digest, remains in found:
        if not (isinstance(digest, bytes) and len(digest) == 32 and remains in (0, _FILE, _PAGES)):
            raise Damaged("The table of erased blobs in journal.db is damaged: restore the world from a backup.")
    return found
