"""A world that is only read: what is committed is seen, nothing is changed, and whatever would write says why not."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from tests.stores.old_formats import make_older

from demiurge.errors import Conflict, DemiurgeError, NotFound, Unavailable
from demiurge.stores import Attempt, Batch, OwnerLock, Row, Snapshot, SqliteStore
from demiurge.stores.read_only import ReadOnly
from demiurge.stores.sqlite.ledger import SqliteEffectLedger
from demiurge.stores.tiles import Tiles
from demiurge.tools.ledger.store import LedgerSlot
from demiurge.values.refs import ref_of

WHY = Unavailable("The disk takes no writes.", code="read_only")
LONG = b"long" * 5_000


def row(seq: int) -> Row:
    data = f"a {seq}".encode()
    return Row("a", seq, "event", sha256(data).digest(), data)


def append(store: SqliteStore, count: int = 2) -> None:
    head = store.head("a")
    seq = head.next_seq if head else 0
    store.append([Batch("a", seq, tuple(row(seq + more) for more in range(count)), True)], blobs=[b"short", LONG])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def copied(source: Path, target: Path) -> Path:
    """What a crash at this moment would leave."""
    target.mkdir(mode=0o700)
    for name, data in contents(source).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)
        (target / name).chmod(0o600)
    return target


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """A folder that takes no new file: of root a mount of its own, of anybody else by its mode."""
    if os.geteuid() == 0:
        subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
    else:
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        yield
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        else:
            folder.chmod(stat.S_IRWXU)


def test_a_read_only_store_reads_committed_rows_while_the_owner_writes(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as owner:
        append(owner)
        with SqliteStore.open_read_only(tmp_path / "w", WHY) as looking:
            assert looking.read_only == ReadOnly(WHY, alone=False)
            assert (looking.world_id, looking.length()) == ("world_1", 2)
            append(owner)
            assert looking.length() == 4
            assert list(looking.read_all()) == list(owner.read_all())
            assert looking.get_blob(ref_of(LONG)) == LONG
        append(owner)


def test_a_transaction_that_its_owner_has_not_ended_is_not_seen(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as owner:
        append(owner)
        with closing(sqlite3.connect(tmp_path / "w" / "journal.db", isolation_level=None)) as halfway:
            halfway.execute("BEGIN IMMEDIATE")
            halfway.execute("UPDATE unit SET next_seq = 99")
            with SqliteStore.open_read_only(tmp_path / "w", WHY) as looking:
                head = looking.head("a")
                assert head is not None
                assert head.next_seq == 2
            halfway.execute("ROLLBACK")


@pytest.mark.parametrize("left", ["closed", "log", "log and index"])
@pytest.mark.parametrize("place", ["writable", "unwritable"])
def test_a_read_only_store_reads_everything_and_changes_nothing_after_a_close_or_a_crash(
    left: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, copies = tmp_path / "w", tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    with SqliteStore.create(folder, "world_1") as store:
        append(store)
        if left != "closed":
            folder = copied(folder, tmp_path / "crashed")
            assert (folder / "journal.db-wal").stat().st_size > 0
    if left == "log":
        (folder / "journal.db-shm").unlink()
    before = contents(folder)
    if place == "unwritable":
        with unwritable(folder), SqliteStore.open_read_only(folder, WHY) as looking:
            assert [each.data for each in looking.read_all()] == [b"a 0", b"a 1"]
            assert looking.get_blob(ref_of(LONG)) == LONG
    else:
        with SqliteStore.open_read_only(folder, WHY) as looking:
            assert [each.data for each in looking.read_all()] == [b"a 0", b"a 1"]
    assert contents(folder) == before
    assert list(copies.iterdir()) == []
    with SqliteStore.open(folder) as store:
        append(store)
        assert store.length() == 4


def test_everything_that_would_write_says_why_it_can_not(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        append(store)
    before = contents(tmp_path / "w")
    with (
        SqliteStore.open_read_only(tmp_path / "w", WHY) as looking,
        SqliteStore.create(tmp_path / "v", "world_2") as other,
    ):
        writes: list[Callable[[], object]] = [
            lambda: append(looking),
            lambda: looking.append([], attempts=[Attempt(b"i", "a", "t", 1)]),
            lambda: looking.put_blob(b"new"),
            lambda: looking.put_blob(LONG + b"new"),
            lambda: looking.share_blob(other, ref_of(LONG)),
            lambda: looking.set_meta("key", "value"),
            lambda: looking.put_snapshot(Snapshot("a", 1, row(1).hash, ref_of(b"short"))),
            lambda: looking.erase([ref_of(LONG)]),
            lambda: looking.accept_losses(),
            lambda: list(looking.archives.move(1)),
        ]
        for write in writes:
            with pytest.raises(Unavailable, match="takes no writes") as refused:
                write()
            assert refused.value.code == "read_only"
    assert contents(tmp_path / "w") == before


def test_nobody_becomes_the_owner_while_it_is_read_by_others_alone(tmp_path: Path) -> None:
    SqliteStore.create(tmp_path / "w", "world_1").close()
    with SqliteStore.open_read_only(tmp_path / "w", WHY) as one, SqliteStore.open_read_only(tmp_path / "w", WHY) as two:
        assert (one.length(), two.length()) == (0, 0)
        with pytest.raises(Conflict):
            SqliteStore.open(tmp_path / "w")
    SqliteStore.open(tmp_path / "w").close()


def test_seals_are_computed_without_a_place_for_their_tiles(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        append(store, 700)
    with SqliteStore.open_read_only(tmp_path / "w", WHY) as looking:
        found = [Tiles(looking).root(size) for size in (1, 256, 512, 700)]
    with SqliteStore.open(tmp_path / "w") as store:
        assert found == [Tiles(store).root(size) for size in (1, 256, 512, 700)]


@pytest.mark.parametrize("version", [1, 2])
def test_a_world_of_an_earlier_format_is_read_in_a_copy_of_today_s(tmp_path: Path, version: int) -> None:
    folder = tmp_path / "w"
    with SqliteStore.create(folder, "world_1") as store:
        append(store)
    make_older(folder, version)
    before = contents(folder)
    with unwritable(folder), SqliteStore.open_read_only(folder, WHY) as looking:
        assert [each.data for each in looking.read_all()] == [b"a 0", b"a 1"]
        assert looking.get_blob(ref_of(b"short")) == b"short"
        with pytest.raises(Unavailable, match="takes no writes"):
            append(looking)
    assert contents(folder) == before


def test_opening_a_missing_world_read_only_raises_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        SqliteStore.open_read_only(tmp_path, WHY)
    with pytest.raises(NotFound):
        SqliteStore.open_read_only(tmp_path / "nowhere", WHY)


def test_a_full_disk_keeps_nobody_from_saying_who_owns_the_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with OwnerLock(tmp_path / "lock") as lock:
        assert lock.held


LEFT = """
import os, sys
from demiurge.stores.sqlite.ledger import SqliteEffectLedger
from demiurge.tools.ledger.store import LedgerSlot
ledger = SqliteEffectLedger(sys.argv[1])
ledger.claim(LedgerSlot("", "pay", "one"), params_hash="hash", ttl_ns=None, now_ns=1)
os._exit(0)
"""


@pytest.mark.parametrize("place", ["writable", "unwritable"])
def test_a_ledger_is_read_and_no_file_of_it_changed(place: str, tmp_path: Path) -> None:
    """A call that was cut off is in doubt for those who only read, too."""
    folder = tmp_path / "w"
    folder.mkdir(mode=0o700)
    with SqliteEffectLedger(folder / "ledger.db"):
        pass
    subprocess.run([sys.executable, "-c", LEFT, str(folder / "ledger.db")], check=True)
    before = contents(folder)

    def look() -> tuple[LedgerSlot, ...]:
        with SqliteEffectLedger(folder / "ledger.db", read_only=ReadOnly(WHY, alone=True)) as ledger:
            with pytest.raises(DemiurgeError, match="takes no writes"):
                ledger.clear()
            return ledger.in_doubt()

    if place == "unwritable":
        with unwritable(folder):
            found = look()
    else:
        found = look()
    assert found == (LedgerSlot("", "pay", "one"),)
    assert contents(folder) == before
