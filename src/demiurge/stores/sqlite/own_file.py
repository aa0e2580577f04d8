"""A SQLite file of this user's own, for one purpose: what a vault and a ledger have in common.

Invariant: a file that is not this purpose's, or is of a newer format, is left as it was; links are not followed, and
nobody else can read what is made.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demiurge.errors import UsageError
from demiurge.stores.errors import unavailable
from demiurge.stores.private import check_file, check_folder

__all__ = ["STRICT", "OwnFormat", "check_files"]

STRICT: Final = "STRICT" if sqlite3.sqlite_version_info >= (3, 37) else ""
"""The end of a CREATE TABLE, where SQLite knows it."""

_BESIDE: Final = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class OwnFormat:
    """The marks and tables of a file. `purpose` completes "choose another file for the ..."."""

    purpose: str
    application: int
    version: int
    tables: tuple[str, ...]

    def prepare(self, db: sqlite3.Connection, path: Path) -> None:
        """Makes the tables in an empty file, in the transaction that is open; checks the marks of another. Raises
        UsageError."""
        if db.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
            for statement in self.tables:
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {self.application}")
            db.execute(f"PRAGMA user_version = {self.version}")
        if db.execute("PRAGMA application_id").fetchone()[0] != self.application:
            raise UsageError(f"{path} is a database of another program: choose another file for the {self.purpose}.")
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if found < self.version:
            raise UsageError(
                f"{path} was made by an earlier Demiurge, before its first release: choose another file for the "
                f"{self.purpose}.",
                code="older_format",
            )
        if found > self.version:
            raise UsageError(
                f"{path} was made by a newer Demiurge: upgrade with `pip install --upgrade demiurge-runtime`.",
                code="newer_format",
            )


def check_files(path: Path) -> None:
    """Refuses a folder that others can write to, and what is no own plain file at `path` or where SQLite puts its own
    beside it. Raises Unavailable."""
    try:
        check_folder(path.parent)
        for suffix in _BESIDE:
            with suppress(FileNotFoundError):
                check_file(path.with_name(path.name + suffix))
    except OSError as error:
        raise unavailable(error, path.parent) from error
