"""The index from a blob to the records that give it to a unit."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from tests.stores.old_formats import make_older

from demiurge import faults
from demiurge.errors import Unavailable
from demiurge.stores import Batch, Row, SqliteStore, Store, UnitConflict
from demiurge.stores.exposures import Given, given_by
from demiurge.values.refs import Ref, ref_digest, ref_of
from demiurge.world.record import Stamp, seal_record

ONE, TWO, THREE = (ref_of(name) for name in (b"one", b"two", b"three"))
OUTSIDE = Stamp(1, b"e", manifest=ref_of(b"manifest"))


def row(
    unit: str, seq: int, *refs: Ref, kind: str = "event", ingress: bool = True, body: dict[str, object] | None = None
) -> Row:
    stamp = OUTSIDE if ingress else Stamp(1)
    record = seal_record(unit, seq, kind, None, stamp, body or {}, bytes(32), refs)
    return Row(unit, seq, kind, record.hash, record.data, f"{unit}{seq}" if ingress else None)


def batch(*rows: Row) -> Batch:
    return Batch(rows[0].unit, rows[0].unit_seq, rows, False)


def find_records(store: Store, ref: Ref, unit: str | None = None) -> list[tuple[str, int]]:
    return list(store.exposures.find(ref_digest(ref), unit))


def fill(store: Store) -> None:
    store.append([batch(row("a", 0, ONE, TWO), row("a", 1, ONE, kind="intent", ingress=False))])
    store.append([batch(row("b", 0, ONE)), batch(row("a", 2, TWO, kind="step", ingress=False))])


FILLED = {ONE: [("a", 0), ("b", 0)], TWO: [("a", 2), ("a", 0)], THREE: []}


def assert_filled(store: Store) -> None:
    for ref, places in FILLED.items():
        assert sorted(find_records(store, ref)) == sorted(places)
        assert find_records(store, ref, "a") == [place for place in places if place[0] == "a"]


class TestBytesOfARow:
    @pytest.mark.parametrize("count", [0, 1, 2, 23, 24, 255, 256, 300])
    def test_every_blob_is_found(self, count: int) -> None:
        refs = [ref_of(str(number).encode()) for number in range(count)]
        assert given_by(row("a", 0, *refs)) == [ref_digest(ref) for ref in refs]

    def test_an_intent_or_event_of_the_unit_itself_exposes_no_blob(self) -> None:
        assert given_by(row("a", 0, ONE, kind="intent", ingress=False)) == []
        assert given_by(row("a", 0, ONE, kind="event", ingress=False)) == []
        assert given_by(row("a", 0, ONE, kind="manifest", ingress=False)) == [ref_digest(ONE)]

    def test_a_body_that_looks_like_the_list_hides_nothing(self) -> None:
        forged = b"\x64prev\x58\x20" + bytes(32) + b"\x64refs\x81\x58\x20" + bytes(32)
        assert ref_digest(ONE) in given_by(row("a", 0, ONE, body={"x": forged + forged[:39]}))
        assert ref_digest(ONE) in given_by(row("dprevX " + "." * 32 + "drefs", 0, ONE, body={"refs": b"\x64refs"}))


class TestEveryStore:
    def test_records_are_found_by_blob_and_unit_the_newest_first(self, store: Store) -> None:
        assert find_records(store, ONE) == []
        fill(store)
        assert_filled(store)
        assert store.exposures.indexed_from() == 1

    def test_a_refused_append_leaves_nothing(self, store: Store) -> None:
        with pytest.raises(UnitConflict):
            store.append([batch(row("a", 0, ONE)), batch(row("b", 5, ONE))])
        assert find_records(store, ONE) == []

    def test_many_records_of_many_units(self, store: Store) -> None:
        units = [f"u{number}" for number in range(30)]
        for unit in units:
            store.append([batch(*(row(unit, seq, ONE) for seq in range(20)))])
        places = find_records(store, ONE)
        assert sorted(places) == sorted((unit, seq) for unit in units for seq in range(20))
        assert [seq for unit, seq in places if unit == "u7"] == list(range(19, -1, -1))
        store.append([batch(*(row("long", seq, TWO) for seq in range(600)))])
        assert find_records(store, TWO, "long") == [("long", seq) for seq in range(599, -1, -1)]


def change(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def exposures_of(rows: Iterable[Row]) -> list[Given]:
    return [Given(digest, row.unit, row.unit_seq, row.position) for row in rows for digest in given_by(row)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with SqliteStore.create(tmp_path / "world", "world_1") as store:
        fill(store)
    return tmp_path / "world"


class TestOnDisk:
    def test_the_exposure_index_is_there_after_a_restart(self, folder: Path) -> None:
        with SqliteStore.open(folder) as store:
            assert_filled(store)

    def test_an_entry_that_is_lost_is_noticed_and_made_anew(self, folder: Path) -> None:
        change(folder, "DELETE FROM exposure WHERE seq = 2")
        with SqliteStore.open(folder) as store:
            assert store.exposures.lacking(exposures_of(store.read_all())) == Given(ref_digest(TWO), "a", 2, 4)
        with SqliteStore.open(folder, accepts_losses=True) as store:
            assert store.exposures.lacking(exposures_of(store.read_all())) is None
            assert_filled(store)

    @pytest.mark.parametrize("version", [1, 2, 3])
    def test_a_world_of_an_older_program_is_indexed_by_the_first_question(self, folder: Path, version: int) -> None:
        make_older(folder, version)
        with SqliteStore.open(folder) as store:
            assert store.exposures.indexed_from() == 5
            store.append([batch(row("c", 0, THREE))])
            assert find_records(store, THREE) == [("c", 0)]
            assert_filled_but_three(store)
            assert store.exposures.indexed_from() == 1
        with SqliteStore.open(folder) as store:
            assert store.exposures.indexed_from() == 1

    def test_a_disk_that_is_full_leaves_it_for_later(self, folder: Path) -> None:
        make_older(folder, 3)
        with SqliteStore.open(folder) as store:
            with faults.armed({"meta.before_commit": "enospc"}):
                assert find_records(store, ONE) == []
                assert store.exposures.indexed_from() == 5
            assert_filled(store)

    def test_records_whose_archive_is_away_are_indexed_when_it_is_back(self, folder: Path) -> None:
        with SqliteStore.open(folder) as store:
            [segment] = store.archives.move(3)
            assert_filled(store)
        make_older(folder, 3)
        away = folder.parent / segment.path.name
        shutil.move(segment.path, away)
        with SqliteStore.open(folder) as store:
            assert find_records(store, TWO) == [("a", 2)]
            assert store.exposures.indexed_from() == 4
            shutil.move(away, segment.path)
            assert_filled(store)

    def test_a_damaged_record_does_not_keep_the_others_out(self, folder: Path) -> None:
        make_older(folder, 3)
        change(folder, "UPDATE journal SET data = x'00' WHERE position = 1")
        with SqliteStore.open(folder) as store:
            assert find_records(store, ONE) == [("b", 0)]
            assert store.exposures.indexed_from() == 1

    def test_an_older_program_says_that_it_is_too_old(self, folder: Path) -> None:
        with closing(sqlite3.connect(folder / "journal.db")) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (4,)

    def test_an_append_that_fails_leaves_no_entry(self, folder: Path) -> None:
        with SqliteStore.open(folder) as store:
            with faults.armed({"journal.before_commit": "enospc"}), pytest.raises(Unavailable):
                store.append([batch(row("c", 0, THREE))])
            assert find_records(store, THREE) == []


def assert_filled_but_three(store: Store) -> None:
    assert sorted(find_records(store, ONE)) == FILLED[ONE]
    assert find_records(store, TWO, "a") == FILLED[TWO]
