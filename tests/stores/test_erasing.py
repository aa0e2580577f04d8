"""What a store lets go of: garbage that others touch meanwhile stays, and what is erased is nowhere."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from tests.stores.old_formats import make_older

from demiurge import faults
from demiurge.errors import Conflict, Damaged, NotFound, Unavailable
from demiurge.stores import Batch, MemoryStore, Outgoing, Row, Snapshot, SqliteStore, Store
from demiurge.stores.protocol import REFRESH_S, BlobInfo
from demiurge.values import cbor
from demiurge.values.clock import FixedClock
from demiurge.values.refs import ref_digest, ref_of

SMALL, LONG = b"a small canary, seen once", b"a long canary " * 5000
HOUR_NS = 3600 * 10**9


def blob_info(data: bytes) -> BlobInfo:
    return BlobInfo(sha256(data).digest(), len(data), 0)


def row(unit: str, seq: int, data: bytes) -> Row:
    return Row(unit, seq, "event", sha256(data).digest(), data)


def collect_noted(found: set[bytes]) -> Callable[[set[bytes]], list[BlobInfo]]:
    """Chooses nothing, and adds what was noted to `found`."""

    def choose(noted: set[bytes]) -> list[BlobInfo]:
        found.update(noted)
        return []

    return choose


def on_disk(folder: Path, what: bytes) -> list[str]:
    """The files of a folder that hold these bytes."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and what in path.read_bytes()]


class TestCollecting:
    def test_a_collection_removes_the_chosen_blobs_only(self, store: Store) -> None:
        store.put_blobs([SMALL, LONG, b"another", LONG + b"another"])
        with store.collecting() as collecting:
            collecting.remove(lambda _noted: [blob_info(SMALL), blob_info(LONG), blob_info(b"never was")])
        assert {*store.iter_blobs()} == {ref_of(b"another"), ref_of(LONG + b"another")}
        with pytest.raises(NotFound) as caught:
            store.get_blob(ref_of(SMALL))
        assert caught.value.code == "not_found"
        assert store.get_blob(store.put_blob(LONG)) == LONG

    def test_a_blob_can_be_read_without_being_noted(self, store: Store) -> None:
        store.put_blobs([SMALL])
        found: set[bytes] = set()
        with store.collecting() as collecting:
            collecting.remove(lambda noted: [])
            assert collecting.read(sha256(SMALL).digest()) == SMALL
            assert collecting.read(bytes(32)) is None
            collecting.remove(collect_noted(found))
        assert found == set()

    @pytest.mark.parametrize(
        "touch",
        [
            lambda store: store.get_blob(ref_of(SMALL)),
            lambda store: store.has_blob(ref_of(SMALL)),
            lambda store: store.blob_size(ref_of(SMALL)),
            lambda store: store.put_blob(SMALL),
            lambda store: store.put_blob(cbor.encode([ref_digest(ref_of(SMALL))])),
            lambda store: store.put_blob(b'{"ref":"%s"}' % ref_of(SMALL).encode()),
            lambda store: store.append([], blobs=[SMALL]),
            lambda store: store.append([Batch("a", 0, (row("a", 0, ref_of(SMALL).encode()),), False)]),
            lambda store: store.append([Batch("a", 0, (row("a", 0, b"\x58\x20" + ref_digest(ref_of(SMALL))),), False)]),
            lambda store: store.append([Batch("a", 0, (), False, (Outgoing("m", "a", "b", ref_of(SMALL).encode()),))]),
            lambda store: store.set_meta("key", ref_of(SMALL)),
        ],
        ids=[
            "get_blob",
            "has_blob",
            "blob_size",
            "put_blob",
            "digest in a CBOR node",
            "ref in a text",
            "blob beside rows",
            "ref in a row",
            "digest in a row",
            "ref in a message",
            "ref in meta",
        ],
    )
    def test_a_blob_touched_during_a_collection_is_noted(self, store: Store, touch: Callable[[Store], object]) -> None:
        store.put_blob(SMALL)
        found: set[bytes] = set()
        with store.collecting() as collecting:
            collecting.remove(lambda noted: [])
            touch(store)
            collecting.remove(collect_noted(found))
        assert sha256(SMALL).digest() in found

    def test_a_snapshot_is_noted(self, store: Store) -> None:
        first = row("a", 0, b"first")
        found: set[bytes] = set()
        with store.collecting() as collecting:
            snapshot = Snapshot("a", 0, first.hash, ref_of(SMALL))
            store.append([Batch("a", 0, (first,), False, snapshot=snapshot)])
            store.put_snapshot(replace(snapshot, ref=ref_of(LONG)))
            collecting.remove(collect_noted(found))
        assert {sha256(SMALL).digest(), sha256(LONG).digest()} <= found

    def test_a_blob_looked_up_just_before_a_collection_is_noted(self, store: Store) -> None:
        store.put_blob(SMALL)
        store.has_blob(ref_of(SMALL))
        found: set[bytes] = set()
        with store.collecting() as collecting:
            collecting.remove(collect_noted(found))
        assert sha256(SMALL).digest() in found

    def test_a_second_collection_at_the_same_time_is_refused(self, store: Store) -> None:
        with store.collecting():
            with pytest.raises(Conflict) as caught, store.collecting():
                pass
            assert caught.value.code == "collecting"
        with store.collecting():
            pass

    def test_forgotten_snapshots_are_gone_and_the_others_are_not(self, store: Store) -> None:
        rows = tuple(row("a", seq, b"%d" % seq) for seq in range(3))
        store.append([Batch("a", 0, rows, False)])
        old, new = (Snapshot("a", seq, rows[seq].hash, ref_of(SMALL)) for seq in (0, 2))
        store.put_snapshot(old)
        store.put_snapshot(new)
        store.drop_snapshots([old])
        assert store.latest_snapshot("a") == new
        assert store.latest_snapshot("a", 2) is None


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_blob_says_when_it_was_put_last(kind: str, tmp_path: Path) -> None:
    clock = FixedClock(1_800_000_000 * 10**9)
    sqlite = SqliteStore.create(tmp_path / "w", "world_1", clock) if kind == "sqlite" else None
    store: Store = sqlite if sqlite is not None else MemoryStore("world_1", clock)
    store.put_blobs([SMALL, LONG])
    for hours in (0, 5, 24):
        clock.advance(hours * HOUR_NS)
        store.append([], blobs=[SMALL])
        store.put_blob(LONG)
        assert {blob.put_s for blob in store.list_blobs()} == {clock.now_ns() // 10**9}
    clock.advance(HOUR_NS // 2)
    store.put_blobs([SMALL, LONG])
    assert all(clock.now_ns() // 10**9 - blob.put_s <= REFRESH_S for blob in store.list_blobs())
    assert sorted(blob.size for blob in store.list_blobs()) == [len(SMALL), len(LONG)]
    store.close()


class TestErasing:
    def test_an_erased_blob_says_so_and_its_rows_are_there(self, store: Store) -> None:
        store.put_blobs([SMALL, LONG])
        first = row("a", 0, b"first")
        store.erase([ref_of(SMALL), ref_of(LONG)], [Batch("a", 0, (first,), False)])
        for data in (SMALL, LONG):
            assert not store.has_blob(ref_of(data))
            with pytest.raises(NotFound, match="was erased") as caught:
                store.get_blob(ref_of(data))
            assert caught.value.code == "erased"
        assert [found.hash for found in store.read("a")] == [first.hash]
        assert {*store.erasures()} == {ref_of(SMALL), ref_of(LONG)}
        store.erase([ref_of(SMALL)])
        assert list(store.iter_blobs()) == []

    def test_rows_that_are_refused_erase_nothing(self, store: Store) -> None:
        store.put_blob(SMALL)
        with pytest.raises(Conflict):
            store.erase([ref_of(SMALL)], [Batch("a", 5, (row("a", 5, b"x"),), False)])
        assert store.get_blob(ref_of(SMALL)) == SMALL
        assert list(store.erasures()) == []

    def test_bytes_that_are_put_again_are_there_again(self, store: Store) -> None:
        for data in (SMALL, LONG):
            store.erase([ref_of(data)])
            assert store.get_blob(store.put_blob(data)) == data
        store.erase([ref_of(SMALL)])
        store.append([], blobs=[SMALL])
        assert store.get_blob(ref_of(SMALL)) == SMALL


class TestOnDisk:
    def test_nothing_of_an_erased_blob_is_in_any_file(self, tmp_path: Path) -> None:
        folder = tmp_path / "w"
        with SqliteStore.create(folder, "world_1") as store:
            for number in range(400):  # so that pages are split and cells are moved
                store.put_blob(b"%d " % number * (number % 50) + b"filler")
                if number == 200:
                    store.put_blobs([SMALL, SMALL * 100, LONG])
            assert on_disk(folder, b"canary")
            store.erase([ref_of(SMALL), ref_of(SMALL * 100), ref_of(LONG)])
            assert on_disk(folder, b"canary") == []
            assert len(list(store.iter_blobs())) == 393
        assert on_disk(folder, b"canary") == []

    def test_a_fork_that_has_the_same_file_keeps_its_own(self, tmp_path: Path) -> None:
        with (
            SqliteStore.create(tmp_path / "w", "world_1") as store,
            SqliteStore.create(tmp_path / "f", "world_2") as fork,
        ):
            store.put_blob(LONG)
            fork.share_blob(store, ref_of(LONG))
            fork.put_blob(LONG)
            store.erase([ref_of(LONG)])
            assert on_disk(tmp_path / "w", b"canary") == []
            assert fork.get_blob(ref_of(LONG)) == LONG

    @pytest.mark.parametrize(
        "point",
        [
            "erase.after_commit",
            "remove.before_unlink",
            "store.before_rewrite",
            "store.after_rewrite",
            "erased.before_commit",
        ],
    )
    @pytest.mark.parametrize("action", ["enospc", "eio"])
    def test_an_erasure_interrupted_by_a_disk_error_hides_the_blob_at_once_and_is_finished_later(
        self, point: str, action: str, tmp_path: Path
    ) -> None:
        with SqliteStore.create(tmp_path / "w", "world_1") as store:
            store.put_blobs([SMALL, LONG])
            with faults.armed({point: action}), pytest.raises(Unavailable):
                store.erase([ref_of(SMALL), ref_of(LONG)])
            with pytest.raises(NotFound):
                store.get_blob(ref_of(SMALL))
            store.put_blob(LONG + b"of another")
        with SqliteStore.open(tmp_path / "w") as store:
            assert on_disk(tmp_path / "w", SMALL) == []
            assert {*store.iter_blobs()} == {ref_of(LONG + b"of another")}

    def test_bytes_that_came_back_before_it_was_finished_stay(self, tmp_path: Path) -> None:
        with SqliteStore.create(tmp_path / "w", "world_1") as store:
            store.put_blob(LONG)
            with faults.armed({"remove.before_unlink": "eio"}), pytest.raises(Unavailable):
                store.erase([ref_of(LONG)])
            with faults.armed({"remove.before_unlink": "eio"}), pytest.raises(Unavailable):
                store.put_blob(LONG)
            store.put_blob(LONG)
        with SqliteStore.open(tmp_path / "w") as store:
            assert store.get_blob(ref_of(LONG)) == LONG

    def test_room_that_garbage_took_is_given_back(self, tmp_path: Path) -> None:
        with SqliteStore.create(tmp_path / "w", "world_1") as store:
            blobs = [b"%d " % number * 3000 for number in range(300)]
            store.put_blobs(blobs)
            with store.collecting() as collecting:
                collecting.remove(lambda _noted: [blob_info(data) for data in blobs])
            size = sum(path.stat().st_size for path in (tmp_path / "w").glob("journal.db*"))
            assert size < 200_000

    def test_a_link_in_place_of_a_folder_is_not_followed(self, tmp_path: Path) -> None:
        with SqliteStore.create(tmp_path / "w", "world_1") as store:
            store.put_blob(LONG)
            name = ref_of(LONG)[7:]
            place = tmp_path / "w" / "blobs" / "sha256" / name[:2]
            shutil.move(place, tmp_path / "elsewhere")
            os.symlink(tmp_path / "elsewhere", place)
            with store.collecting() as collecting, pytest.raises(Unavailable):
                collecting.remove(lambda _noted: [blob_info(LONG)])
            assert (tmp_path / "elsewhere" / name).exists()


class TestUpgrade:
    @pytest.fixture
    def older(self, tmp_path: Path) -> Path:
        """A world as it was before blobs had times: format 1."""
        folder = tmp_path / "w"
        with SqliteStore.create(folder, "world_1") as store:
            store.append([Batch("a", 0, (row("a", 0, b"first"),), True)], blobs=[SMALL, LONG])
        make_older(folder, 1)
        return folder

    def test_an_older_world_is_opened_as_one_of_today(self, older: Path) -> None:
        clock = FixedClock(1_900_000_000 * 10**9)
        with SqliteStore.open(older, clock) as store:
            assert [found.data for found in store.read("a")] == [b"first"]
            assert store.get_blob(ref_of(SMALL)) == SMALL
            small = next(blob for blob in store.list_blobs() if blob.digest == sha256(SMALL).digest())
            assert small.put_s == 1_900_000_000, "what has no time counts as put now"
            store.erase([ref_of(SMALL)])
            store.append([], blobs=[b"new"])
            assert len(list(store.archives.move(1))) == 1
        with SqliteStore.open(older) as store:
            assert list(store.erasures()) == [ref_of(SMALL)]
            assert store.format == 4

    def test_an_upgrade_that_fails_leaves_the_older_world_as_it_was(self, older: Path) -> None:
        with faults.armed({"upgrade.before_commit": "enospc"}), pytest.raises(Unavailable):
            SqliteStore.open(older)
        with SqliteStore.open(older) as store:
            assert store.get_blob(ref_of(LONG)) == LONG

    def test_a_world_of_an_unknown_format_is_not_upgraded(self, older: Path) -> None:
        db = sqlite3.connect(older / "journal.db", isolation_level=None)
        db.execute("PRAGMA user_version = 0")
        db.close()
        with pytest.raises(Damaged):
            SqliteStore.open(older)
