"""A world's folder may come from anybody: opening it touches nothing outside, and nobody else can read or write it."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from demiurge.errors import NotFound, Unavailable
from demiurge.stores import SqliteStore
from demiurge.stores.secret_file import locked_folder
from demiurge.values.refs import ref_of

LONG = b"long" * 5_000
OTHER = b"other" * 5_000


@pytest.fixture
def world(tmp_path: Path) -> Path:
    folder = tmp_path / "world"
    with SqliteStore.create(folder, "world_1") as store:
        store.put_blob(LONG)
    return folder


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of somebody's documents."""
    folder = tmp_path / "documents"
    folder.mkdir()
    for name in ("1-1", "letter.txt"):
        (folder / name).write_text("precious")
    return folder


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize("place", ["blobs", "blobs/tmp", "blobs/sha256"])
def test_a_link_instead_of_a_folder_is_refused_and_its_target_left_alone(world: Path, victim: Path, place: str) -> None:
    (world / place).rename(world / "aside")
    (world / place).symlink_to(victim)
    before = contents(victim)
    with pytest.raises(Unavailable, match=f"{place} is a link"):
        SqliteStore.open(world)
    assert contents(victim) == before


@pytest.mark.parametrize("name", ["lock", "journal.db", "journal.db-wal", "journal.db-shm", "journal.db-journal"])
@pytest.mark.parametrize("there", [True, False])
def test_a_link_instead_of_a_file_is_refused_and_its_target_left_alone(
    world: Path, tmp_path: Path, name: str, there: bool
) -> None:
    target = tmp_path / "profile"
    if there:
        target.write_text("export A=1")
    (world / name).unlink(missing_ok=True)
    (world / name).symlink_to(target)
    if name == "journal.db" and not there:
        with pytest.raises(NotFound):
            SqliteStore.open(world)
    with pytest.raises(Unavailable, match=f"{name} is a link"):
        SqliteStore.create(world, "world_2")
    assert target.exists() is there
    assert not there or target.read_text() == "export A=1"


@pytest.mark.parametrize("name", ["lock", "journal.db-wal"])
def test_a_second_name_of_a_file_elsewhere_is_refused(world: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "profile"
    target.write_text("export A=1")
    (world / name).unlink(missing_ok=True)
    (world / name).hardlink_to(target)
    with pytest.raises(Unavailable, match="not yours alone"):
        SqliteStore.open(world)
    assert target.read_text() == "export A=1"


@pytest.mark.parametrize("kind", ["folder", "pipe", "socket"])
def test_something_else_instead_of_the_lock_is_refused(world: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = world / "lock"
    lock.unlink()
    monkeypatch.chdir(world)
    match kind:
        case "folder":
            lock.mkdir()
        case "pipe":
            os.mkfifo(lock)
        case "socket":
            with socket.socket(socket.AF_UNIX) as wire:
                wire.bind("lock")
    with pytest.raises(Unavailable, match="lock is not what a world has there"):
        SqliteStore.open(world)


def test_blobs_are_neither_read_nor_written_through_links(world: Path, victim: Path) -> None:
    digest, other = ref_of(LONG).removeprefix("sha256:"), ref_of(OTHER).removeprefix("sha256:")
    path = world / "blobs/sha256" / digest[:2] / digest
    path.rename(victim / "blob")
    path.symlink_to(victim / "blob")
    (world / "blobs/sha256" / other[:2]).symlink_to(victim)
    with SqliteStore.open(world) as store:
        with pytest.raises(Unavailable, match=f"{digest} is a link"):
            store.get_blob(ref_of(LONG))
        with pytest.raises(Unavailable, match=f"{other[:2]} is a link"):
            store.put_blob(OTHER)
    assert not (victim / other).exists()


def test_entries_that_are_not_ours_are_left_alone(world: Path) -> None:
    blobs = world / "blobs"
    beginning = ref_of(LONG).removeprefix("sha256:")[:2]
    strays = [blobs / "tmp/notes.txt", blobs / "sha256/README", blobs / "sha256" / beginning / "zz"]
    for stray in strays:
        stray.write_text("mine")
    folders = [blobs / "tmp/1-1", blobs / "tmp/folder", blobs / "sha256/no-hex"]
    for folder in folders:
        folder.mkdir()
    left = blobs / "tmp/77-3"
    left.write_text("of a crash")
    with SqliteStore.open(world) as store:
        assert list(store.iter_blobs()) == [ref_of(LONG)]
        assert store.get_blob(ref_of(LONG)) == LONG
    assert [stray.read_text() for stray in strays] == ["mine"] * 3
    assert all(folder.is_dir() for folder in folders)
    assert not left.exists()


def test_everything_in_a_world_is_private_whatever_the_umask(tmp_path: Path, no_umask: None) -> None:
    with SqliteStore.create(tmp_path / "world", "world_1") as store:
        store.put_blobs([LONG, b"short"])
        assert {path.name for path in tmp_path.glob("world/journal.db*")} > {"journal.db", "journal.db-wal"}
        for path in (tmp_path / "world", *(tmp_path / "world").rglob("*")):
            expected = 0o700 if path.is_dir() else 0o600
            assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_an_older_world_is_closed_to_others_when_it_is_opened(world: Path) -> None:
    (world / "journal.db").chmod(0o644)
    (world / "blobs").chmod(0o755)
    SqliteStore.open(world).close()
    assert stat.S_IMODE((world / "journal.db").stat().st_mode) == 0o600
    assert stat.S_IMODE((world / "blobs").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_can_write_to_is_refused_untouched(world: Path, tmp_path: Path, mode: int) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    advice = "choose a folder of your own" if mode & stat.S_ISVTX else "chmod go-w"
    for folder in (world, empty):
        folder.chmod(mode)
    with pytest.raises(Unavailable, match=advice):
        SqliteStore.open(world)
    with pytest.raises(Unavailable, match=advice):
        SqliteStore.create(empty, "world_1")
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("mode", [0o666, 0o620, 0o602])
@pytest.mark.parametrize("name", ["journal.db", "lock", "blob"])
def test_a_file_that_others_can_write_to_is_refused_untouched(world: Path, name: str, mode: int) -> None:
    with SqliteStore.open(world):
        pass
    blob = world / "blobs/sha256" / ref_of(LONG)[7:9] / ref_of(LONG)[7:]
    path = blob if name == "blob" else world / name
    path.chmod(mode)
    says = f"Others can write to .*{path.name}.*chmod 600"
    with pytest.raises(Unavailable, match=says) as refused, SqliteStore.open(world) as store:
        store.get_blob(ref_of(LONG))
    assert refused.value.code == "exposed"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    path.chmod(0o600)
    with SqliteStore.open(world) as store:
        assert store.get_blob(ref_of(LONG)) == LONG


def test_folders_above_a_world_are_private_whatever_the_umask(tmp_path: Path, no_umask: None) -> None:
    tmp_path.chmod(0o755)
    SqliteStore.create(tmp_path / "a/b/world", "world_1").close()
    with locked_folder(tmp_path / "home/.local/share/demiurge"):
        pass
    made = [path for place in ("a", "home") for path in (tmp_path / place, *(tmp_path / place).rglob("*"))]
    assert len(made) > 8
    assert [path for path in made if path.stat().st_mode & 0o077] == []
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_folder_that_others_can_only_read_is_fine(world: Path) -> None:
    world.chmod(0o755)
    SqliteStore.open(world).close()


def test_a_world_may_be_opened_by_a_link_to_its_folder(world: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(world)
    with SqliteStore.open(tmp_path / "link") as store:
        assert store.get_blob(ref_of(LONG)) == LONG
