"""Taking a world's folder: one process owns its store, and a process that comes later joins it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from demiurge.bootstrap.backend.owner_process import READERS, OwnerProcess
from demiurge.bootstrap.backend.silence import WAITS
from demiurge.bootstrap.backend.socket import answers, socket_path
from demiurge.errors import Conflict, DemiurgeError, NotFound, Unavailable
from demiurge.stores import SqliteStore
from demiurge.stores.lock import held_here, world_lock
from demiurge.stores.read_only import NO_WRITES
from demiurge.stores.sqlite.world_folder import DATABASE, remains
from demiurge.values.clock import SystemClock, SystemEntropy, new_id

__all__ = ["give_way", "is_open", "last_change", "take_ownership"]

OWNER_WAIT_NS = 10 * 10**9
"""The shortest wait for a process that is about to own the world, or to leave it; one that is at work gets longer."""
TELL_NS = 3 * 10**9
"""The delay after which the user is told about the wait."""
GIVE_WAY_NS = 3 * 10**9
"""How long a process that handed a world over leaves the lock to its successor, before it takes the world back."""


def take_ownership(
    folder: Path, *, create: bool, accepts_losses: bool = False, tell: Callable[[str], None] = lambda _: None
) -> SqliteStore | None:
    """Returns the store, owned by this process; None if another process owns it and listens. `accepts_losses`: see
    `SqliteStore.open`; a new world is made if the journal is gone.

    The store is read-only if the disk takes no writes, or if the owner does not listen for long. `tell` is called with
    a sentence about such an owner."""
    clock = SystemClock()
    begun, is_told, is_last = clock.monotonic_ns(), False, False
    owner = OwnerProcess(folder, clock)
    while True:
        try:
            if (store := _opened(folder, create=create, accepts_losses=accepts_losses)) is not None:
                return store
        except Conflict as conflict:
            if conflict.code != "owned" or held_here(folder):
                raise
            if answers(socket_path(folder)):
                return None
            waited_ns, is_silent = clock.monotonic_ns() - begun, owner.is_silent()
            if waited_ns > TELL_NS and is_silent and not is_told:
                is_told = True
                tell(f"{owner.sentence()} {WAITS}")
            if waited_ns > OWNER_WAIT_NS and is_silent:
                if (store := _read_silent_owner(folder, owner, is_last=is_last)) is not None:
                    return store
                is_last = True
        time.sleep(0.05)


def _opened(folder: Path, *, create: bool, accepts_losses: bool) -> SqliteStore | None:
    """Returns the store, which this process owns, or which is read-only if the disk takes no writes. Returns None if
    another process is making a world there."""
    try:
        return SqliteStore.open(folder, accepts_losses=accepts_losses)
    except NotFound:
        if not (create or (accepts_losses and remains(folder))):
            raise NotFound(
                f"There is no world in {folder}: go to the folder of your world, or name it with -w, or make a new one "
                f"with `demiurge init -w {folder}`.",
                code="no_world",
            ) from None
    except Unavailable as error:
        if accepts_losses or error.code not in NO_WRITES or not os.path.exists(folder / DATABASE):
            raise
        return SqliteStore.open_read_only(folder, error)
    try:
        return SqliteStore.create(folder, new_id("world", SystemEntropy()), accepts_losses=accepts_losses)
    except Conflict:
        return None


def _read_silent_owner(folder: Path, owner: OwnerProcess, *, is_last: bool) -> SqliteStore | None:
    """Returns a read-only store while its owner does not listen; None if the owner has exited. With `is_last` the store
    is returned in that case too, since other readers keep every process from owning it."""
    why = Conflict(owner.sentence(), code="owned")
    try:
        store = SqliteStore.open_read_only(folder, why)
    except DemiurgeError:
        raise why from None
    if store.read_only is None or not store.read_only.alone:
        return store
    store.close()
    if not is_last:
        return None
    return SqliteStore.open_read_only(folder, Unavailable(READERS.format(folder=folder), code="read_only"))


def is_open(folder: Path) -> bool:
    """Returns whether a process has the world open and listens at its socket."""
    return answers(socket_path(folder))


def give_way(folder: Path, is_over: Callable[[], bool]) -> None:
    """Waits until another process owns the world, which may not listen yet; for `GIVE_WAY_NS` at most, and until
    `is_over` returns true."""
    clock = SystemClock()
    ends = clock.monotonic_ns() + GIVE_WAY_NS
    while not _is_taken(folder) and not is_over() and clock.monotonic_ns() < ends:
        time.sleep(0.05)


def _is_taken(folder: Path) -> bool:
    lock = world_lock(folder)
    try:
        return not lock.acquire_shared()
    finally:
        lock.release()


def last_change(folder: Path) -> tuple[int, ...]:
    """Returns a value that differs once any process has written to the journal."""
    files = (folder / name for name in ("journal.db", "journal.db-wal"))
    return tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)
