"""A connection store in one SQLite file, for several processes.

Invariant: the store never sees a secret; its rows are sealed, and bound to their place
(`demiurge.tools.connections.connection`). So a reader of the file learns which connections there are, and a writer of
it can delete credentials but not move them to another tenant. Only its user can read the file all the same. A damaged
row does not keep the other rows from being read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from demiurge.errors import Damaged
from demiurge.stores.connection_store import exists
from demiurge.stores.private import make_file
from demiurge.stores.sqlite.database import Database
from demiurge.stores.sqlite.user_file import STRICT, FileFormat, check_files
from demiurge.tools.connections.connection import Connection, DamagedConnections, SealedConnection

__all__ = ["SqliteConnectionStore"]

_TABLE: Final = f"""CREATE TABLE connection (
    n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, provider TEXT NOT NULL, credential_type TEXT NOT NULL,
    tenant TEXT NOT NULL, scopes TEXT NOT NULL, expires_at_ms INTEGER, revoked_at_ms INTEGER,
    key_id TEXT NOT NULL, sealed BLOB NOT NULL) {STRICT}"""
_FORMAT: Final = FileFormat("connections", 0x44454D56, 1, (_TABLE,))  # "DEMV"
_COLUMNS: Final = "id, provider, credential_type, tenant, scopes, expires_at_ms, revoked_at_ms, key_id, sealed"


class SqliteConnectionStore:
    """A connection store in the file `path`, made if need be; its folder must exist. Several processes may use it at
    the same time.

    A write is on disk when its method returns. Raises Unavailable (also if other users can write to the folder, or the
    file is a link), UsageError (another program's database, or one of a newer Demiurge), Damaged.
    """

    blocking = True

    def __init__(self, path: Path | str) -> None:
        path = Path(path)
        check_files(path)
        make_file(path)
        self._db = Database(path)
        try:
            with self._db.writing("connections") as db:
                db.execute("PRAGMA secure_delete = 1").fetchall()  # deleted rows are overwritten
                _FORMAT.prepare(db, path)
            self._db.use_log()
        except BaseException:
            self._db.close()
            raise

    def add(self, row: SealedConnection) -> None:
        with self._db.writing("connections") as db:
            if db.execute("SELECT 1 FROM connection WHERE id = ?", (row.connection.id,)).fetchone():
                raise exists()
            db.execute(f"INSERT INTO connection ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _columns(row))  # noqa: S608

    def get(self, connection_id: str) -> SealedConnection | None:
        if not _is_text(connection_id):
            return None
        with self._db.reading() as db:
            db.text_factory = _text
            found = db.execute(f"SELECT {_COLUMNS} FROM connection WHERE id = ?", (connection_id,)).fetchone()  # noqa: S608
        return None if found is None else _row(found)

    def list(self, tenant: str | None = None) -> Sequence[SealedConnection]:
        with self._db.reading() as db:
            db.text_factory = _text
            found = db.execute(
                f"SELECT {_COLUMNS} FROM connection WHERE ?1 IS NULL OR tenant = ?1 ORDER BY n",  # noqa: S608
                (tenant,),
            ).fetchall()
        rows, damaged = [], []
        for columns in found:
            try:
                rows.append(_row(columns))
            except Damaged:
                damaged.append(str(columns[0]))
        if damaged:
            raise DamagedConnections(damaged, rows)
        return tuple(rows)

    def swap(self, old: SealedConnection, new: SealedConnection) -> bool:
        same = " AND ".join(f"{name} IS ?" for name in _COLUMNS.split(", "))
        with self._db.writing("connections") as db:
            changed = db.execute(
                f"UPDATE connection SET ({_COLUMNS}) = (?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE {same}",  # noqa: S608
                _columns(new) + _columns(old),
            )
            return changed.rowcount == 1

    def discard(self, connection_id: str, tenant: str | None = None) -> bool:
        with self._db.writing("connections") as db:
            db.text_factory = _text
            found = db.execute(f"SELECT n, {_COLUMNS} FROM connection NOT INDEXED").fetchall()  # noqa: S608
            for n, *columns in found:
                theirs = tenant in (None, columns[3])
                if str(columns[0]) == connection_id and theirs and _is_damaged(columns):
                    db.execute("DELETE FROM connection WHERE n = ?", (n,))
                    return True
        return False

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _columns(row: SealedConnection) -> tuple[object, ...]:
    info = row.connection
    scopes = json.dumps(info.scopes, ensure_ascii=False)
    dates = (info.expires_at_ms, info.revoked_at_ms)
    return (info.id, info.provider, info.credential_type, info.tenant, scopes, *dates, info.key_id, row.sealed)


def _is_damaged(columns: Sequence[Any]) -> bool:
    try:
        _row(columns)
    except Damaged:
        return True
    return False


def _row(columns: Sequence[Any]) -> SealedConnection:
    name, provider, credential_type, tenant, scopes, expires_at_ms, revoked_at_ms, key_id, sealed = columns
    try:
        "".join((name, provider, credential_type, tenant, scopes, key_id)).encode()
        words = tuple(map(str, json.loads(scopes)))
    except (TypeError, ValueError):
        raise Damaged(f"Connection {name!a} is damaged: restore the connection store from a backup.") from None
    info = Connection(name, provider, credential_type, tenant, words, expires_at_ms, revoked_at_ms, key_id)
    return SealedConnection(info, sealed)


def _is_text(name: str) -> bool:
    """Returns False for the name of a damaged row, which is not UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(data: bytes) -> str:
    """Decodes any bytes. Bytes that are not UTF-8 are the damage of one row, which `_row` reports."""
    return data.decode(errors="surrogateescape")
