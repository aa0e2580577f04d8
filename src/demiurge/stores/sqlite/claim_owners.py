"""Claim owners: names under which this process works on claims of a ledger, each backed by a locked file.

Invariant: if a claim owner's file is not locked, nobody works on its claims. The operating system unlocks the file when
the process dies, however it dies, and every other process can see that at once. If the last write about a claim failed,
its owner retires: it takes no new claims, and when its other claims have ended its file is released, so that the failed
one shows as abandoned.

Files are made and removed only under a lock on their folder, so none is removed between its creation and its locking.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from demiurge.stores.errors import unavailable
from demiurge.stores.lock import OwnerLock
from demiurge.stores.private import open_file, open_folder
from demiurge.values.clock import Entropy, new_id

__all__ = ["ClaimOwners"]


class _Owner:
    """One claim owner. `works_on`: the claims that it holds."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.path = path
        self.lock = OwnerLock(path)
        self.works_on: set[bytes] = set()
        self.retired = False


class ClaimOwners:
    """The claim owners of this process in `folder`. The folder is made if need be, unless the ledger is `read_only`.
    Safe to use from several threads and after a fork."""

    def __init__(self, folder: Path, entropy: Entropy, *, read_only: bool = False) -> None:
        self._folder = folder
        self._entropy = entropy
        self._lock = threading.Lock()
        self._mine: dict[str, _Owner] = {}
        if not read_only:
            with self.alone():
                self._sweep()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other processes from opening, making or removing files in the folder until the block ends. Raises
        Unavailable."""
        try:
            descriptor = open_folder(self._folder, make=True)
        except OSError as error:
            raise unavailable(error, self._folder.parent) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def hold(self, claim: bytes) -> str:
        """Registers the claim as worked on, and returns the owner's name. Raises Unavailable."""
        with self._lock:
            owner = next((owner for owner in self._mine.values() if owner.lock.held and not owner.retired), None)
            if owner is None:
                owner = self._make()
            owner.works_on.add(claim)
            return owner.name

    def drop(self, name: str, claim: bytes, *, lost: bool) -> None:
        """Ends work on the claim. `lost`: its outcome may not have been written."""
        with self._lock:
            owner = self._mine.get(name)
            if owner is None:
                return
            owner.works_on.discard(claim)
            owner.retired = owner.retired or lost
            if owner.retired and not owner.works_on:
                self._leave(owner)

    def works_on(self, name: str, claim: bytes) -> bool:
        """Returns whether a process, this or another, works on the claim."""
        with self._lock:
            owner = self._mine.get(name)
            if owner is not None and owner.lock.held:
                return claim in owner.works_on
        return _is_locked(self._folder / name)

    def close(self) -> None:
        """Ends work on all claims of this process."""
        with self._lock:
            for owner in list(self._mine.values()):
                self._leave(owner)

    def _make(self) -> _Owner:
        with self.alone():
            owner = _Owner(self._folder / new_id("owner", self._entropy))
            owner.lock.acquire()
        self._mine[owner.name] = owner
        return owner

    def _leave(self, owner: _Owner) -> None:
        """Forgets the owner and removes its file. A forked child does not hold its parent's file and leaves it
        alone."""
        del self._mine[owner.name]
        if owner.lock.held:
            with suppress(OSError):
                owner.path.unlink(missing_ok=True)
            owner.lock.release()

    def _sweep(self) -> None:
        for path in self._folder.iterdir():
            if not _is_locked(path):
                with suppress(OSError):
                    path.unlink(missing_ok=True)


def _is_locked(path: Path) -> bool:
    try:
        descriptor = open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unavailable(error, path.parent) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
