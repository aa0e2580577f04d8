"""Merkle tiles (hashes of full subtrees), stored beside the journal that they are computed from.

Invariant: the tiles of a level are stored from number 0 on without a gap. They are a cache: `journal verify` computes
them again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress

from demiurge.errors import Conflict, Damaged, Unavailable
from demiurge.stores.sqlite.database import Database

__all__ = ["SqliteTiles", "record_hashes"]


class SqliteTiles:
    """The tiles of one journal. Tiles that could not be written stay in the memory of this process."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._spare: dict[tuple[int, int], bytes] = {}

    def read(self, level: int, first: int, limit: int) -> list[bytes]:
        """Returns up to `limit` tiles of a level, from number `first` on."""
        with self._db.reading() as db:
            found = _read(db, level, first, limit)
        while len(found) < limit and (spare := self._spare.get((level, first + len(found)))) is not None:
            found.append(spare)
        return found

    def keep(self, level: int, first: int, found: Sequence[bytes]) -> None:
        """Stores tiles of a level, from number `first` on."""
        with suppress(Conflict, Unavailable):
            if not self._spare:  # else these would follow a gap
                with self._db.writing("tiles") as db:
                    _keep(db, level, first, found)
                return
        self._spare |= {(level, number): digest for number, digest in enumerate(found, first)}


def record_hashes(db: sqlite3.Connection, from_position: int, limit: int) -> list[bytes]:
    """Returns the hashes of up to `limit` records. Raises Damaged if one of them is missing, or is no hash."""
    found = db.execute(
        "SELECT position, hash FROM journal WHERE position >= ? ORDER BY position LIMIT ?", (from_position, limit)
    ).fetchall()
    for expected, (position, digest) in enumerate(found, from_position):
        if position != expected or not isinstance(digest, bytes) or len(digest) != 32:
            raise Damaged(f"The record at position {expected} is missing or damaged: restore the world from a backup.")
    return [digest for _, digest in found]


def _read(db: sqlite3.Connection, level: int, first: int, limit: int) -> list[bytes]:
    found = db.execute(
        "SELECT hash FROM tile WHERE level = ? AND number >= ? ORDER BY number LIMIT ?", (level, first, limit)
    )
    return [bytes(digest) for (digest,) in found]


def _keep(db: sqlite3.Connection, level: int, first: int, tiles: Sequence[bytes]) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO tile (level, number, hash) VALUES (?, ?, ?)",
        [(level, number, digest) for number, digest in enumerate(tiles, first)],
    )
