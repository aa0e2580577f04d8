"""The list of intents that wait for a person: as good as the journal, or none at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from tests.stores.old_formats import make_older

from demiurge import faults
from demiurge.errors import Unavailable
from demiurge.stores import Batch, Row, SqliteStore, Store, UnitConflict

WAITING = {b"one": "a", b"two": "a", b"three": "b"}


def row(unit: str, seq: int, kind: str = "event", ingress: str | None = None) -> Row:
    data = f"{unit} {seq} {kind}".encode()
    return Row(unit, seq, kind, sha256(data).digest(), data, ingress)


def asking(unit: str, seq: int, *intents: bytes) -> Batch:
    return Batch(unit, seq, (row(unit, seq),), bool(intents), waiting=intents)


def fill(store: Store) -> None:
    store.append([asking("a", 0, b"one", b"two"), asking("b", 0, b"three")])


class TestEveryStore:
    def test_a_new_world_waits_for_nothing(self, store: Store) -> None:
        assert store.waiting.read() == {}
        assert store.waiting.find(b"one") is None

    def test_an_append_says_what_waits_in_its_unit(self, store: Store) -> None:
        fill(store)
        assert store.waiting.read() == WAITING
        assert [store.waiting.find(intent) for intent in (b"two", b"three", b"four")] == ["a", "b", None]
        store.append([asking("a", 1, b"two", b"four")])
        assert store.waiting.read() == {b"two": "a", b"four": "a", b"three": "b"}
        store.append([Batch("a", 2, (row("a", 2),), True)])
        assert store.waiting.read() == {b"two": "a", b"four": "a", b"three": "b"}, "it says nothing of them"
        store.append([asking("a", 3), asking("b", 1)])
        assert store.waiting.read() == {}

    def test_a_refused_append_leaves_it_as_it_was(self, store: Store) -> None:
        fill(store)
        with pytest.raises(UnitConflict):
            store.append([asking("a", 1), asking("b", 7)])
        assert store.waiting.read() == WAITING

    def test_the_waiting_list_is_replaced_only_if_the_journal_kept_its_length(self, store: Store) -> None:
        fill(store)
        found = {b"five": "a"}
        assert not store.waiting.replace(found, 1)
        assert store.waiting.read() == WAITING
        assert store.waiting.replace(found, 2)
        assert store.waiting.read() == found
        store.append([asking("a", 1, b"six")])
        assert store.waiting.read() == {b"six": "a"}

    def test_a_decision_is_found_by_its_id_alone(self, store: Store) -> None:
        approval = row("a", 1, "approval", "approval:01")
        store.append([Batch("a", 0, (row("a", 0, "event", "approval:02"), approval), False)])
        assert store.find_approval("approval:01") == ("a", 1)
        assert store.find_approval("approval:02") is None, "an event may have any id"

    def test_a_listener_is_called_after_each_append_of_rows(self, store: Store) -> None:
        lengths: list[int] = []
        leave = store.listen(lambda: lengths.append(store.length()))
        fill(store)
        store.append([], blobs=[b"blob"])
        with pytest.raises(UnitConflict):
            store.append([asking("a", 7)])
        store.erase([], [asking("c", 0)])
        assert lengths == [2, 3]
        leave()
        leave()
        store.append([asking("d", 0)])
        assert lengths == [2, 3]


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def reopened(folder: Path) -> Mapping[bytes, str] | None:
    with SqliteStore.open(folder) as store:
        return store.waiting.read()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with SqliteStore.create(tmp_path / "world", "world_1") as store:
        fill(store)
    return tmp_path / "world"


class TestDamage:
    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM waiting WHERE intent = x'6f6e65'",
            "DELETE FROM waiting",
            "UPDATE waiting SET unit = 'b' WHERE intent = x'6f6e65'",
            "UPDATE waiting SET intent = x'00' WHERE intent = x'6f6e65'",
            "UPDATE waiting SET guard = guard + 1, unit = 'b' WHERE intent = x'6f6e65'",
            "INSERT INTO waiting (intent, unit, guard) VALUES (x'00', 'a', 0)",
            "DELETE FROM waiting_sum",
            "UPDATE waiting_sum SET count = count + 1",
            "UPDATE waiting_sum SET guard = guard + 1",
            "INSERT INTO waiting_sum SELECT * FROM waiting_sum",
        ],
    )
    def test_a_list_that_was_changed_is_none_until_it_is_made_anew(self, folder: Path, statement: str) -> None:
        change(folder, statement)
        with SqliteStore.open(folder) as store:
            assert store.waiting.read() is None
            store.append([asking("a", 1, b"four"), asking("c", 0, b"five")])
            assert store.waiting.read() is None, "an append does not make it good"
            after = {b"three": "b", b"four": "a", b"five": "c"}
            assert store.waiting.replace(after, store.length())
            assert store.waiting.read() == after
            store.append([asking("c", 1)])
            assert store.waiting.read() == {b"three": "b", b"four": "a"}

    def test_an_index_that_lost_an_entry_hides_none(self, folder: Path) -> None:
        """What SQLite finds by an index is not what is in the table any more."""
        change(
            folder,
            "PRAGMA writable_schema = 1",
            "CREATE TABLE other (intent BLOB NOT NULL UNIQUE)",
            """UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master
               WHERE name = 'sqlite_autoindex_other_1') WHERE name = 'sqlite_autoindex_waiting_1'""",
            "DELETE FROM sqlite_master WHERE name IN ('other', 'sqlite_autoindex_other_1')",
        )
        with SqliteStore.open(folder) as store:
            assert store.waiting.find(b"one") is None
            assert store.waiting.read() == WAITING

    def test_a_write_that_the_disk_can_t_take_leaves_the_list_as_it_was(self, folder: Path) -> None:
        with SqliteStore.open(folder) as store:
            with faults.armed({"meta.before_commit": "enospc"}), pytest.raises(Unavailable):
                store.waiting.replace({}, 2)
            assert store.waiting.read() == WAITING


class TestOlderWorlds:
    @pytest.mark.parametrize("version", [1, 2])
    def test_a_world_of_an_older_program_has_no_list_until_one_is_made(self, folder: Path, version: int) -> None:
        with SqliteStore.open(folder) as store:
            store.append([Batch("a", 1, (row("a", 1, "approval", "approval:01"),), True)])
        make_older(folder, version)
        with SqliteStore.open(folder) as store:
            assert store.format == 4
            assert store.waiting.read() is None
            assert store.find_approval("approval:01") == ("a", 1)
            assert store.waiting.replace(WAITING, 3)
        assert reopened(folder) == WAITING
