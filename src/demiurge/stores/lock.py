"""The lock by which one process owns a world's folder.

Invariant: while an OwnerLock is held, no other can be, in this or any other process of the machine. The operating
system releases the lock when the process dies, however it dies. So nothing needs cleaning up and the file is never
removed: its content (the owner's pid) is only for error messages. The lock follows no link and writes only to a plain
file of this user.
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
from demiurge.stores.private import open_file

__all__ = ["OwnerLock", "held_here"]


class OwnerLock:
    """A lock on the file `path`, which is made if need be; its folder must exist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def held(self) -> bool:
        return self._file is not None

    def acquire(self) -> Self:
        """Takes the lock without waiting. Raises Conflict (`owned`, with the owner's pid), Unavailable."""
        try:
            file = open_file(self._path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise unavailable(error, self._path.parent) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(file, 0)
            with contextlib.suppress(OSError):  # a full disk: the pid is only for the message
                os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            owner = os.pread(file, 20, 0).decode("ascii", "replace").strip() or "another process"
            os.close(file)
            how = "use that one, or stop it"
            if owner == str(os.getpid()):
                how = "that is this process, so use the World that is open here, or close it first"
            where = f"The world in {self._path.parent} is in use by process {owner}"
            raise Conflict(f"{where}: {how}.", code="owned") from None
        except OSError as error:
            os.close(file)
            raise unavailable(error, self._path.parent) from error
        self._file = file
        _held.add(self)
        return self

    def acquire_shared(self) -> bool:
        """Keeps every other process from owning the folder, and writes nothing. Returns False, and holds nothing, if a
        process owns the folder. Raises Unavailable."""
        try:
            file = open_file(self._path, os.O_RDONLY)
        except FileNotFoundError:  # no owner yet: every owner makes the file
            return True
        except OSError as error:
            raise unavailable(error, self._path.parent) from error
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except OSError as error:
            os.close(file)
            raise unavailable(error, self._path.parent) from error
        self._file = file
        _held.add(self)
        return True

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        file, self._file = self._file, None
        _held.discard(self)
        if file is not None:
            os.close(file)

    def __enter__(self) -> Self:
        return self if self.held else self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


_held: weakref.WeakSet[OwnerLock] = weakref.WeakSet()


def held_here(path: Path) -> bool:
    """Returns whether this process holds a lock on the file `path`. The pid in the file may be that of an earlier
    owner."""
    try:
        there = path.stat()
    except OSError:
        return False
    files = [lock._file for lock in list(_held) if lock._file is not None]
    return any(os.path.samestat(os.fstat(file), there) for file in files)


def _forget_in_child() -> None:
    """Closes the locks' descriptors in a forked child, so that it does not keep its parent's locks alive. The parent
    keeps its locks."""
    for lock in list(_held):
        with contextlib.suppress(OSError):
            lock.release()


os.register_at_fork(after_in_child=_forget_in_child)
