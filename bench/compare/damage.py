"""Changes a store behind its owner's back, as somebody with the files and an editor can."""

from __future__ import annotations

import base64
import binascii
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

__all__ = ["Place", "change", "drop_last", "places"]

Cell: TypeAlias = str | bytes


@dataclass(frozen=True)
class Place:
    """A file of a folder, or a cell of a table of a database in it: `table` is None for a file."""

    file: Path
    table: str | None = None
    column: str = ""
    rowid: int = 0

    def __str__(self) -> str:
        return self.file.name if self.table is None else f"{self.file.name}, {self.table}.{self.column}"


def places(folder: Path, text: str) -> list[Place]:
    """Returns every place that holds `text`, also inside of base64, in a fixed order."""
    found: list[Place] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        file = path.relative_to(folder)
        data = path.read_bytes()
        if data.startswith(b"SQLite format 3"):
            found += _cells(path, file, text)
        elif text.encode() in data and not path.name.endswith(("-wal", "-shm")):
            found.append(Place(file))
    return found


def change(folder: Path, place: Place, old: str, new: str) -> None:
    """Puts `new` in place of `old`, of the same length, in one place. No trigger of a database runs."""
    path = folder / place.file
    if place.table is None:
        path.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))
        return
    with closing(sqlite3.connect(path)) as database:
        where = f'"{place.table}" WHERE rowid = ?'
        (cell,) = database.execute(f'SELECT "{place.column}" FROM {where}', (place.rowid,)).fetchone()  # noqa: S608
        changed = _changed(cell, old, new)
        by_table = "FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
        triggers = database.execute(f"SELECT name, sql {by_table}", (place.table,)).fetchall()
        for name, _ in triggers:
            database.execute(f'DROP TRIGGER "{name}"')
        update = f'UPDATE "{place.table}" SET "{place.column}" = ? WHERE rowid = ?'  # noqa: S608
        database.execute(update, (changed, place.rowid))
        for _, sql in triggers:
            database.execute(sql)
        database.commit()


def drop_last(file: Path, table: str | None) -> None:
    """Removes the newest row of a table, or the last line of a file."""
    if table is None:
        file.write_text("".join(file.read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")
        return
    with closing(sqlite3.connect(file)) as database:
        gone = database.execute(f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})")  # noqa: S608
        assert gone.rowcount == 1
        database.commit()


def _cells(path: Path, file: Path, text: str) -> Iterator[Place]:
    with closing(sqlite3.connect(path)) as database:
        tables = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        for table, sql in tables:
            if "WITHOUT ROWID" in sql or sql.startswith("CREATE VIRTUAL"):
                continue
            for column in [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]:
                rows = database.execute(f'SELECT rowid, "{column}" FROM "{table}" ORDER BY rowid')  # noqa: S608
                for rowid, cell in rows.fetchall():
                    if isinstance(cell, Cell) and _changed(cell, text, "") != cell:
                        yield Place(file, table, column, rowid)


def _changed(cell: Cell, old: str, new: str) -> Cell:
    if isinstance(cell, bytes):
        return cell.replace(old.encode(), new.encode())
    try:
        decoded = base64.b64decode(cell, validate=True)
    except (ValueError, binascii.Error):
        return cell.replace(old, new)
    if old.encode() not in decoded:
        return cell.replace(old, new)
    return base64.b64encode(decoded.replace(old.encode(), new.encode())).decode()
