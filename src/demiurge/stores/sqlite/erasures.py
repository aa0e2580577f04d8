"""Which blobs were erased, and how far that has got.

Invariant: that a blob was erased is durable before any of its bytes go, and what is left to do is written with it: so
an erasure that was cut short is known and finished. The time it takes is that of writing the database anew, when the
blob lay in it: there is no other way to be sure that no page has a copy in what it doesn't use.
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

_FILE: Final = 1  # its file may be there
_PAGES: Final = 2  # pages of the database may still hold what was in them
_BEGIN: Final = """INSERT INTO erased (digest, remains) VALUES (?, ?)
    ON CONFLICT (digest) DO UPDATE SET remains = excluded.remains"""


class Erasures:
    """The erased blobs of one store."""

    def __init__(self, connections: Database, files: BlobFiles) -> None:
        self._db, self._files = connections, files
        self._lock = threading.Lock()
        with connections.reading() as db:
            found = _read(db, "SELECT digest, remains FROM erased")
        self.digests = {digest for digest, _ in found}
        self._cut_short = any(remains for _, remains in found)

    def begin(self, db: sqlite3.Connection, digests: Iterable[bytes]) -> None:
        """Erase from the table of blobs, and write down what else there is to do, in the transaction that is open.
        What an earlier one left is finished before."""
        for digest in digests:
            inside = db.execute("DELETE FROM blob WHERE digest = ?", (digest,)).rowcount
            db.execute(_BEGIN, (digest, _PAGES if inside else _FILE))

    def begun(self, digests: Iterable[bytes]) -> None:
        """It is durable."""
        with self._lock:
            self.digests.update(digests)
            self._cut_short = True

    def finish(self) -> None:
        """Do what is left to do. Raises Unavailable; then there is something left."""
        with self._lock:  # who puts a file waits, so that it is not the one that is removed
            if not self._cut_short:
                return
            with self._db.reading() as db:
                found = _read(db, "SELECT digest, remains FROM erased WHERE remains <> 0")
            self._files.remove(digest for digest, _ in found)
            if any(remains == _PAGES for _, remains in found):
                self._db.rewrite()
            with self._db.writing("erased") as db:
                db.executemany("UPDATE erased SET remains = 0 WHERE digest = ?", [(digest,) for digest, _ in found])
            self._cut_short = False


def _read(db: sqlite3.Connection, statement: str) -> list[tuple[bytes, int]]:
    """Digests and what remains to be done. Raises Damaged when a value has another form: a flipped bit can make SQLite
    read the rows of another table here, and no file may be removed because of that."""
    found = db.execute(statement).fetchall()
    for digest, remains in found:
        if not (isinstance(digest, bytes) and len(digest) == 32 and remains in (0, _FILE, _PAGES)):
            raise Damaged("The table of erased blobs in journal.db is damaged: restore the world from a backup.")
    return found
