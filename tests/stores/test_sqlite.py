"""A world in a folder: making it, opening it, what lies in it, and what is said when it can't be opened."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from demiurge.errors import Conflict, Damaged, NotFound, Unavailable, UsageError
from demiurge.stores import Batch, Row, SqliteStore
from demiurge.stores.sqlite import schema
from demiurge.values.refs import ref_of

LONG = b"long" * 5_000


def batch(unit: str, seq: int, count: int = 1, *, is_open: bool = False) -> Batch:
    datas = [f"{unit} {seq + index}".encode() * 20 for index in range(count)]
    rows = [Row(unit, seq + i, "event", sha256(data).digest(), data) for i, data in enumerate(datas)]
    return Batch(unit, seq, tuple(rows), is_open)


def make_world(folder: Path) -> Path:
    with SqliteStore.create(folder, "world_1") as store:
        store.append([batch("a", 0, 3, is_open=True), batch("b", 0, 2)], blobs=[b"short", LONG])
    return folder


def execute(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as db:
        db.execute(statement, values)


def test_a_world_is_made_once_and_opened_often(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "world"
    with pytest.raises(NotFound, match="demiurge init"):
        SqliteStore.open(folder)
    make_world(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with pytest.raises(Conflict, match="another folder"):
        SqliteStore.create(folder, "world_2")
    for _ in range(2):
        with SqliteStore.open(folder) as store:
            assert store.world_id == "world_1"
            assert [row.unit_seq for row in store.read("a")] == [0, 1, 2]


def test_a_closed_world_is_all_in_its_main_file_and_its_blob_files(tmp_path: Path) -> None:
    folder = make_world(tmp_path / "world")
    name = sha256(LONG).hexdigest()
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == {"journal.db", "lock", f"blobs/sha256/{name[:2]}/{name}"}
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(folder / "journal.db", copy)
    with SqliteStore.open(copy) as store:
        assert len(list(store.read_all())) == 5
        assert store.get_blob(ref_of(b"short")) == b"short"


def test_opening_a_store_removes_half_written_blobs(tmp_path: Path) -> None:
    folder = make_world(tmp_path / "world")
    (folder / "blobs" / "tmp" / "123-4").write_bytes(b"half")
    with SqliteStore.open(folder) as store:
        assert list((folder / "blobs" / "tmp").iterdir()) == []
        assert sorted(store.iter_blobs()) == sorted([ref_of(b"short"), ref_of(LONG)])


def test_a_file_in_which_no_world_was_finished_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "world"
    folder.mkdir()
    (folder / "journal.db").touch()
    with pytest.raises(NotFound, match="holds no world"):
        SqliteStore.open(folder)
    make_world(folder)


def test_a_world_of_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    folder = make_world(tmp_path / "world")
    execute(folder, "PRAGMA user_version = 5")
    before = (folder / "journal.db").read_bytes()
    with pytest.raises(UsageError, match=r"format 5; this one knows 4.*pip install --upgrade") as caught:
        SqliteStore.open(folder)
    assert caught.value.code == "newer_format"
    assert (folder / "journal.db").read_bytes() == before


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("has_id", [True, False])
def test_a_world_has_the_marks_of_its_format_and_its_id(tmp_path: Path, version: int, has_id: bool) -> None:
    """Either mark alone is not enough: a file that lacks one is no world that can be trusted."""
    folder = make_world(tmp_path / "world")
    execute(folder, f"PRAGMA user_version = {version}")
    if not has_id:
        execute(folder, "DELETE FROM meta WHERE key = 'world_id'")
    with closing(sqlite3.connect(folder / "journal.db")) as db:
        if version == schema.FORMAT and has_id:
            assert schema.read_world_id(db, folder / "journal.db") == "world_1"
        elif version > schema.FORMAT:
            with pytest.raises(UsageError, match="newer Demiurge"):
                schema.read_world_id(db, folder / "journal.db")
        else:
            with pytest.raises(Damaged, match="lacks the marks of a world: restore it from a backup"):
                schema.read_world_id(db, folder / "journal.db")


def test_a_database_of_another_program_is_refused_untouched(tmp_path: Path) -> None:
    folder = tmp_path / "world"
    folder.mkdir()
    execute(folder, "CREATE TABLE theirs (x)")
    before = (folder / "journal.db").read_bytes()
    with pytest.raises(UsageError, match="another program"):
        SqliteStore.open(folder)
    with pytest.raises(Conflict, match="another folder"):
        SqliteStore.create(folder, "world_1")
    assert (folder / "journal.db").read_bytes() == before


def test_a_file_that_is_no_database_is_damaged(tmp_path: Path) -> None:
    folder = make_world(tmp_path / "world")
    (folder / "journal.db").write_bytes(b"not a database at all" * 1000)
    with pytest.raises(Damaged, match="restore it from a backup"):
        SqliteStore.open(folder)
    with pytest.raises(Damaged, match="restore it from a backup"):  # and nobody owns it now
        SqliteStore.open(folder)


def test_a_cut_database_is_damaged(tmp_path: Path) -> None:
    folder = make_world(tmp_path / "world")
    os.truncate(folder / "journal.db", 3 * 4096)
    with pytest.raises(Damaged, match="restore"), SqliteStore.open(folder) as store:
        list(store.read_all())


def test_a_database_that_another_program_locks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demiurge.stores.sqlite.database._WAIT_SECONDS", 0.05)
    folder = make_world(tmp_path / "world")
    with SqliteStore.open(folder) as store, closing(sqlite3.connect(folder / "journal.db")) as other:
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable, match="close it and try again") as caught:
            store.append([batch("a", 3)])
        assert caught.value.code == "locked"
        assert len(list(store.read("a"))) == 3
        other.execute("ROLLBACK")
        store.append([batch("a", 3)])


def test_a_folder_one_may_not_write_to_is_said() -> None:
    """In a child that is nobody when we are root: root may write everywhere."""
    code = """
import os, sys
from pathlib import Path
from demiurge.errors import Unavailable
from demiurge.stores import SqliteStore
import encodings.idna
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
folder = Path(sys.argv[1])
for attempt in (lambda: SqliteStore.open(folder), lambda: SqliteStore.create(folder / "new", "world_1")):
    try:
        attempt()
    except Unavailable as error:
        print(error.code, error.message)
"""
    top = Path(tempfile.mkdtemp())
    try:
        top.chmod(0o755)
        folder = make_world(top / "world")
        (folder / "journal.db").chmod(0o444)
        (folder / "lock").chmod(0o444)
        folder.chmod(0o555)
        command = [sys.executable, "-c", code, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        assert [line.split()[0] for line in lines] == ["read_only", "read_only"]
        assert all("can't be written to: check" in line for line in lines)
    finally:
        (top / "world").chmod(0o700)
        shutil.rmtree(top)


def test_opening_reads_the_same_few_pages_however_long_the_journal(tmp_path: Path) -> None:
    """Rows that opening doesn't need may be damaged: it doesn't look at them."""
    folder = tmp_path / "world"
    with SqliteStore.create(folder, "world_1") as store:
        store.append([batch("a", 0, 300, is_open=True)])
    execute(folder, "UPDATE journal SET data = x'00' WHERE seq < 299")
    with SqliteStore.open(folder) as store:
        assert dict(store.damaged) == {}
        assert [row.unit_seq for row in store.read("a", 299)] == [299]


def test_a_large_journal_is_read_back_by_many_connections(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "world", "world_1") as store:
        store.append([batch("a", 0, 1500)])
        readings = [store.read("a") for _ in range(8)]
        for expected in range(1500):
            assert {next(reading).unit_seq for reading in readings} == {expected}
