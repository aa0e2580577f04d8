"""The folder of a world before its database is opened: what may be there, and the making of a new world in it.

Invariant: no new world is made where another one has been. When the database is gone or empty and other files of a
world are there, those may be the only ones that know what was done outside.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from demiurge.errors import Conflict
from demiurge.stores.blob_files import sync_folder
from demiurge.stores.errors import lost, unavailable
from demiurge.stores.private import check_file, make_file
from demiurge.stores.sqlite import schema
from demiurge.stores.sqlite.database import Database
from demiurge.stores.sqlite.logged_attempts import FILE
from demiurge.values.clock import Clock

__all__ = ["DATABASE", "check_database", "check_remains", "create", "remains"]

DATABASE: Final = "journal.db"
_ALL: Final = (DATABASE, "journal.db-wal", "journal.db-shm", "journal.db-journal")
_REMAINS: Final = ("ledger.db", "claims-of-ledger.db", FILE, "mark.key", "journal.db-wal", "archives", "blobs")


def check_database(folder: Path, *, make: bool = False, close: bool = True) -> None:
    """Refuses links, which SQLite would follow, and with `close` takes all rights on the files from others; SQLite
    gives `journal.db-wal` the mode that `journal.db` has. Raises Unavailable."""
    try:
        for name in _ALL:
            with suppress(FileNotFoundError):
                check_file(folder / name, close=close)
    except OSError as error:
        raise unavailable(error, folder) from error
    if make:
        make_file(folder / DATABASE)


def remains(folder: Path) -> str | None:
    """A sentence about a world that has been in `folder` and whose database is gone or empty; None where there is none.
    Raises Unavailable."""
    try:
        if not _is_empty(folder / DATABASE):
            return None
        found = [name for name in _REMAINS if not _is_empty(folder / name)]
    except OSError as error:
        raise unavailable(error, folder) from error
    if not found:
        return None
    return f"{folder / DATABASE} is gone or empty, and other files of a world are there ({', '.join(found)})."


def check_remains(folder: Path) -> None:
    """Raises Damaged (`lost`) for what `remains` says."""
    if found := remains(folder):
        raise lost(found)


def create(folder: Path, connections: Database, world_id: str, clock: Clock) -> None:
    """Makes the tables of a new world. Raises Conflict (`exists`), Unavailable."""
    with connections.writing("create") as db:
        if not schema.is_empty(db):
            raise Conflict(f"There is a world in {folder} already: open it, or choose another folder.", code="exists")
        schema.create_tables(db, world_id, clock.now_ns() // 10**9)
    try:
        sync_folder(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise unavailable(error, folder) from error


def _is_empty(path: Path) -> bool:
    """Whether there is no such file or folder, or nothing in it."""
    try:
        if path.is_dir() and not path.is_symlink():
            return not any(entry for entry in path.rglob("*") if not entry.is_dir())
        return path.lstat().st_size == 0
    except FileNotFoundError:
        return True
