"""The format of a SQLite file for one purpose of this user; used by the connection store and the ledger.

Invariant: a file for another purpose, or of a newer format, is left as it is; links are not followed, and no other user
can read a file that is made.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demiurge.errors import Damaged, UsageError
from demiurge.stores.errors import unavailable
from demiurge.stores.private import check_file, check_folder
from demiurge.stores.sqlite.schema_objects import check_objects, differences

__all__ = ["STRICT", "FileFormat", "check_files"]

STRICT: Final = "STRICT" if sqlite3.sqlite_version_info >= (3, 37) else ""
"""The end of a CREATE TABLE statement, if this SQLite knows it."""

_BESIDE: Final = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True)
class FileFormat:
    """The marks and tables of a file. `purpose` completes "choose another file for the ..."; `later` are tables, by
    name, that were added without a new version: a file that lacks them gets them. `remove` is the advice about a
    foreign table or trigger."""

    purpose: str
    application: int
    version: int
    tables: tuple[str, ...]
    later: tuple[tuple[str, str], ...] = ()
    remove: str = "Remove it, or restore the file from a backup."

    def make(self, db: sqlite3.Connection) -> None:
        """Makes all tables in an empty file."""
        for statement in (*self.tables, *(statement for _, statement in self.later)):
            db.execute(statement)

    def prepare(self, db: sqlite3.Connection, path: Path) -> None:
        """Makes the tables in an empty file, in the open transaction; checks the marks and the tables of any other
        file. Raises UsageError, Damaged."""
        marks = [db.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("application_id", "user_version")]
        if db.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
            if any(marks):
                raise Damaged(f"{path} is damaged (it has no tables any more): restore it from a backup.")
            self.make(db)
            db.execute(f"PRAGMA application_id = {self.application}")
            db.execute(f"PRAGMA user_version = {self.version}")
        self._check_marks(db, path)
        missing = differences(db, self.make).changed
        for name, statement in self.later:
            if name in missing:
                db.execute(statement)
        check_objects(db, path, self.make, self.remove)

    def check(self, db: sqlite3.Connection, path: Path) -> None:
        """Checks the marks and the tables of a file of the current format, and writes nothing. Raises UsageError,
        Damaged."""
        self._check_marks(db, path)
        check_objects(db, path, self.make, self.remove)

    def _check_marks(self, db: sqlite3.Connection, path: Path) -> None:
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


def check_files(path: Path, *, close: bool = True) -> None:
    """Refuses a folder that other users can write to, and an entry at `path` or at SQLite's files beside it that is no
    plain file of this user; `close` removes all permissions of other users on the files. Raises Unavailable."""
    try:
        check_folder(path.parent)
        for suffix in _BESIDE:
            with suppress(FileNotFoundError):
                check_file(path.with_name(path.name + suffix), close=close)
    except OSError as error:
        raise unavailable(error, path.parent) from error
