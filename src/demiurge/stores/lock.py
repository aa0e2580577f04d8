"""The lock by which one process owns a world's folder.

Invariant: while an OwnerLock is held, no other can be, in this or any other process of the machine. The operating
system releases the lock when the process dies, however it dies. So nothing needs cleaning up and the file is never
removed: its content (the owner's pid) is only for error messages. The lock follows no link and writes only to a plain
file of this user.

Somebody else may remove the file, and a new file is another lock. So the lock of a world is on the folder of its blobs
as well, without which there is no world.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from pathlib import Path
from typing import Self

from demiurge.errors import Conflict
from demiurge.stores.errors import unavailable
from demiurge.stores.private import open_file, open_folder

__all__ = ["OwnerLock", "held_here", "world_lock"]


class OwnerLock:
    """A lock on the file `path`, which is made if need be; its folder must exist. `guard`: a folder that is locked
    too, and made if need be, so that the lock holds if the file is removed."""

    def __init__(self, path: Path, guard: Path | None = None) -> None:
        self._path, self._guard = path, guard
        self._file: int | None = None
        self._folder: int | None = None

    @property
    def held(self) -> bool:
        return self._file is not None or self._folder is not None

    def acquire(self) -> Self:
        """Takes the lock without waiting. Raises Conflict (`owned`, with the owner's pid), Unavailable."""
        try:
            if self._guard is not None:
                self._folder = _locked(open_folder(self._guard, make=True), fcntl.LOCK_EX)
            self._file = _locked(open_file(self._path, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
            os.ftruncate(self._file, 0)
            with contextlib.suppress(OSError):  # a full disk: the pid is only for the message
                os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            self.release()
            raise self._owned() from None
        except OSError as error:
            self.release()
            raise unavailable(error, self._path.parent) from error
        except BaseException:
            self.release()
            raise
        _held.add(self)
        return self

    def acquire_shared(self) -> bool:
        """Keeps every other process from owning the folder, and writes nothing. Returns False, and holds nothing, if a
        process owns the folder. Raises Unavailable."""
        try:
            with contextlib.suppress(FileNotFoundError):  # no owner yet: every owner makes the folder and the file
                if self._guard is not None:
                    self._folder = _locked(open_folder(self._guard), fcntl.LOCK_SH)
                self._file = _locked(open_file(self._path, os.O_RDONLY), fcntl.LOCK_SH)
        except BlockingIOError:
            self.release()
            return False
        except OSError as error:
            self.release()
            raise unavailable(error, self._path.parent) from error
        except BaseException:
            self.release()
            raise
        _held.add(self)
        return True

    def _owned(self) -> Conflict:
        try:
            pid = self._path.read_bytes()[:20].decode("ascii", "replace").strip()
            owner = f"process {pid}" if pid else "another process"
        except OSError:
            pid = ""
            owner = "another process, whose file `lock` was removed"
        how = "use that one, or stop it"
        if pid == str(os.getpid()):
            how = "that is this process, so use the World that is open here, or close it first"
        return Conflict(f"The world in {self._path.parent} is in use by {owner}: {how}.", code="owned")

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        held = (self._file, self._folder)
        self._file = self._folder = None
        _held.discard(self)
        for descriptor in held:
            if descriptor is not None:
                os.close(descriptor)

    def __enter__(self) -> Self:
        return self if self.held else self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


_held: weakref.WeakSet[OwnerLock] = weakref.WeakSet()


def world_lock(folder: Path) -> OwnerLock:
    """Returns the lock of the world in `folder`."""
    return OwnerLock(folder / "lock", folder / "blobs")


def held_here(folder: Path) -> bool:
    """Returns whether this process holds the lock of the world in `folder`. The pid in its file may be that of an
    earlier owner."""
    try:
        there = (folder / "blobs").stat()
    except OSError:
        return False
    guards = [lock._folder for lock in list(_held) if lock._folder is not None]
    return any(os.path.samestat(os.fstat(guard), there) for guard in guards)


def _locked(descriptor: int, how: int) -> int:
    """Returns the descriptor, locked; closes it if another process has the lock (BlockingIOError)."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _forget_in_child() -> None:
    """Closes the locks' descriptors in a forked child, so that it does not keep its parent's locks alive. The parent
    keeps its locks."""
    for lock in list(_held):
        with contextlib.suppress(OSError):
            lock.release()


os.register_at_fork(after_in_child=_forget_in_child)
