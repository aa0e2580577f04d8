"""The effect ledger in one SQLite file.

Invariant: a claim is on disk before its call runs, and the call's result before anybody is told. Several threads and
processes may use the file at the same time. If one of them dies, however it dies, its running calls are in doubt from
that moment on, for all others and for the next process that opens the file. Only its user can read the file. The number
of claims is kept in a second file (`stores.claim_count`), so that a ledger that has lost some is noticed; a single row
that was deleted shows in the links between the rows (`ledger_links`).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from demiurge.errors import Damaged, DemiurgeError, UsageError
from demiurge.stores.blob_files import sync_folder
from demiurge.stores.claim_count import ClaimCount, ClaimTally
from demiurge.stores.errors import unavailable
from demiurge.stores.private import make_file
from demiurge.stores.read_only import ReadOnly
from demiurge.stores.sqlite.claim_owners import ClaimOwners
from demiurge.stores.sqlite.database import Database
from demiurge.stores.sqlite.fork_guard import ForkGuard
from demiurge.stores.sqlite.ledger_rows import (
    FORMAT,
    SqliteRows,
    check_tables,
    intact_rows,
    prepare,
    read_tally,
)
from demiurge.stores.sqlite.read_only import ReadOnlyDatabase
from demiurge.stores.sqlite.user_file import check_files
from demiurge.tools.ledger.ledger import EffectLedger
from demiurge.tools.ledger.store import EntryState, LedgerRow, LedgerSlot, Write
from demiurge.values.clock import Clock, Entropy, SystemEntropy

__all__ = ["SqliteEffectLedger"]

_CHECKED_BYTES: Final = 16 * 2**20
"""A file up to this size is checked completely when it is opened; that takes at most about 0.1 s."""


class SqliteEffectLedger(EffectLedger):
    """A ledger in the file `path`, made if need be, with the folder `<path>-owners` and the file `claims-of-<name>`
    beside it; their folder must exist.

    All methods raise Unavailable (also if other users can write to the folder, or the file is a link), UsageError
    (another program's database, or one of a newer Demiurge), Damaged (also if counted claims are missing). With
    `accepts_losses` a damaged ledger starts anew with its intact entries, and the old file is kept as `<path>.lost`: a
    call whose entry is lost runs again. With `read_only` no file is made or changed. Close it at the end; a call that
    still runs is then in doubt.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        accepts_losses: bool = False,
        read_only: ReadOnly | None = None,
    ) -> None:
        path = Path(path)
        self._file = _SqliteLedgerStore(path, entropy or SystemEntropy(), accepts_losses, read_only)
        super().__init__(clock=clock, entropy=entropy, store=self._file)

    @property
    def is_read_only(self) -> bool:
        return self._file.read_only is not None

    @property
    def id(self) -> str:
        """The ledger's id: 32 hexadecimal digits. A copy has the id of its original."""
        return self._file.id.hex()

    def check(self) -> None:
        """Checks all rows, and the number of claims. Raises Damaged if a row is missing or has changed; Unavailable."""
        self._file.check()

    def copy_to(self, path: Path) -> None:
        """Copies this ledger to the new file `path`; open claims are in doubt in the copy. Raises Unavailable."""
        self._file.copy_to(path)

    def results(self) -> list[LedgerRow]:
        """Returns all calls that are done, with their results."""
        with self._file.reading() as rows:
            return rows.done_rows()

    def erase_results(self, slots: Iterable[LedgerSlot], message: str) -> None:
        """Erases the results of these calls for good, also from the file's free pages and its log. The calls stay done:
        an equal call is not run, and is answered with `message`."""
        with self._file.writing("edit") as rows:
            for slot in slots:
                row = rows.get(slot)
                if row is not None and row.state is EntryState.DONE:
                    rows.put(row._replace(message=message, value=b"null", excluded=True, rendering="", parts=()))
        self._file.rewrite()

    def close(self) -> None:
        """Closes the ledger; a second call does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class _SqliteLedgerStore:
    """The `demiurge.tools.ledger.store.LedgerStore` of one SQLite file."""

    blocking = True

    def __init__(self, path: Path, entropy: Entropy, accepts_losses: bool, read_only: ReadOnly | None) -> None:
        self._path, self._count, self.read_only = path, _claim_count(path), read_only
        self._accepts_losses = accepts_losses
        self._closed = False
        self._db: Database | None = None
        self._opening = threading.Lock()
        check_files(path, close=read_only is None)
        self._fork_guard = ForkGuard(self._close_before_fork)
        with self._fork_guard.inside():
            self._owners = ClaimOwners(path.with_name(f"{path.name}-owners"), entropy, read_only=read_only is not None)
            if read_only is not None:
                self._open_read_only(entropy, read_only)
                return
            with self._owners.alone():
                try:
                    self._create(entropy.token(16))
                except Damaged:
                    if not accepts_losses:
                        raise
                    self._create(entropy.token(16), _set_aside(path))

    def _create(self, new_id: bytes, saved: Sequence[tuple[Any, ...]] | None = None) -> None:
        """Opens or makes the file. `saved`: the rows of a new ledger in place of one that was lost."""
        before = self._count.read() if saved is None else None
        if before is not None and not self._path.exists():
            raise Damaged(f"{self._path} is gone, and {before.claims} calls are counted in {self._count.path}.")
        make_file(self._path)
        db = Database(self._path)
        try:
            with db.writing("ledger.create") as connection:
                tally = prepare(connection, self._path, new_id, saved or ())
                self._compare(tally, before)
            self.id = tally.ledger
            self._count.note(tally)
            db.use_log()
            if self._accepts_losses or self._path.stat().st_size <= _CHECKED_BYTES:
                with db.reading() as connection:
                    check_tables(connection, self._path, guards=self._accepts_losses)
            sync_folder(self._path.parent)
        except OSError as error:
            db.close()
            raise unavailable(error, self._path.parent) from error
        except BaseException:
            db.close()
            raise
        self._db = db

    def _open_read_only(self, entropy: Entropy, read_only: ReadOnly) -> None:
        """Opens the file for reading; a file of an earlier format is upgraded in a private copy."""
        before = self._count.read()
        if not self._path.exists():
            raise Damaged(f"{self._path} is gone.")
        db = ReadOnlyDatabase(self._path, read_only)
        try:
            try:
                with db.reading() as connection:
                    FORMAT.check(connection, self._path)
                    tally = read_tally(connection, self._path)
            except (Damaged, UsageError):
                tally = None
            if tally is None:
                with db.upgrading() as connection:
                    tally = prepare(connection, self._path, entropy.token(16))
            self._compare(tally, before)
            self.id = tally.ledger
            if self._path.stat().st_size <= _CHECKED_BYTES:
                with db.reading() as connection:
                    check_tables(connection, self._path, guards=False)
        except OSError as error:
            db.close()
            raise unavailable(error, self._path.parent) from error
        except BaseException:
            db.close()
            raise
        self._db = db

    def _compare(self, tally: ClaimTally, count: ClaimTally | None) -> None:
        """Raises Damaged if counted claims are missing, or if claims were made and their count is missing."""
        path, other = self._path, self._count.path
        if count is None:
            if tally.claims:
                raise Damaged(f"{other}, the count of the calls in {path}, is gone or damaged.")
        elif count.ledger != tally.ledger:
            raise Damaged(f"{path} is not the ledger whose calls are counted in {other}.")
        elif count.claims > tally.claims:
            gone = count.claims - tally.claims
            raise Damaged(
                f"{path} or {path.name}-wal has lost the last {gone} of the {count.claims} calls it was told of."
            )

    @contextmanager
    def reading(self) -> Iterator[SqliteRows]:
        with self._fork_guard.inside(), self._opened().reading() as db:
            yield SqliteRows(db, self._path, self._owners.works_on)

    @contextmanager
    def writing(self, write: Write) -> Iterator[SqliteRows]:
        with self._fork_guard.inside():
            with self._opened().writing(f"ledger.{write}") as db:
                rows = SqliteRows(db, self._path, self._owners.works_on)
                yield rows
            if rows.counted is not None:
                self._count.note(rows.counted)

    def hold(self, effect_id: bytes) -> str:
        with self._fork_guard.inside():
            self._opened().check_writable()
            return self._owners.hold(effect_id)

    def drop(self, claim: LedgerRow, *, lost: bool) -> None:
        with self._fork_guard.inside():
            self._owners.drop(claim.owner, claim.effect_id, lost=lost)

    def check(self) -> None:
        """Raises Damaged if a row is missing or has changed, or if counted claims are missing."""
        with self._fork_guard.inside(), self._opened().reading() as db:
            db.execute("BEGIN")  # one state of all tables
            try:
                count, tally = self._count.read(), read_tally(db, self._path)
                if tally is None:
                    raise Damaged(f"{self._path} is damaged (its count of claims is gone): restore it from a backup.")
                self._compare(tally, count)
                check_tables(db, self._path, guards=True)
            finally:
                db.execute("ROLLBACK")

    def rewrite(self) -> None:
        """Rewrites the file without deleted data."""
        with self._fork_guard.inside():
            self._opened().rewrite()

    def copy_to(self, path: Path) -> None:
        try:
            make_file(path)
            with self._fork_guard.inside(), self._opened().reading() as db, closing(sqlite3.connect(path)) as copy:
                db.backup(copy)
                tally = read_tally(copy, path)
            if tally is not None:
                _claim_count(path).note(tally)
            sync_folder(path.parent)
        except (OSError, sqlite3.Error) as error:
            raise unavailable(error, path.parent) from error

    def close(self) -> None:
        with self._fork_guard.inside():
            self._closed = True
            self._owners.close()
            db, self._db = self._db, None
            if db is not None:
                db.close()

    def _opened(self) -> Database:
        """Returns the open database; opens it again after a fork."""
        if self._closed:
            raise UsageError("This ledger is closed: open it again.")
        with self._opening:
            if self._db is None:
                only = self.read_only
                self._db = Database(self._path) if only is None else ReadOnlyDatabase(self._path, only)
            return self._db

    def _close_before_fork(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(DemiurgeError):
                db.close(tidy=False)


def _claim_count(path: Path) -> ClaimCount:
    """The count's file name does not begin with the ledger's, so that restoring `ledger.db*` does not restore the
    count."""
    return ClaimCount(path.with_name(f"claims-of-{path.name}"))


def _set_aside(path: Path) -> list[tuple[Any, ...]]:
    """Moves a damaged ledger's files away and returns its intact rows. Raises Unavailable."""
    aside = path.with_name(f"{path.name}.lost")
    saved = intact_rows(path if path.exists() else aside)
    try:
        for suffix in ("-wal", "-shm", ""):
            with suppress(FileNotFoundError):
                path.with_name(path.name + suffix).replace(aside.with_name(aside.name + suffix))
    except OSError as error:
        raise unavailable(error, path.parent) from error
    return saved
