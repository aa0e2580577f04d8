"""One owner per world: the second is told who the first is, and a dead owner is none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demiurge.errors import Conflict, Unavailable
from demiurge.stores import OwnerLock, SqliteStore
from demiurge.stores.lock import held_here, world_lock

HOLD = """
import sys, time
from pathlib import Path
from demiurge.stores import OwnerLock
lock = OwnerLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_owner_is_told_the_pid_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with OwnerLock(path) as first:
        assert first.held
        with pytest.raises(Conflict, match=f"in use by process {os.getpid()}") as caught:
            OwnerLock(path).acquire()
        assert caught.value.code == "owned"
    with OwnerLock(path):
        pass


def test_a_killed_owner_is_no_owner(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        with pytest.raises(Conflict, match=f"process {owner.pid}"):
            OwnerLock(path).acquire()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        with OwnerLock(path):
            pass


def test_a_forked_child_does_not_keep_the_lock_nor_take_it_away(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    ready, go = os.pipe(), os.pipe()
    lock = OwnerLock(path).acquire()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    try:
        os.read(ready[0], 1)
        with pytest.raises(Conflict):
            OwnerLock(path).acquire()
        lock.release()
        OwnerLock(path).acquire().release()
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)
        for end in (*ready, *go):
            os.close(end)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        OwnerLock(tmp_path / "nowhere" / "lock").acquire()


def test_a_removed_lock_file_of_a_world_in_use_makes_no_second_owner(tmp_path: Path) -> None:
    folder = tmp_path / "world"
    with SqliteStore.create(folder, "world_1") as owner:
        for change in ((folder / "lock").unlink, (folder / "lock").touch, (tmp_path / "other").touch):
            change()
            with pytest.raises(Conflict, match="in use by") as refused:
                SqliteStore.open(folder)
            assert refused.value.code == "owned"
            assert not world_lock(folder).acquire_shared()
            assert held_here(folder)
            (tmp_path / "other").exists() and (tmp_path / "other").replace(folder / "lock")
        assert owner.world_id == "world_1"
        (folder / "lock").unlink()
        with pytest.raises(Conflict, match="whose file `lock` was removed"):
            SqliteStore.open(folder)
        assert not (folder / "lock").exists()
    with SqliteStore.open(folder):
        assert (folder / "lock").read_text() == f"{os.getpid()}\n"


def test_a_store_owns_its_world_until_it_is_closed(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "world", "world_1"):
        with pytest.raises(Conflict, match="in use by process"):
            SqliteStore.open(tmp_path / "world")
        with pytest.raises(Conflict, match="in use by process"):
            SqliteStore.create(tmp_path / "world", "world_1")
    SqliteStore.open(tmp_path / "world").close()
