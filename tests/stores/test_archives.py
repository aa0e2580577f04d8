"""Archives: rows are read as before, wherever their bytes are; a file that is away or damaged is named."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demiurge import faults
from demiurge.errors import Conflict, Damaged, InvalidValue, NotFound, Unavailable, UsageError
from demiurge.stores import Batch, MemoryStore, Row, SqliteStore, Store
from demiurge.stores.errors import Archived, DamagedRow
from demiurge.stores.segment import check, read_index
from demiurge.stores.tiles import Tiles

NAMES = ("a", "b", "c")
POINTS = [name for name in faults.POINTS if name.startswith("archive.")]


def row(unit: str, seq: int, data: bytes, ingress: str | None = None) -> Row:
    return Row(unit, seq, "event", sha256(data).digest(), data, ingress)


def fill(store: Store, count: int, size: int = 40) -> None:
    """Rows of three units in turn, each its own bytes, each third with an idempotency key."""
    for at in range(store.length(), store.length() + count):
        unit, seq = NAMES[at % 3], at // 3
        data = f"{unit} {seq} ".encode() * size
        store.append([Batch(unit, seq, (row(unit, seq, data, f"key:{seq}"),), True)])


def plain(store: Store) -> list[Row]:
    return list(store.read_all())


def move(store: Store, last: int) -> list[Path]:
    return [segment.path for segment in store.archives.move(last)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "w"


@pytest.fixture
def store(folder: Path) -> object:
    with SqliteStore.create(folder, "world_1") as made:
        fill(made, 30)
        yield made


def execute(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / "journal.db", isolation_level=None) as db:
        db.execute(statement)
    db.close()


def move_archive_away(path: Path) -> Path:
    """Cold storage."""
    place = path.parent.parent.parent / f"away-{path.name}"
    shutil.move(path, place)
    return place


class TestReading:
    def test_rows_read_as_before_and_their_bytes_are_gone_from_the_database(
        self, store: SqliteStore, folder: Path
    ) -> None:
        before, heads, root = plain(store), list(store.heads()), Tiles(store).root(30)
        [path] = move(store, 20)
        assert path == folder / "archives" / "1-20.segment"
        assert plain(store) == before
        assert list(store.read("b", 2, 3)) == [found for found in before if found.unit == "b"][2:5]
        assert list(store.heads()) == heads
        assert store.find_ingress("c", "key:3") == 3
        assert Tiles(store).root(30) == root
        store.close()
        with sqlite3.connect(folder / "journal.db") as db:
            emptied = db.execute("SELECT position FROM journal WHERE data = x''").fetchall()
        db.close()
        assert [position for (position,) in emptied] == list(range(1, 21))
        with SqliteStore.open(folder) as again:
            assert plain(again) == before
            fill(again, 3)
            assert again.length() == 33

    @settings(max_examples=20, deadline=None)
    @given(
        cuts=st.lists(st.integers(0, 40), max_size=5), sizes=st.lists(st.integers(0, 30_000), min_size=1, max_size=5)
    )
    def test_any_rows_in_any_segments(
        self, cuts: list[int], sizes: list[int], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        with SqliteStore.create(tmp_path_factory.mktemp("any") / "w", "world_1") as store:
            for size in sizes:
                fill(store, 6, size)
            before = plain(store)
            for cut in cuts:
                move(store, cut)
                assert plain(store) == before
            end = min(max(cuts, default=0), len(before))
            known = store.archives.segments()
            assert sum(segment.last - segment.first + 1 for segment in known) == end
            assert sum(segment.size for segment in known) == sum(len(found.data) for found in before[:end])
            for segment in known:
                with segment.path.open("rb") as file:
                    header = check(file.fileno())
                assert (header.world, header.root) == ("world_1", Tiles(store).root(segment.last))
            for seq, found in enumerate(found for found in before if found.unit == "a"):
                assert next(store.read("a", seq, 1)) == found

    def test_many_rows_make_several_segments_and_the_room_is_given_back(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("demiurge.stores.sqlite.archives._MOST_BYTES", 20_000)
        with SqliteStore.create(folder, "world_1") as store:
            fill(store, 900, 100)
            before = plain(store)
        size = (folder / "journal.db").stat().st_size
        with SqliteStore.open(folder) as store:
            assert len(move(store, 900)) > 10
            assert plain(store) == before
            assert move(store, 900) == []
        assert (folder / "journal.db").stat().st_size < size / 2

    def test_an_empty_record_is_no_archived_one(self, folder: Path) -> None:
        with SqliteStore.create(folder, "world_1") as store:
            store.append([Batch("a", 0, (row("a", 0, b""), row("a", 1, b"x")), False)])
            assert not plain(store)[0].is_away
            move(store, 2)
            assert [found.data for found in store.read_all()] == [b"", b"x"]

    def test_outlines_are_rows_without_bytes_on_every_store(self, store: SqliteStore) -> None:
        memory = MemoryStore("world_1")
        fill(memory, 30)
        expected = [replace(found, data=b"") for found in store.read("b", 1, 4)]
        for cut in (0, 12, 30):
            move(store, cut)
            assert list(store.outline("b", 1, 4)) == list(memory.outline("b", 1, 4)) == expected
        assert memory.archives.segments() == []
        with pytest.raises(UsageError):
            move(memory, 1)

    def test_readers_and_writers_go_on_meanwhile(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("demiurge.stores.sqlite.archives._MOST_ROWS", 20)
        with SqliteStore.create(folder, "world_1") as store:
            fill(store, 300)
            before, wrong, done = plain(store), [], threading.Event()

            def look() -> None:
                while not done.is_set():
                    if plain(store)[:300] != before:
                        wrong.append("other rows")

            threads = [threading.Thread(target=look) for _ in range(2)]
            for thread in threads:
                thread.start()
            for _ in store.archives.move(300):
                fill(store, 3)
            done.set()
            for thread in threads:
                thread.join()
            assert not wrong
            assert store.length() == 345

    def test_only_one_archives_at_a_time(self, store: SqliteStore) -> None:
        moving = store.archives.move(10)
        next(moving)
        with pytest.raises(Conflict) as caught:
            move(store, 20)
        assert caught.value.code == "archiving"
        moving.close()
        assert len(move(store, 20)) == 1


class TestAway:
    def test_a_row_that_is_away_says_where_its_file_belongs(self, store: SqliteStore, folder: Path) -> None:
        before = plain(store)
        [first], [second] = move(store, 10), move(store, 20)
        place = move_archive_away(first)
        with pytest.raises(Archived, match=f"{first}, which is not here: put it back") as caught:
            plain(store)
        assert (caught.value.code, caught.value.positions) == ("archived", range(1, 11))
        assert list(store.read_all(11)) == before[10:]
        assert [found.is_away for found in store.read_all(away=True)] == [True] * 10 + [False] * 20
        assert [segment.here for segment in store.archives.segments()] == [False, True]
        store.close()
        second_place = move_archive_away(second)
        with SqliteStore.open(folder) as again:
            assert not again.damaged
            fill(again, 3)
            assert next(again.outline("a", 0, 1)).hash == before[0].hash
            shutil.copy(place, first)
            shutil.move(second_place, second)
            assert plain(again)[:30] == before

    def test_a_unit_that_ends_in_an_archive_that_is_away_can_go_on(self, store: SqliteStore, folder: Path) -> None:
        [path] = move(store, 30)
        store.close()
        shutil.rmtree(path.parent)
        with SqliteStore.open(folder) as again:
            assert not again.damaged
            fill(again, 6)
            assert [found.unit_seq for found in again.read("a", 10)] == [10, 11]
            assert move(again, 33) == [folder / "archives" / "31-33.segment"]

    def test_a_file_elsewhere_can_be_lent(self, store: SqliteStore, tmp_path: Path) -> None:
        before = plain(store)
        [first], _ = move(store, 10), move(store, 20)
        place = move_archive_away(first)
        os.symlink(place, tmp_path / "by another name")
        with store.archives.reading_from([tmp_path / "by another name"]):
            assert plain(store) == before
        with pytest.raises(Archived):
            plain(store)

    def test_a_value_that_is_no_archive_of_this_world_is_not_taken(self, store: SqliteStore, tmp_path: Path) -> None:
        move(store, 10)
        with SqliteStore.create(tmp_path / "other", "world_2") as other:
            fill(other, 10, 7)
            [theirs] = move(other, 10)
        (tmp_path / "words").write_text("no archive at all")
        wanted: dict[Path, type[Exception]] = {
            theirs: InvalidValue,
            tmp_path / "words": Damaged,
            tmp_path: Damaged,
            tmp_path / "nothing": NotFound,
        }
        for path, kind in wanted.items():
            with pytest.raises(kind), store.archives.reading_from([path]):
                pass
        with pytest.raises(InvalidValue), MemoryStore("world_1").archives.reading_from([theirs]):
            pass

    def test_another_worlds_file_in_its_place_is_damage_and_in_another_place_is_left(
        self, store: SqliteStore, tmp_path: Path
    ) -> None:
        [path] = move(store, 10)
        with SqliteStore.create(tmp_path / "other", "world_2") as other:
            fill(other, 30, 7)
            [theirs], [more] = move(other, 10), move(other, 30)
        shutil.copy(theirs, path)
        shutil.copy(more, path.parent)
        with pytest.raises(DamagedRow, match="archive"):
            plain(store)
        move(store, 20)
        assert (path.parent / more.name).exists(), "it may be the only one"

    def test_a_link_is_not_followed(self, store: SqliteStore) -> None:
        [path] = move(store, 10)
        os.symlink(move_archive_away(path), path)
        with pytest.raises(Unavailable) as caught:
            plain(store)
        assert caught.value.code == "strange_entry"


class TestDamage:
    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def test_any_change_of_a_file_is_found_or_makes_no_difference(
        self, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        folder = tmp_path_factory.mktemp("damage") / "w"
        with SqliteStore.create(folder, "world_1") as store:
            fill(store, 12, 6000)
            before = plain(store)
            [path] = move(store, 12)
            raw = path.read_bytes()
            at = data.draw(st.integers(0, len(raw) - 1))
            changes = (raw[:at], raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :], raw[at:])
            path.write_bytes(data.draw(st.sampled_from(changes)))
            for found in before:
                try:
                    assert next(store.read(found.unit, found.unit_seq, 1)) == found
                except DamagedRow as error:
                    assert (error.unit, error.unit_seq) == (found.unit, found.unit_seq)  # noqa: PT017 - or it is read

    def test_other_units_and_other_blocks_can_be_read(self, store: SqliteStore, folder: Path) -> None:
        fill(store, 30, 9000)
        before = plain(store)
        [path] = move(store, 60)
        with path.open("r+b") as file:
            block = read_index(file.fileno()).blocks[-1]
            file.seek(block.offset)
            file.write(b"\0" * block.packed)
        assert list(store.read_all(1, block.first - 1)) == before[: block.first - 1]
        with pytest.raises(DamagedRow, match=f"{path}"):
            next(store.read_all(block.first, 1))

    def test_a_row_without_bytes_that_was_never_archived_is_damaged(self, store: SqliteStore, folder: Path) -> None:
        move(store, 10)
        store.close()
        execute(folder, "UPDATE journal SET data = x'' WHERE position = 15")
        with SqliteStore.open(folder) as again, pytest.raises(DamagedRow, match="don't match its hash"):
            list(again.read_all(away=True))

    def test_a_changed_hash_or_list_is_damage(self, store: SqliteStore, folder: Path) -> None:
        move(store, 10)
        store.close()
        execute(folder, "UPDATE journal SET hash = x'" + "00" * 32 + "' WHERE position = 4")
        with SqliteStore.open(folder) as again, pytest.raises(DamagedRow, match="in the archive"):
            plain(again)
        execute(folder, "UPDATE segment SET last = 12")
        with SqliteStore.open(folder) as again, pytest.raises(Damaged, match="list of archives"):
            again.archives.segments()

    def test_a_damaged_row_is_not_archived_and_those_before_it_stay(self, store: SqliteStore, folder: Path) -> None:
        store.close()
        execute(folder, "UPDATE journal SET data = x'00' WHERE position = 15")
        with SqliteStore.open(folder) as again:
            with pytest.raises(DamagedRow):
                move(again, 20)
            assert list((folder / "archives").iterdir()) == []
            assert len(move(again, 14)) == 1


class TestFaults:
    @pytest.mark.parametrize("action", ["enospc", "eio"])
    @pytest.mark.parametrize("point", POINTS)
    def test_a_failure_at_any_point_loses_nothing(
        self, point: str, action: str, store: SqliteStore, folder: Path
    ) -> None:
        before = plain(store)
        with faults.armed({point: action}), pytest.raises(Unavailable):
            move(store, 20)
        assert plain(store) == before
        known = {segment.path for segment in store.archives.segments()}
        assert {*(folder / "archives").iterdir()} == known
        move(store, 20)
        assert plain(store) == before
        assert [segment.last for segment in store.archives.segments()] == [20]

    def test_without_room_for_a_rewrite_the_file_stays_as_long_as_it_is(self, store: SqliteStore) -> None:
        fill(store, 600, 100)
        before = plain(store)
        with faults.armed({"store.before_rewrite": "enospc"}):
            move(store, 630)
        assert plain(store) == before
