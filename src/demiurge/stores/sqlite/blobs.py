"""Small blobs, inside the database, on a connection that somebody else manages.

Invariant: what is read is unchecked (the caller checks it against the digest); what is written replaces
damaged bytes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

__all__ = ["INLINE_MAX", "digests_page", "get", "lacking", "put", "size"]

INLINE_MAX: Final = 16 * 1024
"""Bytes. A longer blob is a file: SQLite reads a blob of this size faster than the system opens a file."""


def lacking(db: sqlite3.Connection, blobs: Iterable[bytes]) -> list[bytes]:
    """Those that the database hasn't, or has damaged."""
    return [data for data in blobs if get(db, sha256(data).digest()) != data]


def put(db: sqlite3.Connection, blobs: Sequence[bytes]) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO blob (digest, data) VALUES (?, ?)",
        [(sha256(data).digest(), data) for data in blobs],
    )


def get(db: sqlite3.Connection, digest: bytes) -> bytes | None:
    found = db.execute("SELECT data FROM blob WHERE digest = ?", (digest,)).fetchone()
    if found is None:
        return None
    return found[0] if isinstance(found[0], bytes) else b""  # another type: damaged, so anything that fails the check


def size(db: sqlite3.Connection, digest: bytes) -> int | None:
    found = db.execute("SELECT length(data) FROM blob WHERE digest = ?", (digest,)).fetchone()
    return found[0] if found else None


def digests_page(db: sqlite3.Connection, after: bytes, count: int) -> list[bytes]:
    """The next `count` digests, in order, that follow `after`."""
    page = db.execute("SELECT digest FROM blob WHERE digest > ? ORDER BY digest LIMIT ?", (after, count))
    return [digest for (digest,) in page]
