"""Units, rows, outbox, attempts and snapshots as SQL, on a connection of the caller's.

Invariant: every byte of a row is checked when it is read. `hash` covers `data`, also if the row's bytes are in an
archive (see `archives`); `guard`, a CRC-32, covers position, unit name, number, kind and ingress id. Heads and messages
have a guard over all their columns. A unit's rows are read in order without a gap up to its head.

The journal's key is the position, so a scan of the world reads pages in order; units are stored as integers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final
from zlib import crc32

from demiurge.errors import Damaged, NotFound
from demiurge.stores import rows
from demiurge.stores.errors import DamagedRow
from demiurge.stores.protocol import Attempt, Batch, Head, Outgoing, Row, Snapshot
from demiurge.stores.sqlite import exposures, waiting
from demiurge.values.fast_constructor import fast_constructor
from demiurge.values.refs import Ref

__all__ = [
    "Cells",
    "Fetch",
    "append",
    "attempts",
    "begin_attempts",
    "drop_snapshots",
    "find_approval",
    "find_damage",
    "find_ingress",
    "hashes",
    "head",
    "latest_snapshot",
    "length",
    "make_rows",
    "outbox",
    "put_snapshot",
    "unit_names",
    "unit_page",
    "units_page",
    "world_page",
]

_Row = fast_constructor(Row)

Cells = tuple[Any, ...]  # one row from SQLite: columns of mixed types

Fetch = Callable[[Row], bytes]
"""Returns the checked bytes of a row that has none in the journal; empty bytes leave the row without them. Raises
DamagedRow, Archived."""

_ROW: Final = "SELECT position, unit, seq, kind, ingress_id, hash, data, guard FROM journal"
_OUTLINE: Final = "SELECT position, unit, seq, kind, ingress_id, hash, x'', guard FROM journal"
_OF_UNIT: Final = "WHERE unit = (SELECT id FROM unit WHERE name = ?) AND seq >= ? ORDER BY seq LIMIT ?"
_UNITS: Final = "SELECT name FROM unit WHERE name >= ? ORDER BY name LIMIT ?"
_OPEN_UNITS: Final = "SELECT name FROM unit WHERE open = 1 AND name >= ? ORDER BY name LIMIT ?"
_PUT_HEAD: Final = """INSERT INTO unit (name, next_seq, hash, open, position, guard) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET next_seq = excluded.next_seq, hash = excluded.hash, open = excluded.open,
    position = excluded.position, guard = excluded.guard RETURNING id"""
_INSERT_ROW: Final = """INSERT INTO journal (position, unit, seq, kind, ingress_id, hash, data, guard)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""
_OUTBOX: Final = "SELECT id, source, target, data, guard FROM outbox"
_OUTBOX_OF: Final = f"{_OUTBOX} WHERE source = ? ORDER BY n"
_NO_END: Final = 2**63 - 1
_HEAD: Final = "SELECT name, next_seq, hash, open, position, guard FROM unit"


# Writing


def append(db: sqlite3.Connection, batches: Sequence[Batch]) -> list[list[int]]:
    """Appends batches in the open transaction. Raises UnitConflict, DamagedRow."""
    position = length(db)
    positions: list[list[int]] = []
    for batch in batches:
        old = head(db, batch.unit)
        next_seq = old.next_seq if old else 0
        if batch.expected_seq != next_seq:
            raise rows.stale(batch, next_seq)
        if batch.rows:
            last = batch.rows[-1]
            end = position + len(batch.rows)
            unit = _put_head(db, Head(batch.unit, last.unit_seq + 1, last.hash, batch.open, end))
            _append_rows(db, batch, unit, position + 1)
            exposures.add(db, unit, batch.rows)
        elif old is not None and old.open != batch.open:
            _put_head(db, replace(old, open=batch.open))
        _append_messages(db, batch)
        if batch.waiting is not None:
            waiting.change(db, batch.unit, batch.waiting)
        if batch.snapshot is not None:
            put_snapshot(db, batch.snapshot)
        positions.append(list(range(position + 1, position + 1 + len(batch.rows))))
        position += len(batch.rows)
    return positions


def _put_head(db: sqlite3.Connection, head: Head) -> int:
    """Writes the unit's head and returns the unit's integer."""
    cells = (head.unit, head.next_seq, head.hash, int(head.open), head.position, _head_guard(head))
    return int(db.execute(_PUT_HEAD, cells).fetchone()[0])


def _append_rows(db: sqlite3.Connection, batch: Batch, unit: int, position: int) -> None:
    try:
        db.executemany(
            _INSERT_ROW,
            [
                (at, unit, row.unit_seq, row.kind, row.ingress_id, row.hash, row.data, _row_guard(at, row))
                for at, row in enumerate(batch.rows, position)
            ],
        )
    except sqlite3.IntegrityError:
        later = "SELECT min(seq) FROM journal WHERE unit = ? AND seq >= ? AND position < ?"
        unknown = db.execute(later, (unit, batch.expected_seq, position)).fetchone()[0]
        if unknown is not None:
            raise DamagedRow(batch.unit, unknown, "the unit's head doesn't know of it") from None
        raise rows.duplicate_ingress(batch) from None


def _append_messages(db: sqlite3.Connection, batch: Batch) -> None:
    for message in batch.outbox:
        try:
            db.execute(
                "INSERT INTO outbox (id, source, target, data, guard) VALUES (?, ?, ?, ?, ?)",
                (message.id, message.source, message.target, message.data, _message_guard(message)),
            )
        except sqlite3.IntegrityError:
            raise rows.duplicate_message(batch, message.id) from None
    if batch.delivered:
        db.executemany("DELETE FROM outbox WHERE id = ?", [(message_id,) for message_id in batch.delivered])


def begin_attempts(db: sqlite3.Connection, new: Iterable[Attempt]) -> None:
    db.executemany(
        "INSERT INTO attempt (intent, unit, token, started_ns) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(attempt.intent, attempt.unit, attempt.token, attempt.started_ns) for attempt in new],
    )


def put_snapshot(db: sqlite3.Connection, snapshot: Snapshot) -> None:
    done = db.execute(
        "INSERT OR REPLACE INTO snapshot (unit, seq, hash, ref) SELECT id, ?, ?, ? FROM unit WHERE name = ?",
        (snapshot.unit_seq, snapshot.hash, snapshot.ref, snapshot.unit),
    )
    if done.rowcount == 0:
        raise NotFound(f"There is no unit {snapshot.unit} to take a snapshot of.")


def drop_snapshots(db: sqlite3.Connection, snapshots: Iterable[Snapshot]) -> None:
    db.executemany(
        "DELETE FROM snapshot WHERE unit = (SELECT id FROM unit WHERE name = ?) AND seq = ?",
        [(snapshot.unit, snapshot.unit_seq) for snapshot in snapshots],
    )


# Reading


def head(db: sqlite3.Connection, unit: str) -> Head | None:
    found = db.execute(f"{_HEAD} WHERE name = ?", (unit,)).fetchone()
    return _head(found) if found else None


def units_page(db: sqlite3.Connection, from_name: str, open_only: bool, size: int) -> list[str]:
    """Returns the next `size` units by name, from `from_name` (inclusive) on. Raises Damaged."""
    return _names(db.execute(_OPEN_UNITS if open_only else _UNITS, (from_name, size)))


def unit_page(db: sqlite3.Connection, unit: str, from_seq: int, size: int, *, bare: bool = False) -> list[Cells]:
    """Returns the cells of a unit's next `size` rows, for `make_rows`; `bare`: without their bytes."""
    return db.execute(f"{_OUTLINE if bare else _ROW} {_OF_UNIT}", (unit, from_seq, size)).fetchall()


def length(db: sqlite3.Connection) -> int:
    """Returns the position of the last row."""
    return int(db.execute("SELECT coalesce(max(position), 0) FROM journal").fetchone()[0])


def hashes(db: sqlite3.Connection, from_position: int, size: int) -> list[bytes]:
    """Returns the hashes of the world's next `size` rows, unchecked."""
    find = "SELECT hash FROM journal WHERE position >= ? ORDER BY position LIMIT ?"
    return [digest for (digest,) in db.execute(find, (from_position, size))]


def world_page(db: sqlite3.Connection, from_position: int, size: int) -> list[Cells]:
    """Returns the cells of the world's next `size` rows, for `make_rows`."""
    return db.execute(f"{_ROW} WHERE position >= ? ORDER BY position LIMIT ?", (from_position, size)).fetchall()


def unit_names(db: sqlite3.Connection, page: Iterable[Cells], names: dict[int, str]) -> None:
    """Adds the names of the page's units to `names`."""
    for unit in {cells[1] for cells in page}.difference(names):
        found = db.execute("SELECT name FROM unit WHERE id = ?", (unit,)).fetchone()
        names[unit] = found[0] if found else f"(unknown unit {unit})"


def make_rows(page: Iterable[Cells], names: dict[int, str], fetch: Fetch) -> Iterator[Row]:
    """Yields checked rows from their cells. Raises DamagedRow, Archived."""
    for position, unit, seq, kind, ingress_id, digest, data, guard in page:
        row = _Row(names[unit], seq, kind, digest, data, ingress_id, position)
        if not isinstance(data, bytes) or sha256(data).digest() != digest:
            if data != b"":
                raise DamagedRow(row.unit, seq, "its bytes don't match its hash")
            row = _Row(row.unit, seq, kind, digest, fetch(row), ingress_id, position)
        if _row_guard(position, row) != guard:
            raise DamagedRow(row.unit, seq, "what is kept beside its bytes has changed")
        yield row


def find_damage(db: sqlite3.Connection, fetch: Fetch) -> dict[str, DamagedRow]:
    """Returns the open units whose head and last row do not agree."""
    damaged: dict[str, DamagedRow] = {}
    for unit in _names(db.execute(_OPEN_UNITS, ("", -1))):
        try:
            _check_end(db, unit, fetch)
        except DamagedRow as error:
            damaged[unit] = error
    return damaged


def _check_end(db: sqlite3.Connection, unit: str, fetch: Fetch) -> None:
    end = head(db, unit)
    if end is None:
        raise DamagedRow(unit, 0, "the unit can't be found by its name")
    page = unit_page(db, unit, end.next_seq - 1, 2)
    names: dict[int, str] = {}
    unit_names(db, page, names)
    found = list(make_rows(page, names, fetch))
    if not found or found[0].unit_seq != end.next_seq - 1:
        raise DamagedRow(unit, end.next_seq - 1, "it is missing")
    if found[0].hash != end.hash:
        raise DamagedRow(unit, end.next_seq - 1, "it is not what the unit's head says")
    if len(found) > 1:
        raise DamagedRow(unit, end.next_seq, "the unit's head doesn't know of it")


def find_ingress(db: sqlite3.Connection, unit: str, ingress_id: str) -> int | None:
    found = db.execute(
        "SELECT seq FROM journal WHERE unit = (SELECT id FROM unit WHERE name = ?) AND ingress_id = ?",
        (unit, ingress_id),
    ).fetchone()
    return found[0] if found else None


def find_approval(db: sqlite3.Connection, ingress_id: str) -> tuple[str, int] | None:
    find = "SELECT unit, seq FROM journal WHERE kind = 'approval' AND ingress_id = ?"
    found = db.execute(find, (ingress_id,)).fetchone()
    names: dict[int, str] = {}
    unit_names(db, [(0, *found)] if found else [], names)
    return (names[found[0]], found[1]) if found else None


def attempts(db: sqlite3.Connection, intents: Collection[bytes]) -> dict[bytes, Attempt]:
    find = "SELECT intent, unit, token, started_ns FROM attempt WHERE intent = ?"
    found = (db.execute(find, (intent,)).fetchone() for intent in intents)
    return {cells[0]: Attempt(*cells) for cells in found if cells}


def outbox(db: sqlite3.Connection, source: str | None) -> list[Outgoing]:
    messages: list[Outgoing] = []
    found = db.execute(f"{_OUTBOX} ORDER BY n") if source is None else db.execute(_OUTBOX_OF, (source,))
    for *cells, guard in found:
        message = Outgoing(*cells)
        if not isinstance(message.data, bytes) or _message_guard(message) != guard:
            raise Damaged(f"Message {message.id} of unit {message.source} is damaged: restore the world from a backup.")
        messages.append(message)
    return messages


def latest_snapshot(db: sqlite3.Connection, unit: str, before: int | None) -> Snapshot | None:
    found = db.execute(
        """SELECT seq, hash, ref FROM snapshot WHERE unit = (SELECT id FROM unit WHERE name = ?) AND seq < ?
           ORDER BY seq DESC LIMIT 1""",
        (unit, _NO_END if before is None else before),
    ).fetchone()
    return Snapshot(unit, found[0], found[1], Ref(found[2])) if found else None


def _names(found: Iterable[Cells]) -> list[str]:
    names = [name for (name,) in found]
    if not all(isinstance(name, str) for name in names):
        raise Damaged("The list of units is damaged: restore the world from a backup.")
    return names


def _head(cells: Cells) -> Head:
    name, next_seq, digest, is_open, position, guard = cells
    head = Head(name, next_seq, digest, bool(is_open), position)
    if _head_guard(head) != guard:
        raise DamagedRow(name, next_seq - 1 if isinstance(next_seq, int) else 0, "the unit's head has changed")
    return head


def _head_guard(head: Head) -> int:
    return crc32(f"{head.position} {head.next_seq} {head.open:d} {head.hash.hex()} {head.unit}".encode())


def _row_guard(position: int, row: Row) -> int:
    return crc32(f"{position} {row.unit_seq} {row.kind} {row.ingress_id} {row.unit}".encode())


def _message_guard(message: Outgoing) -> int:
    return crc32(message.data, crc32(f"{message.id} {message.source} {message.target} ".encode()))
