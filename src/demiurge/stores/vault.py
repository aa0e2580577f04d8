"""Where sealed credentials are kept: in memory, or in one SQLite file (seed 003 #26).

Invariant: a vault never sees a secret; what it holds is sealed, and bound to the row it is in
(`demiurge.tools.connections.broker`). So who can read the file learns which connections there are, and who can write
it can lose credentials but not move them to another tenant. The file is nobody else's to read all the same.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from demiurge.errors import Conflict, Damaged, UsageError
from demiurge.stores.errors import unavailable
from demiurge.stores.private import check_file, check_folder, make_file
from demiurge.stores.sqlite.connections import Connections
from demiurge.tools.connections.broker import Connection, SealedConnection

__all__ = ["MemoryVault", "SqliteVault"]

_FORMAT: Final = 1
_APPLICATION: Final = 0x44454D56  # "DEMV"
_STRICT: Final = "STRICT" if sqlite3.sqlite_version_info >= (3, 37) else ""
_BESIDE: Final = ("", "-wal", "-shm", "-journal")

_TABLE: Final = f"""CREATE TABLE connection (
    n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, provider TEXT NOT NULL, credential_type TEXT NOT NULL,
    tenant TEXT NOT NULL, scopes TEXT NOT NULL, expires_at_ms INTEGER, revoked_at_ms INTEGER,
    key_id TEXT NOT NULL, sealed BLOB NOT NULL) {_STRICT}"""
_COLUMNS: Final = "id, provider, credential_type, tenant, scopes, expires_at_ms, revoked_at_ms, key_id, sealed"


class MemoryVault:
    """For one process, and as long as it lives. See `demiurge.tools.connections.broker.Vault`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, SealedConnection] = {}

    def add(self, row: SealedConnection) -> None:
        with self._lock:
            if row.connection.id in self._rows:
                raise _exists()
            self._rows[row.connection.id] = row

    def get(self, connection_id: str) -> SealedConnection | None:
        return self._rows.get(connection_id)

    def list(self, tenant: str | None = None) -> Sequence[SealedConnection]:
        with self._lock:
            rows = tuple(self._rows.values())
        return tuple(row for row in rows if tenant in (None, row.connection.tenant))

    def swap(self, old: SealedConnection, new: SealedConnection) -> bool:
        with self._lock:
            if self._rows.get(old.connection.id) != old:
                return False
            self._rows[old.connection.id] = new
            return True


class SqliteVault:
    """The file `path`, made if need be; its folder must exist. Several processes may use it at a time.

    What a method returned from is on disk. Raises Unavailable (also when others can write to the folder, or the
    file is a link), UsageError (another program's database, or one of a newer Demiurge), Damaged."""

    def __init__(self, path: Path | str) -> None:
        path = Path(path)
        try:
            check_folder(path.parent)
            for suffix in _BESIDE:
                with suppress(FileNotFoundError):
                    check_file(path.with_name(path.name + suffix))
        except OSError as error:
            raise unavailable(error, path.parent) from error
        make_file(path)
        self._db = Connections(path)
        try:
            with self._db.writing("vault") as db:
                _prepare(db, path)
            self._db.use_log()
        except BaseException:
            self._db.close()
            raise

    def add(self, row: SealedConnection) -> None:
        with self._db.writing("vault") as db:
            if db.execute("SELECT 1 FROM connection WHERE id = ?", (row.connection.id,)).fetchone():
                raise _exists()
            db.execute(f"INSERT INTO connection ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _columns(row))  # noqa: S608

    def get(self, connection_id: str) -> SealedConnection | None:
        with self._db.reading() as db:
            found = db.execute(f"SELECT {_COLUMNS} FROM connection WHERE id = ?", (connection_id,)).fetchone()  # noqa: S608
        return None if found is None else _row(found)

    def list(self, tenant: str | None = None) -> Sequence[SealedConnection]:
        with self._db.reading() as db:
            found = db.execute(
                f"SELECT {_COLUMNS} FROM connection WHERE ?1 IS NULL OR tenant = ?1 ORDER BY n",  # noqa: S608
                (tenant,),
            ).fetchall()
        return tuple(map(_row, found))

    def swap(self, old: SealedConnection, new: SealedConnection) -> bool:
        same = " AND ".join(f"{name} IS ?" for name in _COLUMNS.split(", "))
        with self._db.writing("vault") as db:
            changed = db.execute(
                f"UPDATE connection SET ({_COLUMNS}) = (?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE {same}",  # noqa: S608
                _columns(new) + _columns(old),
            )
            return changed.rowcount == 1

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    db.execute(
        "PRAGMA secure_delete = 1"
    ).fetchall()  # what was sealed under an old key is overwritten, not only let go
    if db.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
        db.execute(_TABLE)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
        db.execute(f"PRAGMA user_version = {_FORMAT}")
    if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise UsageError(f"{path} is a database of another program: choose another file for the connections.")
    if db.execute("PRAGMA user_version").fetchone()[0] != _FORMAT:
        raise UsageError(
            f"{path} was made by a newer Demiurge: upgrade with `pip install --upgrade demiurge-runtime`.",
            code="newer_format",
        )


def _columns(row: SealedConnection) -> tuple[object, ...]:
    kept = row.connection
    scopes = json.dumps(kept.scopes, ensure_ascii=False)
    dates = (kept.expires_at_ms, kept.revoked_at_ms)
    return (kept.id, kept.provider, kept.credential_type, kept.tenant, scopes, *dates, kept.key_id, row.sealed)


def _row(columns: tuple[str, str, str, str, str, int | None, int | None, str, bytes]) -> SealedConnection:
    name, provider, credential_type, tenant, scopes, expires_at_ms, revoked_at_ms, key_id, sealed = columns
    try:
        words = tuple(map(str, json.loads(scopes)))
    except (TypeError, ValueError):
        raise Damaged(f"The scopes of connection {name} are damaged: restore the vault from a backup.") from None
    kept = Connection(name, provider, credential_type, tenant, words, expires_at_ms, revoked_at_ms, key_id)
    return SealedConnection(kept, sealed)


def _exists() -> Conflict:
    return Conflict("There is a connection with this id already.", code="exists")
