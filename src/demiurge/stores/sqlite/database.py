"""A SQLite database: one connection that writes, several that read.

Invariant: a write is one transaction that is on disk (WAL, synchronous=FULL) when `writing` ends, or is rolled back.
After a failure (disk full, I/O error, an exception in the block) the connection is clean and can be used again. Readers
see committed data only and never make a writer wait. Any thread may use both.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

from demiurge import faults
from demiurge.errors import Damaged, Unavailable, UsageError
from demiurge.stores.errors import unavailable

__all__ = ["Database"]

_WAIT_SECONDS: Final = 5.0
_IDLE_READERS: Final = 4
_MOST_UNUSED: Final = 0.25

_SETTINGS: Final = (
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = 1",  # macOS: fsync alone stops at the drive's cache
    "PRAGMA checkpoint_fullfsync = 1",
    "PRAGMA journal_size_limit = 16777216",
    "PRAGMA cache_size = -8192",
    "PRAGMA cell_size_check = 1",
    "PRAGMA temp_store = MEMORY",
)

_CODES: Final = {
    sqlite3.SQLITE_FULL: "disk_full",
    sqlite3.SQLITE_IOERR: "disk_error",
    sqlite3.SQLITE_NOMEM: "disk_error",
    sqlite3.SQLITE_READONLY: "read_only",
    sqlite3.SQLITE_CANTOPEN: "read_only",
    sqlite3.SQLITE_PERM: "read_only",
    sqlite3.SQLITE_BUSY: "locked",
    sqlite3.SQLITE_LOCKED: "locked",
    sqlite3.SQLITE_PROTOCOL: "locked",
}
_ABOUT_FILE: Final = frozenset({"read_only", "locked"})
_OUR_BUGS: Final = (
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    sqlite3.DataError,
    sqlite3.NotSupportedError,
)


class _Reading:
    """The context manager of `Database.reading`. It is a class, because a generator costs more than the reads
    inside."""

    __slots__ = ("_database", "_db")

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> sqlite3.Connection:
        self._db = self._database.take_reader()
        return self._db

    def __exit__(self, kind: object, error: BaseException | None, tb: object) -> None:
        if error is None:
            self._database.give_back(self._db)
            return
        self._db.close()
        self._database.raise_translated(error)


class Database:
    """The database in the file `path`, made if `create`. Raises Unavailable, Damaged (not a database)."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self._begin(path)
        self._writer = self._connect("rwc" if create else "rw", *_SETTINGS)

    def _begin(self, path: Path) -> None:
        """Sets the fields. `_file` is the file that is opened; errors name `_path`."""
        self._path = self._file = path
        self._write_lock = threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        self._readers_lock = threading.Lock()
        self._closed = False

    def use_log(self) -> None:
        """Turns write-ahead logging on. Call it only for a file of this program: it changes the file."""
        with self._write_lock, self._translating():
            self._writer.execute("PRAGMA journal_mode = WAL").fetchall()

    @contextmanager
    def writing(self, name: str) -> Iterator[sqlite3.Connection]:
        """Runs one transaction: durable when the block ends, undone if the block raises. `name` is the first part of
        its fault points' names."""
        with self._write_lock, self._translating():
            self._check_open()
            db = self._writer
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                faults.point(f"{name}.before_commit")
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:  # SQLite may have rolled back itself
                    with suppress(sqlite3.Error):
                        db.execute("ROLLBACK")
                raise
            faults.point(f"{name}.after_commit")

    def check_writable(self) -> None:
        """Raises if the database cannot be written to; for callers that write to other files first."""

    def upgrading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Runs one transaction that upgrades a file of an earlier format."""
        return self.writing("upgrade")

    def reading(self) -> _Reading:
        """Lends a connection for reading. Keep the block short: the connection must not be used after it."""
        return _Reading(self)

    def take_reader(self) -> sqlite3.Connection:
        self._check_open()
        with self._readers_lock:
            if self._readers:
                return self._readers.pop()
        return self._new_reader()

    def _new_reader(self) -> sqlite3.Connection:
        return self._connect("rw", "PRAGMA query_only = 1", *_SETTINGS)

    def give_back(self, db: sqlite3.Connection) -> None:
        with self._readers_lock:
            if not self._closed and len(self._readers) < _IDLE_READERS:
                self._readers.append(db)
                return
        db.close()

    def rewrite(self) -> None:
        """Rewrites the file without deleted data, so that neither it nor its log holds any. Needs disk space for a
        second file. Raises Unavailable."""
        with self._write_lock, self._translating():
            self._check_open()
            self._writer.execute("PRAGMA temp_store = FILE")  # a copy of the database goes there
            try:
                faults.point("store.before_rewrite")
                self._writer.execute("VACUUM")
            finally:
                self._writer.execute("PRAGMA temp_store = MEMORY")
            faults.point("store.after_rewrite")
            if self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                raise unavailable(OSError("a reader is in the way"), self._path, "locked")

    def make_room(self) -> None:
        """Returns free pages to the system if they are more than a quarter of the file."""
        with self.reading() as db:
            free, pages = (db.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("freelist_count", "page_count"))
        if free > pages * _MOST_UNUSED:
            with suppress(Unavailable):  # no room for a second file, or a reader in the way: the file keeps its size
                self.rewrite()

    def close(self, *, tidy: bool = True) -> None:
        """Moves all rows to the main file if `tidy`, and closes. Raises Unavailable if moving fails: the rows stay in
        the log."""
        with self._write_lock:
            if self._closed:
                return
            self._closed = True
            self._close_readers()
            try:
                if tidy:
                    self._tidy()
            finally:
                self._writer.close()

    def _close_readers(self) -> None:
        with self._readers_lock:
            while self._readers:
                self._readers.pop().close()

    def _tidy(self) -> None:
        with self._translating():
            faults.point("store.before_checkpoint")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            faults.point("store.after_checkpoint")

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("This store is closed: open it again.")

    def _connect(self, mode: str, *settings: str) -> sqlite3.Connection:
        uri = f"{self._file.absolute().as_uri()}?mode={mode}"
        with self._translating():
            db = sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
            try:
                for setting in settings:
                    db.execute(setting).fetchall()
            except BaseException:
                db.close()
                raise
            return db

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.raise_translated(error)
            raise

    def raise_translated(self, error: BaseException) -> None:
        """Raises the Demiurge error for an error of SQLite or of the disk; returns for any other error."""
        if isinstance(error, sqlite3.Error):
            translated = self._translated(error)
            if translated is not error:
                raise translated from error
        elif isinstance(error, UnicodeDecodeError):  # invalid text in a row, or in SQLite's message about it
            raise self._damaged(error) from error
        elif isinstance(error, OSError):
            raise unavailable(error, self._path.parent) from error

    def _translated(self, error: sqlite3.Error) -> Exception:
        if isinstance(error, _OUR_BUGS):
            return error
        extended = getattr(error, "sqlite_errorcode", None)  # absent if Python cannot decode the message
        code = _CODES.get(extended & 0xFF) if extended is not None else None
        if extended == sqlite3.SQLITE_IOERR_SHMSIZE:  # no room for the index of the log
            code = "disk_full"
        if code == "read_only" and (cause := _no_files()) is not None:
            return unavailable(cause, self._path)
        if code is None:  # our statements are fixed: if SQLite cannot run one, the tables have changed
            return self._damaged(error)
        return unavailable(error, self._path if code in _ABOUT_FILE else self._path.parent, code)

    def _damaged(self, cause: Exception) -> Damaged:
        return Damaged(f"{self._path} is damaged ({cause}): restore it from a backup.")


def _no_files() -> OSError | None:
    """Returns the error if this process may open no more files; SQLite reports that like a missing permission."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error
    return None
