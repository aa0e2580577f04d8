"""The folder of a world before its database is opened: its checks, and the creation of a new world.

Invariant: no new world is made in the folder of a former one. If the database is gone or empty and other files of a
world are there, those may be the only record of effects that took place.
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
    """Refuses links, which SQLite would follow; `close` removes all permissions of other users on the files. SQLite
    gives `journal.db-wal` the mode of `journal.db`. Raises Unavailable."""
    try:
        for name in _ALL:
            with suppress(FileNotFoundError):
                check_file(folder / name, close=close)
    except OSError as error:
        raise unavailable(error, folder) from error
    if make:
        make_file(folder / DATABASE)


def remains(folder: Path) -> str | None:
    """Returns a sentence about a former world in `folder` whose database is gone or empty; None if there is none.
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
    """Raises Damaged (`lost`) if `remains` finds a former world."""
    if found := remains(folder):
        raise lost(found)


def create(folder: Path, database: Database, world_id: str, clock: Clock) -> None:
    """Makes the tables of a new world. Raises Conflict (`exists`), Unavailable."""
    with database.writing("create") as db:
        if not schema.is_empty(db):
            raise Conflict(f"There is a world in {folder} already: open it, or choose another folder.", code="exists")
        schema.create_tables(db, world_id, clock.now_ns() // 10**9)
    try:
        sync_folder(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise unavailable(error, folder) from error


def _is_empty(path: Path) -> bool:
    """Returns whether there is no such file or folder, or it is empty."""
    try:
        if path.is_dir() and not path.is_symlink():
            return not any(entry for entry in path.rglob("*") if not entry.is_dir())
        return path.lstat().st_size == 0
    except FileNotFoundError:
        return True
