"""Taking a world's folder: one process owns its store, and whoever comes while it does is told to join it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from demiurge.bootstrap.backend.socket import answers, socket_path
from demiurge.errors import Conflict, NotFound
from demiurge.stores import SqliteStore
from demiurge.stores.sqlite.world_folder import remains
from demiurge.values.clock import SystemClock, SystemEntropy, new_id

__all__ = ["is_open", "last_change", "own"]

OWNER_WAIT_NS = 10 * 10**9
"""How long to wait for a process that is just starting or stopping to own the world."""


def own(folder: Path, *, create: bool, accepts_losses: bool = False) -> SqliteStore | None:
    """The store, owned by this process; None when another process owns it and listens. `accepts_losses`: see
    `SqliteStore.open`; where the journal is gone a new world is made."""
    clock = SystemClock()
    deadline = clock.monotonic_ns() + OWNER_WAIT_NS
    while True:
        try:
            return SqliteStore.open(folder, accepts_losses=accepts_losses)
        except NotFound:
            if not (create or (accepts_losses and remains(folder))):
                raise NotFound(
                    f"There is no world in {folder}; make one with `demiurge init -w {folder}`.",
                    code="no_world",
                ) from None
            try:
                world_id = new_id("world", SystemEntropy())
                return SqliteStore.create(folder, world_id, accepts_losses=accepts_losses)
            except Conflict:
                pass
        except Conflict as conflict:
            if conflict.code != "owned" or f"process {os.getpid()}:" in conflict.message:
                raise
            if answers(socket_path(folder)):
                return None
            if clock.monotonic_ns() > deadline:
                raise
        time.sleep(0.05)


def is_open(folder: Path) -> bool:
    """Whether a process has the world open and listens."""
    return answers(socket_path(folder))


def last_change(folder: Path) -> tuple[int, ...]:
    """Another one when the journal was written to, by whomever."""
    files = (folder / name for name in ("journal.db", "journal.db-wal"))
    return tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in files)
