"""A byte that changed on disk is found when it is read, and named; it never comes back as right."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demiurge.errors import Damaged, DemiurgeError
from demiurge.stores import (
    GENESIS,
    Batch,
    DamagedRow,
    Outgoing,
    Row,
    SqliteStore,
    verify_journal,
)
from demiurge.values.refs import ref_of

SHORT, LONG = b"short" * 100, b"long" * 5_000


def chain(unit: str, count: int) -> tuple[Row, ...]:
    rows: list[Row] = []
    prev = GENESIS
    for seq in range(count):
        data = prev + f"{unit} {seq} ".encode() * 10
        prev = sha256(data).digest()
        rows.append(Row(unit, seq, "event", prev, data, f"in-{seq}"))
    return tuple(rows)


def prev_of(row: Row) -> bytes:
    return row.data[:32]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Closed: `open` (open) and `shut` with 5 rows each, a message, a short and a long blob."""
    folder = tmp_path / "world"
    with SqliteStore.create(folder, "world_1") as store:
        message = Outgoing("m1", "open", "shut", b"payload")
        opened = Batch("open", 0, chain("open", 5), True, (message,))
        store.append([opened, Batch("shut", 0, chain("shut", 5), False)], blobs=[SHORT, LONG])
        store.set_meta("manifest", "one")
    return folder


def execute(folder: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as db:
        assert db.execute(statement, values).rowcount == 1


@pytest.mark.parametrize(
    "change",
    [
        "data = CAST(substr(data, 1, 40) || x'00' || substr(data, 42) AS BLOB)",
        "data = x''",
        "hash = zeroblob(32)",
        "kind = 'evens'",
        "ingress_id = 'in-x'",
        "ingress_id = NULL",
        "guard = guard + 1",
        "position = 77",
    ],
)
@pytest.mark.parametrize("seq", [1, 4])
def test_a_changed_row_is_named_by_every_reader(world: Path, change: str, seq: int) -> None:
    execute(world, f"UPDATE journal SET {change} WHERE seq = ? AND unit = 1", seq)
    with SqliteStore.open(world) as store:
        for read in (store.read("open"), store.read_all()):
            with pytest.raises(DamagedRow, match=f"Record {seq} of unit open is damaged") as caught:
                list(read)
            assert (caught.value.unit, caught.value.unit_seq) == ("open", seq)
        assert [row.data for row in store.read("shut")] == [row.data for row in chain("shut", 5)]


@pytest.mark.parametrize(
    ("change", "seq"), [("seq = 9", 3), ("unit = 2, seq = 9, ingress_id = NULL", 3), ("unit = 99", 3)]
)
def test_a_row_that_went_elsewhere_is_missed(world: Path, change: str, seq: int) -> None:
    execute(world, f"UPDATE journal SET {change} WHERE seq = ? AND unit = 1", seq)
    with SqliteStore.open(world) as store:
        with pytest.raises(DamagedRow, match=f"Record {seq} of unit open"):
            list(store.read("open"))
        with pytest.raises(DamagedRow):
            list(store.read_all())


@pytest.mark.parametrize("seq", [0, 2, 4])
def test_a_deleted_row_is_missed(world: Path, seq: int) -> None:
    execute(world, "DELETE FROM journal WHERE seq = ? AND unit = 2", seq)
    with SqliteStore.open(world) as store:
        with pytest.raises(DamagedRow, match=f"Record {seq} of unit shut is damaged"):
            list(store.read("shut"))
        with pytest.raises(DamagedRow, match=f"Record {seq} of unit shut is damaged"):
            verify_journal(store, prev_of)
        assert len(list(store.read("open"))) == 5


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE journal SET data = x'00' WHERE seq = 4 AND unit = 1",
        "DELETE FROM journal WHERE seq = 4 AND unit = 1",
        "UPDATE unit SET hash = zeroblob(32) WHERE id = 1",
        "UPDATE unit SET next_seq = 4 WHERE id = 1",
        "UPDATE unit SET next_seq = 7 WHERE id = 1",
        "UPDATE unit SET name = 'opel' WHERE id = 1",
    ],
)
def test_a_damaged_end_closes_its_unit_and_no_other(world: Path, change: str) -> None:
    execute(world, change)
    with SqliteStore.open(world) as store:
        (unit,) = store.damaged
        assert unit in {"open", "opel"}
        assert store.damaged[unit].unit == unit
        assert list(store.heads(open_only=True)) == []
        with pytest.raises(DamagedRow, match=f"of unit {unit} is damaged"):
            store.append([Batch(unit, 5, (), False)])
        data = b"more"
        store.append([Batch("shut", 5, (Row("shut", 5, "event", sha256(data).digest(), data),), False)])
        assert len(list(store.read("shut"))) == 6


def test_a_row_that_its_head_does_not_know_of_is_not_written_over(world: Path) -> None:
    copy = "SELECT 99, unit, 5, kind, NULL, hash, data, guard FROM journal WHERE position = 10"
    execute(world, f"INSERT INTO journal {copy}")
    with SqliteStore.open(world) as store:
        data = b"more"
        row = Row("shut", 5, "event", sha256(data).digest(), data)
        with pytest.raises(DamagedRow, match="Record 5 of unit shut is damaged"):
            store.append([Batch("shut", 5, (row,), False)])


@pytest.mark.parametrize("column", ["source", "target", "data"])
def test_a_changed_message_is_named(world: Path, column: str) -> None:
    execute(world, f"UPDATE outbox SET {column} = {'x' if column == 'data' else ''}'00'")
    with SqliteStore.open(world) as store, pytest.raises(Damaged, match="Message m1"):
        store.outbox()


def test_a_changed_meta_value_is_named(world: Path) -> None:
    execute(world, "UPDATE meta SET value = 'two' WHERE key = 'manifest'")
    with SqliteStore.open(world) as store, pytest.raises(Damaged, match="manifest"):
        store.get_meta("manifest")


@pytest.mark.parametrize("data", [SHORT, LONG])
def test_a_changed_blob_is_named_and_can_be_put_again(world: Path, data: bytes) -> None:
    digest = sha256(data).digest()
    if data is SHORT:
        execute(world, "UPDATE blob SET data = ? WHERE digest = ?", b"s" + data[2:], digest)
    else:
        path = world / "blobs" / "sha256" / digest.hex()[:2] / digest.hex()
        path.write_bytes(data[:1000] + b"?" + data[1001:])
    with SqliteStore.open(world) as store:
        ref = ref_of(data)
        with pytest.raises(Damaged, match=ref):
            store.get_blob(ref)
        assert store.put_blobs([data]) == [ref]
        assert store.get_blob(ref) == data


def test_a_good_blob_file_is_not_written_again(world: Path) -> None:
    name = sha256(LONG).hexdigest()
    path = world / "blobs" / "sha256" / name[:2] / name
    before = path.stat()
    with SqliteStore.open(world) as store:
        store.put_blob(LONG)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("more", ["", " || 'x'"])
@pytest.mark.parametrize("column", ["type", "name", "tbl_name", "sql"])
def test_a_list_of_tables_with_bytes_for_text_is_read_or_damaged(world: Path, column: str, more: str) -> None:
    with closing(sqlite3.connect(world / "journal.db", isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute(f"UPDATE sqlite_master SET {column} = CAST({column}{more} AS BLOB) WHERE name = 'tile'")
    if more:
        with pytest.raises(Damaged, match=r"journal\.db"):
            SqliteStore.open(world)
    else:
        with SqliteStore.open(world) as store:
            assert [row.data for row in store.read("shut")] == [row.data for row in chain("shut", 5)]


@pytest.mark.parametrize("other", ["blob", "journal", "meta"])
def test_no_file_of_a_blob_goes_when_the_list_of_erased_blobs_is_read_from_another_table(
    world: Path, other: str
) -> None:
    """One flipped bit in the list of tables can do that."""
    with closing(sqlite3.connect(world / "journal.db", isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema = ON")
        [(root,)] = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (other,)).fetchall()
        db.execute("UPDATE sqlite_master SET rootpage = ? WHERE name = 'erased'", (root,))
    before = sorted(path for path in (world / "blobs").rglob("*") if path.is_file())
    with pytest.raises(Damaged, match="table of erased blobs"):
        SqliteStore.open(world)
    assert before
    assert sorted(path for path in (world / "blobs").rglob("*") if path.is_file()) == before


def genuine_rows(store: SqliteStore) -> Iterator[Row]:
    truth = {(row.unit, row.unit_seq): row for unit in ("open", "shut") for row in chain(unit, 5)}
    for row in store.read_all():
        expected = truth[row.unit, row.unit_seq]
        assert (row.kind, row.hash, row.data, row.ingress_id) == (
            expected.kind,
            expected.hash,
            expected.data,
            expected.ingress_id,
        )
        yield row


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_flipped_bit_of_the_file_is_harmless_or_found(world: Path, place: float, bit: int) -> None:
    """Whatever byte of the database it is: what is read is what was written, or an error says otherwise."""
    folder = world.with_name("flipped")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(world, folder)
    content = bytearray((folder / "journal.db").read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    (folder / "journal.db").write_bytes(content)
    try:
        with SqliteStore.open(folder) as store:
            damaged = set(store.damaged)
            found = list(genuine_rows(store))
            verify_journal(store, prev_of)
            if not damaged:
                assert len(found) == 10
                assert store.get_meta("manifest") in {"one", None}  # a page may lose its last cell
                assert store.get_blob(ref_of(SHORT)) == SHORT
                assert all(message.data == b"payload" for message in store.outbox())
    except DemiurgeError:
        pass
