"""The tables of a world, and the checks before they are used.

Invariant: `user_version` of the file is the format that wrote it; a file of a newer format is refused and left as it
is. All tables are made in one transaction, so a file holds a whole world or none.

The checks when a world is opened cost the same however long its journal is: the file's marks here, and the ends of open
units (`journal.find_damage`). `rows.verify_journal` checks everything.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final
from zlib import crc32

from demiurge.errors import Damaged, NotFound, UsageError
from demiurge.stores.errors import OR_ACCEPT
from demiurge.stores.sqlite import waiting
from demiurge.stores.sqlite.schema_objects import check_objects

__all__ = [
    "FORMAT",
    "MAKERS",
    "create_tables",
    "format_of",
    "get_meta",
    "indexed_from",
    "is_empty",
    "make_all",
    "next_position",
    "read_world_id",
    "set_indexed_from",
    "set_meta",
    "upgrade",
]

FORMAT: Final = 4
_APPLICATION: Final = 0x44454D49  # "DEMI"
_STRICT: Final = "STRICT" if sqlite3.sqlite_version_info >= (3, 37) else ""

# `guard` is a CRC-32 over the columns that no hash covers.
_TABLES: Final = (
    f"CREATE TABLE meta (key TEXT NOT NULL UNIQUE, value TEXT NOT NULL, guard INTEGER NOT NULL) {_STRICT}",
    f"""CREATE TABLE unit (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, next_seq INTEGER NOT NULL, hash BLOB NOT NULL,
        position INTEGER NOT NULL, open INTEGER NOT NULL, guard INTEGER NOT NULL) {_STRICT}""",
    "CREATE INDEX unit_open ON unit (name) WHERE open = 1",
    f"""CREATE TABLE journal (
        position INTEGER PRIMARY KEY, unit INTEGER NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL,
        ingress_id TEXT, hash BLOB NOT NULL, data BLOB NOT NULL, guard INTEGER NOT NULL) {_STRICT}""",
    "CREATE UNIQUE INDEX journal_unit ON journal (unit, seq)",
    "CREATE UNIQUE INDEX journal_ingress ON journal (unit, ingress_id) WHERE ingress_id IS NOT NULL",
    f"""CREATE TABLE outbox (
        n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, source TEXT NOT NULL, target TEXT NOT NULL,
        data BLOB NOT NULL, guard INTEGER NOT NULL) {_STRICT}""",
    f"""CREATE TABLE attempt (
        intent BLOB NOT NULL UNIQUE, unit TEXT NOT NULL, token TEXT NOT NULL,
        started_ns INTEGER NOT NULL) {_STRICT}""",
    f"""CREATE TABLE snapshot (
        unit INTEGER NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL, ref TEXT NOT NULL,
        UNIQUE (unit, seq)) {_STRICT}""",
    f"CREATE TABLE blob (digest BLOB NOT NULL UNIQUE, data BLOB NOT NULL) {_STRICT}",
)
_PUT: Final = "ALTER TABLE blob ADD COLUMN put_s INTEGER NOT NULL DEFAULT {now_s:d}"
"""Blobs that are older than the column count as put at the time of the upgrade."""

_SECOND: Final = (
    f"""CREATE TABLE tile (
        level INTEGER NOT NULL, number INTEGER NOT NULL, hash BLOB NOT NULL, UNIQUE (level, number)) {_STRICT}""",
    f"CREATE TABLE erased (digest BLOB NOT NULL UNIQUE, remains INTEGER NOT NULL) {_STRICT}",
    f"""CREATE TABLE segment (
        first INTEGER PRIMARY KEY, last INTEGER NOT NULL, size INTEGER NOT NULL, packed INTEGER NOT NULL,
        root BLOB NOT NULL, guard INTEGER NOT NULL) {_STRICT}""",
)
"""The tables of format 2. `remains`: see `erasures`, `segment`: see `archives`."""

_THIRD: Final = (
    "CREATE INDEX outbox_source ON outbox (source)",
    "CREATE INDEX journal_approval ON journal (ingress_id) WHERE kind = 'approval'",
    f"CREATE TABLE waiting (intent BLOB NOT NULL UNIQUE, unit TEXT NOT NULL, guard INTEGER NOT NULL) {_STRICT}",
    "CREATE INDEX waiting_unit ON waiting (unit)",
    f"CREATE TABLE waiting_sum (count INTEGER NOT NULL, digest BLOB NOT NULL, guard INTEGER NOT NULL) {_STRICT}",
)
"""The tables and indexes of format 3, which make look-ups over all units fast (`waiting`)."""

_FOURTH: Final = (
    """CREATE TABLE exposure (
        blob INTEGER NOT NULL, unit INTEGER NOT NULL, seq INTEGER NOT NULL,
        PRIMARY KEY (blob, unit, seq)) WITHOUT ROWID""",
)
"""The tables of format 4: the records that give a unit a blob (`exposures`)."""

_INDEXED_FROM: Final = "indexed_from"


def make_first(db: sqlite3.Connection) -> None:
    """Makes the tables of format 1, empty."""
    for statement in _TABLES:
        db.execute(statement)


def make_second(db: sqlite3.Connection) -> None:
    """Makes the tables of format 2, empty."""
    make_first(db)
    for statement in (_PUT.format(now_s=0), *_SECOND):
        db.execute(statement)


def make_third(db: sqlite3.Connection) -> None:
    """Makes the tables of format 3, empty."""
    make_second(db)
    for statement in _THIRD:
        db.execute(statement)


def make_all(db: sqlite3.Connection) -> None:
    """Makes the tables of today's format, empty."""
    make_first(db)
    upgrade(db, 1, 0)


MAKERS: Final = {1: make_first, 2: make_second, 3: make_third, FORMAT: make_all}
"""By format: the function that makes its tables, empty."""


def create_tables(db: sqlite3.Connection, world_id: str, now_s: int) -> None:
    """Makes the tables of a new world, in the open transaction."""
    make_first(db)
    set_meta(db, "world_id", world_id)
    db.execute(f"PRAGMA application_id = {_APPLICATION}")
    upgrade(db, 1, now_s)
    waiting.replace(db, {})


def format_of(db: sqlite3.Connection) -> int | None:
    """Returns the format of a world that this program can upgrade or use; None for any other file."""
    application, version = (
        int(db.execute(f"PRAGMA {mark}").fetchone()[0]) for mark in ("application_id", "user_version")
    )
    return version if application == _APPLICATION and version in MAKERS else None


def upgrade(db: sqlite3.Connection, version: int, now_s: int) -> None:
    """Upgrades a world of the earlier format `version`, in the open transaction. Building the index of decisions, which
    format 2 lacks, reads the journal once. `now_s`: seconds since 1970."""
    if version == 1:
        for statement in (_PUT.format(now_s=now_s), *_SECOND):
            db.execute(statement)
    if version < 3:
        for statement in _THIRD:
            db.execute(statement)
    for statement in _FOURTH:
        db.execute(statement)
    set_indexed_from(db, next_position(db))
    db.execute(f"PRAGMA user_version = {FORMAT}")


def is_empty(db: sqlite3.Connection) -> bool:
    """Returns whether no world was ever made in the file, or its making was interrupted."""
    return db.execute("SELECT 1 FROM sqlite_master").fetchone() is None


def read_world_id(db: sqlite3.Connection, path: Path) -> str:
    """Checks the file's marks and returns the id of the world in it. Raises NotFound, UsageError, Damaged."""
    if is_empty(db):
        raise NotFound(f"{path} holds no world: make one with `demiurge init`, or restore the file from a backup.")
    if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise UsageError(f"{path} is a database of another program: choose another folder for the world.")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > FORMAT:
        raise UsageError(
            f"The world in {path.parent} was made by a newer Demiurge (format {version}; this one knows "
            f"{FORMAT}): upgrade with `pip install --upgrade demiurge-runtime`.",
            code="newer_format",
        )
    if version == FORMAT:
        check_objects(db, path, make_all, OR_ACCEPT)
    world_id = get_meta(db, "world_id")
    if version != FORMAT or world_id is None:
        raise Damaged(f"{path} lacks the marks of a world: restore it from a backup.")
    return world_id


def next_position(db: sqlite3.Connection) -> int:
    """Returns the position of the next row."""
    return int(db.execute("SELECT coalesce(max(position), 0) + 1 FROM journal").fetchone()[0])


def indexed_from(db: sqlite3.Connection) -> int:
    """Returns the position from which on all rows have their entries in the index of blobs."""
    known = get_meta(db, _INDEXED_FROM)
    return int(known) if known is not None else next_position(db)


def set_indexed_from(db: sqlite3.Connection, position: int) -> None:
    set_meta(db, _INDEXED_FROM, str(position))


def set_meta(db: sqlite3.Connection, key: str, value: str) -> None:
    guard = crc32(f"{key} {value}".encode())
    db.execute("INSERT OR REPLACE INTO meta (key, value, guard) VALUES (?, ?, ?)", (key, value, guard))


def get_meta(db: sqlite3.Connection, key: str) -> str | None:
    """Returns the value of `key`, or None. Reads all keys, which are few: if one is damaged, a missing key counts as
    damage. Raises Damaged."""
    changed = False
    for name, value, guard in db.execute("SELECT key, value, guard FROM meta NOT INDEXED"):
        if crc32(f"{name} {value}".encode()) != guard:
            changed = True
        elif name == key:
            return str(value)
    if changed:
        raise Damaged(f"The world's {key} is damaged: restore the world from a backup.")
    return None
