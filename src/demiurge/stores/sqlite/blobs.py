"""Small blobs, inside the database, on a connection that somebody else manages.

Invariant: what is read is unchecked (the caller checks it against the digest); what is written replaces
damaged bytes. `put_s` says when a blob was put last, so that it is not taken for garbage before anybody names it; it is
written again when it is an hour old, so that putting what is there is mostly a read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from demiurge.stores.protocol import REFRESH_S, BlobInfo

__all__ = ["INLINE_MAX", "get", "kept_page", "lacking", "put", "remove", "size"]

INLINE_MAX: Final = 16 * 1024
"""Bytes. A longer blob is a file: SQLite reads a blob of this size faster than the system opens a file."""


def lacking(db: sqlite3.Connection, blobs: Iterable[bytes], now_s: int) -> list[bytes]:
    """Those that the database hasn't, or has damaged, or has had for long without being told so."""
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
    return found[0] if isinstance(found[0], bytes) else b""  # another type: damaged, so anything that fails the check


def size(db: sqlite3.Connection, digest: bytes) -> int | None:
    found = db.execute("SELECT length(data) FROM blob WHERE digest = ?", (digest,)).fetchone()
    return found[0] if found else None


def kept_page(db: sqlite3.Connection, after: bytes, count: int) -> list[BlobInfo]:
    """The next `count`, in order of digest, that follow `after`."""
    find = "SELECT digest, length(data), put_s FROM blob WHERE digest > ? ORDER BY digest LIMIT ?"
    return [BlobInfo(*cells) for cells in db.execute(find, (after, count))]
