"""A database that is only read, because its disk takes no writes or its owner does not answer.

Invariant: reads see one committed state of the database file and its write-ahead log, and nothing is changed. While
another process has the database open, SQLite's shared memory file says which part of the log counts. If no process has
it open, the log is read without that file, which could not be made on such a disk. SQLite cannot read a database whose
log is missing and cannot be made, nor upgrade one that it only reads: then a private copy is read.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

from demiurge.errors import DemiurgeError, NotFound, Unavailable
from demiurge.stores.errors import unavailable
from demiurge.stores.lock import OwnerLock, world_lock
from demiurge.stores.private import check_folder
from demiurge.stores.read_only import ReadOnly
from demiurge.stores.sqlite.database import Database
from demiurge.stores.sqlite.world_folder import DATABASE, check_database, check_remains

__all__ = ["ReadOnlyDatabase", "open_read_only"]

_SETTINGS: Final = (
    "PRAGMA query_only = 1",
    "PRAGMA cache_size = -8192",
    "PRAGMA cell_size_check = 1",
    "PRAGMA temp_store = MEMORY",
)
_COPIED: Final = ("", "-wal", "-journal")


def open_read_only(folder: Path, why: DemiurgeError) -> tuple[OwnerLock, ReadOnlyDatabase]:
    """Returns the lock and the database of the world in `folder`; the caller releases both. Raises as
    `SqliteStore.open_read_only`."""
    path = folder / DATABASE
    try:
        path.stat()
        check_folder(folder)
    except FileNotFoundError:
        raise NotFound(f"There is no world in {folder}: make one with `demiurge init`.") from None
    except OSError as error:
        raise unavailable(error, folder) from error
    lock = world_lock(folder)
    read_only = ReadOnly(why, alone=lock.acquire_shared())
    try:
        check_remains(folder)
        check_database(folder, close=False)
        return lock, ReadOnlyDatabase(path, read_only)
    except BaseException:
        lock.release()
        raise


class ReadOnlyDatabase(Database):
    """The database in the file `path`, only read. With `read_only.alone` the caller holds the lock that keeps every
    other process from opening it. Writing methods raise `read_only.why`. Raises Unavailable, Damaged (not a
    database)."""

    def __init__(self, path: Path, read_only: ReadOnly) -> None:
        self._begin(path)
        self.read_only = read_only
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        try:
            self._check_readable()
        except Unavailable as error:
            if not read_only.alone or error.code != "read_only":
                raise
            self._copy()
            self._check_readable()

    def use_log(self) -> None:
        """Does nothing: the file must not change."""

    def check_writable(self) -> None:
        self.read_only.refuse()

    def writing(self, name: str) -> NoReturn:
        self.read_only.refuse()

    def rewrite(self) -> None:
        self.read_only.refuse()

    @contextmanager
    def upgrading(self) -> Iterator[sqlite3.Connection]:
        """Runs one transaction on a private copy, which is read from then on."""
        if not self.read_only.alone:
            self.read_only.refuse()
        self._close_readers()
        self._copy()
        with self._translating():
            db = self._connect("rw")
            try:
                db.execute("BEGIN IMMEDIATE")
                yield db
                db.execute("COMMIT")
            finally:
                db.close()

    def close(self, *, tidy: bool = True) -> None:
        self._closed = True
        self._close_readers()
        if self._folder is not None:
            with suppress(OSError):
                self._folder.cleanup()

    def _new_reader(self) -> sqlite3.Connection:
        if self._folder is not None:
            return self._connect("rw", *_SETTINGS)
        if self.read_only.alone:  # the log's index is kept in memory, and no lock is needed
            return self._connect("ro&vfs=unix-none", "PRAGMA locking_mode = EXCLUSIVE", *_SETTINGS)
        return self._connect("ro", *_SETTINGS)

    def _check_readable(self) -> None:
        with self.reading() as db:
            db.execute("SELECT 1 FROM sqlite_master").fetchone()

    def _copy(self) -> None:
        """Copies the database with its log to a private folder. Raises Unavailable."""
        if self._folder is not None:
            return
        place = self._path.parent
        try:
            place = Path(tempfile.gettempdir())
            self._folder = tempfile.TemporaryDirectory(prefix="demiurge-", ignore_cleanup_errors=True)
            place = Path(self._folder.name)
            for suffix in _COPIED:
                with suppress(FileNotFoundError):
                    name = self._path.name + suffix
                    shutil.copyfile(self._path.with_name(name), place / name)
        except OSError as error:
            raise unavailable(error, place) from error
        self._file = place / self._path.name
