"""The tree over a journal: any root it ever had, from what is kept, however much came since."""

from __future__ import annotations

import sqlite3
from hashlib import sha256
from pathlib import Path

import pytest

from demiurge.errors import Damaged, NotFound
from demiurge.stores import Batch, Row, SqliteStore, Store
from demiurge.stores.merkle import EMPTY, Frontier, leaf_hash, path_root
from demiurge.stores.tiles import Tiles


def grow(store: Store, count: int) -> None:
    """More records, of two units."""
    for unit in ("a", "b"):
        head = store.head(unit)
        first = head.next_seq if head is not None else 0
        datas = [b"%s %d" % (unit.encode(), seq) for seq in range(first, first + count // 2)]
        rows = [Row(unit, seq, "event", sha256(data).digest(), data) for seq, data in enumerate(datas, first)]
        store.append([Batch(unit, first, tuple(rows), False)])


def roots(store: Store) -> list[bytes]:
    frontier = Frontier()
    found = [frontier.root()]
    for row in store.read_all():
        frontier.add(leaf_hash(row.hash))
        found.append(frontier.root())
    return found


def test_every_root_that_there_ever_was_is_found_again(store: Store) -> None:
    assert Tiles(store).root(0) == EMPTY
    for more in (10, 600, 300, 2, 1100):
        grow(store, more)
        known = roots(store)
        assert Tiles(store).root(len(known) - 1) == known[-1]
        for size in (1, 2, 255, 256, 257, 511, 512, 513, 1024, len(known) // 2):
            if size < len(known):
                assert Tiles(store).root(size) == known[size]


def test_a_record_is_proved_under_any_root_that_covers_it(store: Store) -> None:
    grow(store, 1300)
    known, rows = roots(store), list(store.read_all())
    for number, size in ((0, 1), (0, 1300), (255, 256), (256, 257), (256, 1300), (1299, 1300), (700, 701), (700, 1024)):
        path = Tiles(store).path(number, size)
        assert path_root(leaf_hash(rows[number].hash), number, size, path) == known[size]


def test_more_than_there_is_has_no_root(store: Store) -> None:
    grow(store, 4)
    with pytest.raises(NotFound) as caught:
        Tiles(store).root(5)
    assert caught.value.code == "unknown_position"


def test_full_tiles_are_read_from_then_on_and_not_their_records(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(store, 2000)
    root = Tiles(store).root(2000)
    asked: list[int] = []
    read = store.record_hashes

    def counted(start: int, limit: int) -> list[bytes]:
        asked.append(limit)
        return read(start, limit)

    monkeypatch.setattr(store, "record_hashes", counted)
    assert Tiles(store).root(2000) == root
    assert sum(asked) < 256


def test_a_record_that_is_missing_is_said(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        grow(store, 20)
    with sqlite3.connect(tmp_path / "w" / "journal.db") as db:
        db.execute("DELETE FROM journal WHERE position = 7")
    db.close()
    with SqliteStore.open(tmp_path / "w") as store, pytest.raises(Damaged, match="position 7"):
        Tiles(store).root(20)
