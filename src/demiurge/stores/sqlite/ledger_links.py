"""The links of a ledger: they show that an entry is missing, whoever deleted it and whether or not the file is open.

Invariant: `link` has a row for each place that has entries, and a first row; each names the next place in order, and
the number of entries at its own. They change in the transaction that adds or deletes an entry. So a lookup that finds
no entry reads one link, whatever the size of the ledger: the place's own, which says that there was one, or the nearest
before it, whose next place must lie behind. Links can't be deleted without a trace either: the one before names them,
and a ledger without its first is damaged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from demiurge.errors import Damaged
from demiurge.stores.sqlite.user_file import STRICT

__all__ = ["LINKS", "NEAREST", "check_links", "make_links", "note_entries", "require_entries"]

_FIRST: Final = -(1 << 63)
"""The place of the first link, which no entry has."""

LINKS: Final = f"""CREATE TABLE link (
    place INTEGER PRIMARY KEY, next INTEGER, entries INTEGER NOT NULL, guard INTEGER NOT NULL) {STRICT}"""
NEAREST: Final = "SELECT place, next, entries, guard FROM link WHERE place <= ? ORDER BY place DESC LIMIT 1"
_BEFORE: Final = NEAREST.replace("<=", "<")
_PUT: Final = "INSERT OR REPLACE INTO link (place, next, entries, guard) VALUES (?, ?, ?, ?)"
_ALL: Final = "SELECT place, next, entries, guard FROM link ORDER BY place"
_COUNT: Final = "SELECT count(*) FROM entry INDEXED BY entry_place WHERE place = ?"
_COUNTS: Final = "SELECT place, count(*) FROM entry INDEXED BY entry_place GROUP BY place ORDER BY place"


class _Link(NamedTuple):
    place: int
    next: int | None
    entries: int

    @property
    def guard(self) -> int:
        return crc32(repr(tuple(self)).encode())


def make_links(db: sqlite3.Connection) -> None:
    """Makes the links of a ledger that has none, in the open transaction."""
    places = [(_FIRST, 0), *db.execute(_COUNTS)]
    for (place, entries), following in zip_longest(places, places[1:]):
        _put(db, _Link(place, following[0] if following is not None else None, entries))


def require_entries(cells: Iterable[Any] | None, path: Path, place: int, found: int) -> None:
    """Raises Damaged unless the nearest link (`NEAREST`) says that `found` entries are at `place`."""
    link = _checked(cells, path)
    is_skipped = link.place != place and link.next is not None and link.next <= place
    if is_skipped or found != (link.entries if link.place == place else 0):
        raise _missing(path)


def note_entries(db: sqlite3.Connection, path: Path, place: int) -> None:
    """Notes the present number of entries at `place`, after one was added or deleted there."""
    (entries,) = db.execute(_COUNT, (place,)).fetchone()
    nearest = _checked(db.execute(NEAREST, (place,)).fetchone(), path)
    if nearest.place == place:
        if entries:
            _put(db, nearest._replace(entries=entries))
        else:
            before = _checked(db.execute(_BEFORE, (place,)).fetchone(), path)
            _put(db, before._replace(next=nearest.next))
            db.execute("DELETE FROM link WHERE place = ?", (place,))
        return
    if nearest.next is not None and nearest.next <= place:
        raise _missing(path)
    if entries:
        _put(db, _Link(place, nearest.next, entries))
        _put(db, nearest._replace(next=place))


def check_links(db: sqlite3.Connection, path: Path) -> None:
    """Raises Damaged unless all links and all entries agree."""
    expected: int | None = _FIRST
    counts = zip_longest(db.execute(_ALL), ((_FIRST, 0), *db.execute(_COUNTS)))
    for cells, found in counts:
        link = _checked(cells, path)
        if link.place != expected or found != (link.place, link.entries):
            raise _missing(path)
        expected = link.next
    if expected is not None:
        raise _missing(path)


def _put(db: sqlite3.Connection, link: _Link) -> None:
    db.execute(_PUT, (*link, link.guard))


def _checked(cells: Iterable[Any] | None, path: Path) -> _Link:
    if cells is None:
        raise _missing(path)
    *fields, guard = cells
    link = _Link(*fields)
    if link.guard != guard:
        raise Damaged(f"{path} is damaged (a link between its entries has changed): restore it from a backup.")
    return link


def _missing(path: Path) -> Damaged:
    return Damaged(f"{path} is damaged (an entry was deleted, or added, by another program): restore it from a backup.")
