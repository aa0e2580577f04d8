"""Changes a store behind its owner's back, as somebody with the files and an editor can."""

from __future__ import annotations

import base64
import binascii
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

__all__ = ["change", "drop_last"]


def change(folder: Path, old: str, new: str) -> None:
    """Puts `new` in place of `old`, of the same length, in every file, also inside of base64 in a database."""
    assert len(old) == len(new)
    places = 0
    for path in _files(folder):
        if _is_database(path):
            with closing(sqlite3.connect(path)) as database:
                places += sum(_change_cells(database, table, old, new) for table in _tables(database))
                database.commit()
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        data = path.read_bytes()
        if old.encode() in data:
            places += data.count(old.encode())
            path.write_bytes(data.replace(old.encode(), new.encode()))
    assert places, f"{old} is nowhere in {folder}"


def drop_last(file: Path, table: str | None) -> None:
    """Removes the newest row of a table, or the last line of a file."""
    if table is None:
        file.write_text("".join(file.read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")
        return
    with closing(sqlite3.connect(file)) as database:
        gone = database.execute(f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})")  # noqa: S608
        assert gone.rowcount == 1
        database.commit()


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(path for path in folder.rglob("*") if path.is_file())


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(15) == b"SQLite format 3"


def _tables(database: sqlite3.Connection) -> list[str]:
    found = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    return [name for name, sql in found if "WITHOUT ROWID" not in sql]


def _change_cells(database: sqlite3.Connection, table: str, old: str, new: str) -> int:
    """Changes the cells that hold `old` in base64; the others are changed as bytes of the file."""
    changed = 0
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
    for column in columns:
        for rowid, cell in database.execute(f'SELECT rowid, "{column}" FROM "{table}"').fetchall():  # noqa: S608
            decoded = _decoded(cell)
            if decoded is not None and old.encode() in decoded:
                written = base64.b64encode(decoded.replace(old.encode(), new.encode())).decode()
                database.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (written, rowid))  # noqa: S608
                changed += 1
    return changed


def _decoded(cell: Any) -> bytes | None:
    if not isinstance(cell, str) or len(cell) < 16:
        return None
    try:
        return base64.b64decode(cell, validate=True)
    except (ValueError, binascii.Error):
        return None
