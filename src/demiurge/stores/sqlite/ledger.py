"""The ledger of what tools have done, in one SQLite file (seed 004, Idempotency Ledger).

Invariant: a claim is on disk before its call runs, and what the call did before anybody is told. Several threads and
processes may use the file at a time; when one of them dies, however it dies, what it was at is in doubt from that
moment on, for all others and for the next one that opens the file. Nobody but its user can read it.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from demiurge.errors import DemiurgeError, UsageError
from demiurge.stores.blob_files import sync_folder
from demiurge.stores.errors import unavailable
from demiurge.stores.private import make_file
from demiurge.stores.sqlite.connections import Connections
from demiurge.stores.sqlite.gate import Gate
from demiurge.stores.sqlite.ledger_rows import FORMAT, SqliteRows, check_tables
from demiurge.stores.sqlite.own_file import check_files
from demiurge.stores.sqlite.owners import Owners
from demiurge.tools.ledger.effects import EffectLedger
from demiurge.tools.ledger.store import LedgerRow, Write
from demiurge.values.clock import Clock, Entropy, SystemEntropy

__all__ = ["SqliteEffectLedger"]

_CHECKED_BYTES: Final = 16 * 2**20
"""Up to this size a file is checked as a whole when it is opened; that takes about a tenth of a second at most."""


class SqliteEffectLedger(EffectLedger):
    """The file `path`, made if need be, and the folder `<path>-owners`; their folder must exist.

    Raises Unavailable (also when others can write to the folder, or the file is a link), UsageError (another program's
    database, or one of a newer Demiurge), Damaged; so do all methods. Close it at the end; a call that still runs is
    then in doubt."""

    def __init__(self, path: Path | str, *, clock: Clock | None = None, entropy: Entropy | None = None) -> None:
        self._file = _SqliteLedgerStore(Path(path), entropy if entropy is not None else SystemEntropy())
        super().__init__(clock=clock, entropy=entropy, store=self._file)

    def copy_to(self, path: Path) -> None:
        """Make a ledger in the new file `path` that knows what this one does; what is claimed here is in doubt there.
        Raises Unavailable."""
        self._file.copy_to(path)

    def close(self) -> None:
        """A second call does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class _SqliteLedgerStore:
    """See `demiurge.tools.ledger.store.LedgerStore`."""

    blocking = True

    def __init__(self, path: Path, entropy: Entropy) -> None:
        self._path = path
        self._closed = False
        self._db: Connections | None = None
        self._opening = threading.Lock()
        check_files(path)
        self._gate = Gate(self._put_away)
        with self._gate.inside():
            self._owners = Owners(path.with_name(f"{path.name}-owners"), entropy)
            self._create()

    def _create(self) -> None:
        with self._owners.alone():
            make_file(self._path)
            db = Connections(self._path)
            try:
                with db.writing("ledger.create") as connection:
                    FORMAT.prepare(connection, self._path)
                db.use_log()
                if self._path.stat().st_size <= _CHECKED_BYTES:
                    with db.reading() as connection:
                        check_tables(connection, self._path)
                sync_folder(self._path.parent)
            except OSError as error:
                db.close()
                raise unavailable(error, self._path.parent) from error
            except BaseException:
                db.close()
                raise
        self._db = db

    @contextmanager
    def reading(self) -> Iterator[SqliteRows]:
        with self._gate.inside(), self._opened().reading() as db:
            yield SqliteRows(db, self._path, self._owners.works_on)

    @contextmanager
    def writing(self, write: Write) -> Iterator[SqliteRows]:
        with self._gate.inside(), self._opened().writing(f"ledger.{write}") as db:
            yield SqliteRows(db, self._path, self._owners.works_on)

    def hold(self, effect_id: bytes) -> str:
        with self._gate.inside():
            return self._owners.hold(effect_id)

    def drop(self, claim: LedgerRow, *, lost: bool) -> None:
        with self._gate.inside():
            self._owners.drop(claim.owner, claim.effect_id, lost=lost)

    def copy_to(self, path: Path) -> None:
        try:
            make_file(path)
            with self._gate.inside(), self._opened().reading() as db, closing(sqlite3.connect(path)) as copy:
                db.backup(copy)
            sync_folder(path.parent)
        except (OSError, sqlite3.Error) as error:
            raise unavailable(error, path.parent) from error

    def close(self) -> None:
        with self._gate.inside():
            self._closed = True
            self._owners.close()
            db, self._db = self._db, None
            if db is not None:
                db.close()

    def _opened(self) -> Connections:
        """Opened again after a fork."""
        if self._closed:
            raise UsageError("This ledger is closed: open it again.")
        with self._opening:
            if self._db is None:
                self._db = Connections(self._path)
            return self._db

    def _put_away(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(DemiurgeError):
                db.close(tidy=False)
