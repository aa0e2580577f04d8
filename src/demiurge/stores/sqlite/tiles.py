"""Hashes of full subtrees, kept beside the journal that they are computed from, on a connection that somebody else
manages.

Invariant: tiles of a level are kept from number 0 on without a gap. They are a cache: `journal verify` computes them
again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from demiurge.errors import Damaged

__all__ = ["keep", "read", "record_hashes"]


def record_hashes(db: sqlite3.Connection, from_position: int, limit: int) -> list[bytes]:
    """Raises Damaged when one of them is missing, or is no hash."""
    found = db.execute(
        "SELECT position, hash FROM journal WHERE position >= ? ORDER BY position LIMIT ?", (from_position, limit)
    ).fetchall()
    for expected, (position, digest) in enumerate(found, from_position):
        if position != expected or not isinstance(digest, bytes) or len(digest) != 32:
            raise Damaged(f"The record at position {expected} is missing or damaged: restore the world from a backup.")
    return [digest for _, digest in found]


def read(db: sqlite3.Connection, level: int, first: int, limit: int) -> list[bytes]:
    found = db.execute(
        "SELECT hash FROM tile WHERE level = ? AND number >= ? ORDER BY number LIMIT ?", (level, first, limit)
    )
    return [bytes(digest) for (digest,) in found]


def keep(db: sqlite3.Connection, level: int, first: int, tiles: Sequence[bytes]) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO tile (level, number, hash) VALUES (?, ?, ?)",
        [(level, number, digest) for number, digest in enumerate(tiles, first)],
    )
