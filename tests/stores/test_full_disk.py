"""A disk that is full, read-only or broken: one sentence, nothing lost, and all works when it does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from demiurge import faults
from demiurge.errors import Unavailable
from demiurge.stores import Attempt, Batch, Row, Snapshot, SqliteStore
from demiurge.values.refs import ref_of

CHILD = Path(__file__).with_name("full_disk_child.py")
MOUNT = 'mount -t tmpfs -o size=2m tmpfs "$0" && exec "$@"'


def in_own_tmpfs(folder: Path, command: list[str]) -> list[str]:
    return ["unshare", "--mount", "--map-root-user", "sh", "-c", MOUNT, str(folder), *command]


def disks() -> list[str]:
    """The kinds of full disk that this machine lets us make: a real small one needs a mount of our own."""
    if shutil.which("unshare") is None:
        return ["limit"]
    probe = subprocess.run(in_own_tmpfs(Path("/tmp"), ["true"]), capture_output=True, check=False)
    return ["limit", "tmpfs"] if probe.returncode == 0 else ["limit"]


@pytest.mark.parametrize("how", disks())
def test_a_full_disk_refuses_cleanly_and_works_again_with_room(how: str, tmp_path: Path) -> None:
    command = [sys.executable, str(CHILD), str(tmp_path), how]
    if how == "tmpfs":
        command = in_own_tmpfs(tmp_path, command)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    code, last = done.stdout.split()
    assert code in {"tmpfs": {"disk_full"}, "limit": {"disk_full", "disk_error"}}[how]
    assert last == "done"


def row(unit: str, seq: int) -> Row:
    data = f"{unit} {seq}".encode()
    return Row(unit, seq, "event", sha256(data).digest(), data)


def append(store: SqliteStore) -> None:
    head = store.head("a")
    seq = head.next_seq if head else 0
    store.append([Batch("a", seq, (row("a", seq), row("a", seq + 1)), True)], blobs=[b"blob %d" % seq])


CALLS: dict[str, Callable[[SqliteStore], object]] = {
    "journal": append,
    "blob": lambda store: store.put_blobs([b"short", b"long" * 5_000]),
    "attempts": lambda store: store.append([], attempts=[Attempt(b"i", "a", "t", 1)]),
    "snapshot": lambda store: store.put_snapshot(Snapshot("a", 1, row("a", 1).hash, ref_of(b"short"))),
    "meta": lambda store: store.set_meta("key", "value"),
}
BEFORE = [name for name in faults.POINTS if name.split(".")[0] in CALLS and not name.endswith("after_commit")]


def contents(store: SqliteStore) -> object:
    values = (store.attempts([b"i"]), store.latest_snapshot("a"), store.get_meta("key"))
    return (list(store.read_all()), store.head("a"), *values)


@pytest.mark.parametrize(
    ("action", "code", "words"),
    [
        ("enospc", "disk_full", "is full: make room and try again"),
        ("eio", "disk_error", "failed"),
        ("erofs", "read_only", "can't be written to"),
    ],
)
@pytest.mark.parametrize("point", BEFORE)
def test_a_failure_at_any_point_leaves_the_world_as_it_was(
    point: str, action: str, code: str, words: str, tmp_path: Path
) -> None:
    call = CALLS[point.split(".", maxsplit=1)[0]]
    with SqliteStore.create(tmp_path / "world", "world_1") as store:
        append(store)
        before = contents(store)
        with faults.armed({point: action}), pytest.raises(Unavailable, match=words) as caught:
            call(store)
        assert caught.value.code == code
        assert isinstance(caught.value.__cause__, OSError)
        assert contents(store) == before
        assert list((tmp_path / "world" / "blobs" / "tmp").iterdir()) == []
        call(store)
        append(store)
        after = contents(store)
    with SqliteStore.open(tmp_path / "world") as store:
        assert contents(store) == after


def test_any_exception_in_between_undoes_the_transaction(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "world", "world_1") as store:
        append(store)
        before = contents(store)
        for point in ("journal.before_rows", "journal.before_commit"):
            with faults.armed({point: KeyboardInterrupt}), pytest.raises(KeyboardInterrupt):
                append(store)
            assert contents(store) == before
        append(store)


def test_a_disk_that_fails_to_sync_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blob whose bytes or whose name may not be on disk is not acknowledged, also not when it is put again."""
    data = b"long" * 5_000

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with SqliteStore.create(tmp_path / "world", "world_1") as store:
        with faults.armed({"blob.after_rename": "eio"}), pytest.raises(Unavailable):
            store.put_blob(data)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(Unavailable, match="failed"):
                store.put_blob(data)
            with pytest.raises(Unavailable, match="failed"):
                store.put_blob(data + b"other")
        assert not store.has_blob(ref_of(data + b"other"))
        assert store.get_blob(store.put_blob(data)) == data


def test_a_world_that_could_not_be_made_can_be_made_later(tmp_path: Path) -> None:
    folder = tmp_path / "world"
    with faults.armed({"create.before_commit": "enospc"}), pytest.raises(Unavailable):
        SqliteStore.create(folder, "world_1")
    SqliteStore.create(folder, "world_1").close()


def test_a_world_that_could_not_be_tidied_at_close_is_whole_when_opened(tmp_path: Path) -> None:
    store = SqliteStore.create(tmp_path / "world", "world_1")
    append(store)
    with faults.armed({"store.before_checkpoint": "enospc"}), pytest.raises(Unavailable):
        store.close()
    store.close()
    with SqliteStore.open(tmp_path / "world") as again:
        assert len(list(again.read("a"))) == 2
