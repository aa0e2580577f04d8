"""Compares the tables, indexes, triggers and views of a database file with those that its program makes.

Invariant: a file whose objects differ is not written to. A trigger or a view could undo or hide a write, in the same
transaction and without an error, so that an effect would run a second time.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from demiurge.errors import Damaged
from demiurge.values.article import with_article

__all__ = ["Differences", "check_objects", "differences", "drop_foreign"]

_LIST: Final = """SELECT CAST(type AS TEXT), CAST(name AS TEXT), CAST(tbl_name AS TEXT), CAST(sql AS TEXT)
    FROM sqlite_master"""  # a damaged file may hold values of any type there
_NUMBER: Final = re.compile(r"DEFAULT \d+")
_DROP: Final = ("trigger", "view", "table", "index")

Make = Callable[[sqlite3.Connection], object]
"""Makes all tables and indexes in an empty database."""

_Objects = Mapping[tuple[str, str, str], str]


class Differences(NamedTuple):
    """`foreign`: kind and name of objects that the program did not make; `changed`: names of objects that are missing
    or have another form."""

    foreign: tuple[tuple[str, str], ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.foreign or self.changed)


def differences(db: sqlite3.Connection, make: Make) -> Differences:
    """Returns how the objects of an open database differ from those that `make` makes."""
    expected, found = _expected(make), _objects(db)
    foreign = sorted((kind, name) for kind, name, table in found if (kind, name, table) not in expected)
    changed = sorted(name for (kind, name, table), sql in expected.items() if found.get((kind, name, table)) != sql)
    return Differences(tuple(foreign), tuple(changed))


def check_objects(db: sqlite3.Connection, path: Path, make: Make, advice: str) -> None:
    """Raises Damaged, which names the first difference, with `advice` for a foreign object."""
    found = differences(db, make)
    if found.foreign:
        kind, name = found.foreign[0]
        raise Damaged(
            f"{path} has {with_article(kind)} {name!a} that Demiurge did not make. {advice}", code="foreign_object"
        )
    if found.changed:
        changed = f"its table or index {found.changed[0]} is missing or has another form"
        raise Damaged(f"{path} is damaged ({changed}): restore it from a backup.")


def drop_foreign(db: sqlite3.Connection, make: Make) -> list[str]:
    """Drops the objects that the program did not make, in the open transaction; returns kind and name of each."""
    foreign = sorted(differences(db, make).foreign, key=lambda each: _DROP.index(each[0]))
    for kind, name in foreign:
        quoted = name.replace('"', '""')
        db.execute(f'DROP {kind} IF EXISTS "{quoted}"')
    return [f"{kind} {name!a}" for kind, name in foreign]


@cache
def _expected(make: Make) -> _Objects:
    with closing(sqlite3.connect(":memory:")) as db:
        make(db)
        return _objects(db)


def _objects(db: sqlite3.Connection) -> _Objects:
    return {(kind, name, table): _form(sql) for kind, name, table, sql in db.execute(_LIST)}


def _form(sql: str | None) -> str:
    """Returns the statement without parts that may differ between two programs that made the same object: white space,
    a default time, and STRICT, which an older SQLite does not know."""
    words = _NUMBER.sub("DEFAULT ?", " ".join((sql or "").split()))
    return words.removesuffix(" STRICT").replace("( ", "(").replace(" )", ")")
