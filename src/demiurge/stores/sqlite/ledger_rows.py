"""A ledger's rows as SQL, on a connection of the caller's.

Invariant: a guard, a CRC-32, covers every column of a row and is checked when the row is read, or deleted because it
expired: an answer is the one that was written, or none. A row counts as absent only if two indexes agree: the key's
index and one by a hash of the key. One statement asks both, so that they see the same state. A row under the hash with
another key is damaged unless its guard is right.

A row that was deleted shows in the links between the entries (`ledger_links`).

`tally` has one row: the ledger's id, and the number of claims that it has made. The number is compared with a count
outside of the file. Its guard says that the ledger has links; without them it is an older program's, and gets them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from demiurge.errors import Damaged
from demiurge.stores.claim_count import ClaimTally
from demiurge.stores.sqlite.ledger_links import (
    LINKS,
    NEAREST,
    check_links,
    make_links,
    note_entries,
    require_entries,
)
from demiurge.stores.sqlite.user_file import STRICT, FileFormat
from demiurge.tools.ledger.partitions import OPEN_PREFIX
from demiurge.tools.ledger.store import EntryState, LedgerRow, LedgerSlot
from demiurge.tools.parts import Audio, File, Image, ResultPart
from demiurge.values import cbor

__all__ = ["FORMAT", "SqliteRows", "check_tables", "intact_rows", "prepare", "put_rows", "read_tally"]

_FEW: Final = 8
_PART_TYPES: Final[Mapping[str, type[ResultPart]]] = {kind.__name__: kind for kind in (Image, Audio, File)}

_TABLES: Final = (
    f"""CREATE TABLE entry (
        id INTEGER PRIMARY KEY, "partition" TEXT NOT NULL, tool TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL,
        effect BLOB NOT NULL, params_hash TEXT NOT NULL, created_ns INTEGER NOT NULL, expires_ns INTEGER,
        owner TEXT NOT NULL, message TEXT NOT NULL, value BLOB NOT NULL, success INTEGER NOT NULL,
        excluded INTEGER NOT NULL, rendering TEXT, guard INTEGER NOT NULL, place INTEGER NOT NULL,
        UNIQUE (key, "partition", tool)) {STRICT}""",
    "CREATE INDEX entry_place ON entry (place)",
    "CREATE INDEX entry_end ON entry (expires_ns) WHERE expires_ns IS NOT NULL",
    "CREATE INDEX entry_open ON entry (state) WHERE state <> 'done'",
)
_TALLY: Final = f"""CREATE TABLE tally (
    n INTEGER PRIMARY KEY, ledger BLOB NOT NULL, claims INTEGER NOT NULL, guard INTEGER NOT NULL) {STRICT}"""
FORMAT: Final = FileFormat("ledger", 0x44454D4C, 3, _TABLES, (("tally", _TALLY), ("link", LINKS)))  # "DEML"
_COLUMNS: Final = (
    '"partition", tool, key, state, effect, params_hash, created_ns, expires_ns, owner, message, value, success, '
    "excluded, rendering, guard"
)
_HASHED: Final = "INDEXED BY entry_place WHERE place = ?"
_AT: Final = 'WHERE key = ? AND "partition" = ? AND tool = ?'
_GET: Final = f"""SELECT {_COLUMNS}, 1 FROM entry {_AT}
    UNION ALL SELECT {_COLUMNS}, 0 FROM entry {_HASHED}
    UNION ALL SELECT place, next, entries, guard{", NULL" * 11}, -1 FROM ({NEAREST})"""  # noqa: S608
_OPEN_ONLY: Final = f"""("partition" = '' OR substr("partition", 1, {len(OPEN_PREFIX)}) = '{OPEN_PREFIX}')"""
_KEYED: Final = f"key = ?1 AND {_OPEN_ONLY}"
_SLOTS: Final = f"""SELECT "partition", tool, 1 FROM entry WHERE {_KEYED}
    UNION ALL SELECT "partition", tool, 0
        FROM (SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM entry WHERE {_KEYED})) CROSS JOIN entry NOT INDEXED
        WHERE {_KEYED}"""  # noqa: S608
_OPEN: Final = f"SELECT {_COLUMNS} FROM entry WHERE state <> 'done'"  # noqa: S608
_DONE: Final = f"SELECT {_COLUMNS} FROM entry WHERE state = 'done'"  # noqa: S608
_PUT: Final = f"INSERT OR REPLACE INTO entry ({_COLUMNS}, place) VALUES ({', '.join('?' * 16)})"  # noqa: S608
_DELETE: Final = f"DELETE FROM entry {_AT}"  # noqa: S608
_EXPIRED: Final = f"""SELECT id, {_COLUMNS} FROM entry WHERE id IN
    (SELECT id FROM entry WHERE expires_ns <= ? AND state <> 'claimed' LIMIT ?)"""  # noqa: S608


def check_tables(db: sqlite3.Connection, path: Path, *, guards: bool) -> None:
    """Raises Damaged if a row is missing, an index does not lead to every row, or a row's key has changed, because its
    call would run again. With `guards` also for a row whose call would be refused. Reads all rows."""
    (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise Damaged(f"{path} is damaged ({found}): restore it from a backup.")
    for *cells, place in db.execute(f"SELECT {_COLUMNS}, place FROM entry NOT INDEXED"):  # noqa: S608
        if _place(cells[0], cells[2]) != place:
            raise Damaged(f"{path} is damaged (an entry has lost its key): restore it from a backup.")
        if guards and _guard(tuple(cells[:-1])) != cells[-1]:
            raise Damaged(f"{path} is damaged (an entry has changed): restore it from a backup.")
    check_links(db, path)


def intact_rows(path: Path) -> list[tuple[Any, ...]]:
    """Returns the cells of all rows that are readable and intact, for `put_rows`; none if the file is missing, or is no
    ledger."""
    found: list[tuple[Any, ...]] = []
    with (
        suppress(sqlite3.Error, UnicodeDecodeError),
        closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)) as db,
    ):
        cursor = db.execute(f"SELECT {_COLUMNS} FROM entry NOT INDEXED")  # noqa: S608
        found.extend(cells for cells in cursor if _guard(cells[:-1]) == cells[-1])
    return found


def put_rows(db: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
    """Inserts rows in the open transaction."""
    db.executemany(_PUT, [(*cells, _place(cells[0], cells[2])) for cells in rows])


def prepare(db: sqlite3.Connection, path: Path, new_id: bytes, saved: Iterable[tuple[Any, ...]] = ()) -> ClaimTally:
    """Makes the tables of a ledger in the open transaction, if there are none, with the id `new_id` (16 bytes) and the
    rows `saved` (`put_rows`). Returns the tally. Raises UsageError, Damaged."""
    FORMAT.prepare(db, path)
    tally = read_tally(db, path) or ClaimTally(new_id, 0)
    put_rows(db, saved)
    if not _has_links(db, tally):
        db.execute("DELETE FROM link")
        make_links(db)
        _put_tally(db, tally)
    return tally


def read_tally(db: sqlite3.Connection, path: Path) -> ClaimTally | None:
    """Returns the tally; None if the ledger has none yet. Raises Damaged."""
    cells = db.execute("SELECT ledger, claims, guard FROM tally").fetchone()
    if cells is None:
        return None
    ledger, claims, guard = cells
    found = ClaimTally(ledger, claims)
    if not isinstance(ledger, bytes) or guard not in (_tally_guard(found), _tally_guard(found, links=False)):
        raise Damaged(f"{path} is damaged (its count of claims has changed): restore it from a backup.")
    return found


def _has_links(db: sqlite3.Connection, tally: ClaimTally) -> bool:
    cells = db.execute("SELECT guard FROM tally").fetchone()
    return cells is not None and cells[0] == _tally_guard(tally)


def _put_tally(db: sqlite3.Connection, tally: ClaimTally) -> None:
    statement = "INSERT OR REPLACE INTO tally (n, ledger, claims, guard) VALUES (1, ?, ?, ?)"
    db.execute(statement, (*tally, _tally_guard(tally)))


def _tally_guard(counted: ClaimTally, *, links: bool = True) -> int:
    return crc32(f"{counted.ledger.hex()} {counted.claims}{' links' if links else ''}".encode())


class SqliteRows:
    """The `demiurge.tools.ledger.store.Rows` of one transaction. `works_on(owner, claim)` returns whether a process
    works on the claim. Reading raises Damaged."""

    def __init__(self, db: sqlite3.Connection, path: Path, works_on: Callable[[str, bytes], bool]) -> None:
        self._db, self._path, self._works_on = db, path, works_on
        self.counted: ClaimTally | None = None
        """The tally to be written outside of the file after the transaction is durable, before the call runs."""

    def get(self, slot: LedgerSlot) -> LedgerRow | None:
        partition, tool, key = slot
        place, others = _place(partition, key), 0
        cursor = self._db.execute(_GET, (key, partition, tool, place, place))
        for *cells, source in cursor:
            if source == 1:
                cursor.close()
                return self._row(tuple(cells))
            if source == 0:
                others += 1
                if self._row(tuple(cells)).slot == slot:
                    raise self._index_damage()
            else:
                require_entries(cells[:4], self._path, place, others)
                return None
        require_entries(None, self._path, place, others)
        return None

    def slots(self, key: str) -> list[LedgerSlot]:
        """Returns the slots of a key (see `Rows`). Searches the whole table for a key that the index does not find."""
        found = self._db.execute(_SLOTS, (key,)).fetchall()
        if not all(indexed for _, _, indexed in found):
            raise self._index_damage()
        return [LedgerSlot(partition, tool, key) for partition, tool, _ in sorted(found)]

    def put(self, row: LedgerRow) -> None:
        partition, tool, key = row.slot
        place = _place(partition, key)
        is_new = self._db.execute(f"SELECT 1 FROM entry {_AT}", (key, partition, tool)).fetchone() is None  # noqa: S608
        self._db.execute(_PUT, (*_cells(row), _guard(_cells(row)), place))
        if is_new:
            note_entries(self._db, self._path, place)

    def claim(self, row: LedgerRow, *, changes: bool) -> None:
        self.put(row)
        found = read_tally(self._db, self._path)
        if found is None:
            raise Damaged(f"{self._path} is damaged (its count of claims is gone): restore it from a backup.")
        more = found._replace(claims=found.claims + 1)
        _put_tally(self._db, more)
        self.counted = more if changes else None

    def delete(self, slot: LedgerSlot) -> None:
        self._db.execute(_DELETE, (slot.key, slot.partition, slot.tool_name))
        note_entries(self._db, self._path, _place(slot.partition, slot.key))

    def runs(self, claim: LedgerRow) -> bool:
        return claim.state is EntryState.CLAIMED and self._works_on(claim.owner, claim.effect_id)

    def expire(self, now_ns: int) -> int:
        return self._delete_abandoned("expires_ns <= ?", now_ns) + self._delete_expired(now_ns, -1)

    def tidy(self, now_ns: int) -> None:
        self._delete_expired(now_ns, _FEW)

    def delete_all(self, tool_name: str | None = None) -> int:
        gone = self._delete_abandoned("?1 IS NULL OR tool = ?1", tool_name)
        which = "FROM entry WHERE state <> 'claimed' AND (?1 IS NULL OR tool = ?1)"
        places = self._db.execute(f"SELECT place {which}", (tool_name,)).fetchall()
        self._db.execute(f"DELETE {which}", (tool_name,))
        for (place,) in places:
            note_entries(self._db, self._path, place)
        return gone + len(places)

    def count(self, now_ns: int) -> int:
        statement = "SELECT count(*) FROM entry WHERE state = 'done' AND (expires_ns IS NULL OR expires_ns > ?)"
        return int(self._db.execute(statement, (now_ns,)).fetchone()[0])

    def open_rows(self) -> list[LedgerRow]:
        return [self._row(cells) for cells in self._db.execute(_OPEN).fetchall()]

    def done_rows(self) -> list[LedgerRow]:
        """Returns the calls that are done, with their results."""
        return [self._row(cells) for cells in self._db.execute(_DONE).fetchall()]

    def _delete_abandoned(self, where: str, value: object) -> int:
        """Deletes claims that no process works on; returns their number."""
        claims = self._db.execute(f"{_OPEN} AND state = 'claimed' AND ({where})", (value,)).fetchall()
        dead = [claim for claim in map(self._row, claims) if not self.runs(claim)]
        for claim in dead:
            self.delete(claim.slot)
        return len(dead)

    def _delete_expired(self, now_ns: int, most: int) -> int:
        """Deletes at most `most` rows (-1: all) that the index lists as expired and that have expired by their own
        columns; returns their number."""
        rows = self._db.execute(_EXPIRED, (now_ns, most))
        over = [(n, _place(cells[0], cells[2])) for n, *cells in rows if _has_expired(cells, now_ns)]
        for n, place in over:
            self._db.execute("DELETE FROM entry WHERE id = ?", (n,))
            note_entries(self._db, self._path, place)
        return len(over)

    def _index_damage(self) -> Damaged:
        return Damaged(f"{self._path} is damaged (an index hides an entry): restore it from a backup.")

    def _row(self, cells: tuple[Any, ...]) -> LedgerRow:
        if _guard(cells[:-1]) != cells[-1]:
            raise Damaged(
                f"An entry in {self._path} is damaged: invalidate it when it is known what its call did, "
                "or restore the file from a backup."
            )
        partition, tool, key, state, *more, success, excluded, rendering, _ = cells
        effect, params_hash, created_ns, expires_ns, owner, message, value = more
        bare, parts = _unpacked(value)
        return LedgerRow(
            LedgerSlot(partition, tool, key),
            EntryState(state),
            effect,
            params_hash,
            created_ns,
            expires_ns,
            owner,
            message,
            bare,
            bool(success),
            bool(excluded),
            rendering,
            parts,
        )


def _cells(row: LedgerRow) -> tuple[Any, ...]:
    """Returns all columns but the guard."""
    value = _packed(row.value, row.parts)
    return (*row.slot, row.state.value, *row[2:8], value, int(row.success), int(row.excluded), row.rendering)


def _packed(value: bytes, parts: tuple[ResultPart, ...]) -> bytes:
    """Returns the cell of a value: its JSON, and with parts a NUL and a CBOR of both, because no JSON begins with
    NUL."""
    if not parts:
        return value
    nodes = [{"kind": type(part).__name__, "mime": part.mime, "name": part.name, "data": part.data} for part in parts]
    return b"\x00" + cbor.encode({"value": value, "parts": nodes})


def _unpacked(cell: Any) -> tuple[Any, tuple[ResultPart, ...]]:
    """Returns the value and the parts in a cell."""
    if not isinstance(cell, bytes) or not cell.startswith(b"\x00"):
        return cell, ()
    node = cbor.decode(cell[1:])
    parts = (_PART_TYPES[part["kind"]](part["mime"], part["data"], part["name"]) for part in node["parts"])
    return node["value"], tuple(parts)


def _has_expired(cells: list[Any], now_ns: int) -> bool:
    *rest, guard = cells
    return _guard(tuple(rest)) == guard and rest[7] is not None and rest[7] <= now_ns


def _place(partition: str, key: str) -> int:
    """Returns 64 bits of a hash, as SQLite's signed integer; two slots may share one."""
    return int.from_bytes(sha256(json.dumps((partition, key)).encode()).digest()[:8], signed=True)


def _guard(cells: tuple[Any, ...]) -> int:
    """Returns the CRC-32 of the columns. It is the same at writing and at reading, whichever subclass of `str` or `int`
    was written."""
    *rest, value, success, excluded, rendering = cells
    if not isinstance(value, bytes):
        return -1
    return crc32(value, crc32(json.dumps((*rest, success, excluded, rendering), default=repr).encode()))
