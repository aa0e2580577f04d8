"""Small blobs inside the database, as SQL on a connection of the caller's.

Invariant: bytes are returned unchecked (the caller checks them against the digest); a write replaces damaged bytes.
`put_s` says when a blob was last put, so that it is not collected as garbage before a record names it. It is updated
only when it is an hour old, so that putting an existing blob is mostly a read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from demiurge.stores.protocol import REFRESH_S, BlobInfo

__all__ = ["INLINE_MAX", "get", "missing_or_stale", "page_after", "put", "remove", "size"]

INLINE_MAX: Final = 16 * 1024
"""In bytes. A longer blob is a file: up to this size SQLite reads a blob faster than the system opens a file."""


def missing_or_stale(db: sqlite3.Connection, blobs: Iterable[bytes], now_s: int) -> list[bytes]:
    """Returns the blobs that the database lacks or has damaged, or whose time is to be updated."""
    find = "SELECT data, put_s FROM blob WHERE digest = ?"
    found = ((data, db.execute(find, (sha256(data).digest(),)).fetchone()) for data in blobs)
    return [data for data, cells in found if cells is None or cells[0] != data or cells[1] < now_s - REFRESH_S]


def put(db: sqlite3.Connection, blobs: Sequence[bytes], now_s: int) -> None:
    db.executemany(
        "INSERT OR REPLACE INTO blob (digest, data, put_s) VALUES (?, ?, ?)",
        [(sha256(data).digest(), data, now_s) for data in blobs],
    )


def remove(db: sqlite3.Connection, digests: Iterable[bytes]) -> None:
    db.executemany("DELETE FROM blob WHERE digest = ?", [(digest,) for digest in digests])


def get(db: sqlite3.Connection, digest: bytes) -> bytes | None:
    found = db.execute("SELECT data FROM blob WHERE digest = ?", (digest,)).fetchone()
    if found is None:
        return None
    return (
        found[0] if isinstance(found[0], bytes) else b""
    )  # another type: damaged, so return bytes that fail the check


def size(db: sqlite3.Connection, digest: bytes) -> int | None:
    found = db.execute("SELECT length(data) FROM blob WHERE digest = ?", (digest,)).fetchone()
    return found[0] if found else None


def page_after(db: sqlite3.Connection, after: bytes, count: int) -> list[BlobInfo]:
    """Returns the next `count` blobs in order of digest that follow `after`."""
    find = "SELECT digest, length(data), put_s FROM blob WHERE digest > ? ORDER BY digest LIMIT ?"
    return [BlobInfo(*cells) for cells in db.execute(find, (after, count))]
