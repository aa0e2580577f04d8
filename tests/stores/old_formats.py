"""Takes from a world what later formats added, so that it is as an older program left it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

__all__ = ["make_older"]

_ADDED = {
    4: (
        "DROP TABLE exposure",
        "DELETE FROM meta WHERE key = 'indexed_from'",
    ),
    3: (
        "DROP TABLE waiting",
        "DROP INDEX outbox_source",
        "DROP INDEX journal_approval",
        "DROP TABLE waiting_sum",
    ),
    2: (
        "ALTER TABLE blob DROP COLUMN put_s",
        "DROP TABLE tile",
        "DROP TABLE erased",
        "DROP TABLE segment",
    ),
}


def make_older(folder: Path, version: int) -> None:
    """Makes the world in `folder`, which is closed, one of format `version`."""
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as db:
        for added, statements in _ADDED.items():
            for statement in statements if added > version else ():
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {version:d}")
