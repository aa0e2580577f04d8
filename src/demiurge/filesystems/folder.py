"""`FolderFilesystem`: a folder on disk, from which no path leads out.

Every name is opened from the descriptor of its folder, and no link is followed, so entries that others put in the way
meanwhile do no harm. A file is written beside its place, synced and renamed: a reader, even after a crash, finds the
whole old or the whole new file. A crash can leave a half-written file beside it, under a name that is never shown here
and is removed with its folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from demiurge import faults
from demiurge.errors import Unavailable
from demiurge.filesystems.files import TreeFilesystem
from demiurge.filesystems.limits import Limits
from demiurge.filesystems.paths import TEMP_PREFIX, is_name, parent
from demiurge.filesystems.spool import Spool
from demiurge.filesystems.tree import Blob, FolderEntry, Node
from demiurge.tools.errors import ToolUserError
from demiurge.values.clock import Clock, SystemClock, SystemEntropy

__all__ = ["FolderFilesystem", "FolderTree"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS: Final = 0o777
_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache
_TREE_SAYS: Final = {
    errno.ENOENT: "There is no {}.",
    errno.ENOTDIR: "{} is no folder, or a part of it is none.",
    errno.ELOOP: "{} is a link or leads through one: it is left alone.",
    errno.EISDIR: "{} is a folder.",
    errno.ENXIO: "{} is no plain file: it is left alone.",
    errno.EEXIST: "{} exists already.",
    errno.ENOTEMPTY: "The folder {} is not empty.",
    errno.EACCES: "{} may not be used so: permission denied.",
    errno.EPERM: "{} may not be used so: permission denied.",
    errno.ENAMETOOLONG: "The path {} is too long for this disk.",
    errno.EILSEQ: "The path {} can't be a name on this disk.",
    errno.EINVAL: "The path {} can't be a name on this disk.",
}
"""Errors that a model can correct; all others are the disk's."""


class FolderTree:
    """A Tree in the folder `root`; it counts entries and bytes that were added since it was opened."""

    def __init__(self, root: Path) -> None:
        try:
            self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise Unavailable(f"The folder {root} can't be opened: {_reason(error)}.", code="no_folder") from error
        self.close = weakref.finalize(self, os.close, self._root)
        self._entropy = SystemEntropy()
        self._entries = 0
        self._bytes = 0

    @property
    def entries(self) -> int:
        return self._entries

    @property
    def total_bytes(self) -> int:
        return self._bytes

    def node(self, path: str) -> Node | None:
        if not path:
            return Node("dir")
        with self._failing(path), suppress(FileNotFoundError, NotADirectoryError), self._above(path) as (folder, name):
            return _node(os.lstat(name, dir_fd=folder))
        return None

    def names(self, path: str) -> Sequence[FolderEntry]:
        with self._failing(path), self._opened(path) as folder, os.scandir(folder) as found:
            entries = []
            for entry in found:
                if entry.name.startswith(TEMP_PREFIX):
                    continue
                with suppress(FileNotFoundError):
                    node = _node(entry.stat(follow_symlinks=False))
                    entries.append(
                        FolderEntry(entry.name, node) if is_name(entry.name) else FolderEntry("", Node("other"))
                    )
            return entries

    def load(self, path: str, at_most: int) -> Blob:
        with self._failing(path), self._above(path) as (folder, name):
            _check_plain(os.lstat(name, dir_fd=folder), path)  # opening a device may have side effects
            with _open(name, _FILE, folder) as file:
                found = os.fstat(file)
                _check_plain(found, path)
                data = _read(file, min(found.st_size, at_most) + 1, at_most + 1)
        if len(data) > at_most:
            raise ToolUserError(f"{path}: a file has at most {at_most} bytes.")
        return Blob(data, stat.S_IMODE(found.st_mode) & _PERMISSIONS)

    def put(self, path: str, blob: Blob) -> None:
        with self._failing(path), self._above(path) as (folder, name):
            old = _lstat(name, folder)
            if old is not None:
                _check_plain(old, path)
            mode = blob.mode if blob.mode is not None or old is None else old.st_mode & _PERMISSIONS
            self._write(folder, name, blob.data, mode)
            self._entries += old is None
            self._bytes += len(blob.data) - (old.st_size if old is not None else 0)
            faults.point("file.after_rename")
            _sync(folder)

    def make(self, path: str) -> None:
        with self._failing(path), self._above(path) as (folder, name):
            os.mkdir(name, dir_fd=folder)
            self._entries += 1
            _sync(folder)

    def remove(self, path: str) -> None:
        with self._failing(path), self._above(path) as (folder, name):
            old = os.lstat(name, dir_fd=folder)
            if stat.S_ISDIR(old.st_mode):
                self._remove_folder(folder, name)
            else:
                _check_plain(old, path)
                os.unlink(name, dir_fd=folder)
                self._bytes -= old.st_size
            self._entries -= 1
            _sync(folder)

    def _remove_folder(self, folder: int, name: str) -> None:
        with _open(name, _FOLDER, folder) as doomed:
            left = os.listdir(doomed)
            if all(each.startswith(TEMP_PREFIX) for each in left):
                for each in left:
                    os.unlink(each, dir_fd=doomed)
        os.rmdir(name, dir_fd=folder)

    def _write(self, folder: int, name: str, data: bytes, mode: int | None) -> None:
        """Makes or replaces the file `name`, its bytes durable. `mode` None: the process's default mode."""
        temp = f"{TEMP_PREFIX}{self._entropy.token(12).hex()}"
        try:
            with _open(temp, _NEW, folder) as file:
                if mode is not None:
                    os.fchmod(file, mode)
                half = len(data) // 2
                _write_all(file, memoryview(data)[:half])
                faults.point("file.half_written")
                _write_all(file, memoryview(data)[half:])
                _sync(file)
            faults.point("file.before_rename")
            os.replace(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temp, dir_fd=folder)
            raise

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        """Returns a descriptor of the folder `path`, reached through no link. Raises OSError."""
        if not self.close.alive:
            raise Unavailable("These files were closed.", code="closed")
        folder = os.dup(self._root)
        try:
            for name in path.split("/") if path else ():
                below = os.open(name, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = below
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def _above(self, path: str) -> Iterator[tuple[int, str]]:
        """Returns a descriptor of the parent folder of `path`, and the entry's name."""
        with self._opened(parent(path)) as folder:
            yield folder, path.rpartition("/")[2]

    @contextmanager
    def _failing(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = _TREE_SAYS.get(error.errno or 0)
            if reason is not None:
                raise ToolUserError(reason.format(path or "folder")) from error
            raise Unavailable(f"{path or 'The folder'}: {_reason(error)}.", code="disk") from error


class FolderFilesystem(TreeFilesystem):
    """The files in the folder `root`, which must exist. Transactional and Snapshotable.

    `root` itself may be reached through links; below it no link is followed or made. Everything in it can be read, and
    changed unless `read_only`: give it a folder of its own. A file with a second hard link is read like any other, and
    a change leaves the other name as it was. Permission bits are kept; other attributes of a changed file are not.
    Changes by other processes are noticed on access, and no roll-back overwrites them. Raises Unavailable if there is
    no such folder.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        read_only: bool = False,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
    ) -> None:
        limits = limits or Limits()
        self._root = Path(root).absolute()
        self._folder = FolderTree(self._root)
        super().__init__(self._folder, Spool(limits.undo_bytes), limits, clock or SystemClock(), read_only=read_only)

    @property
    def root(self) -> Path:
        """The folder as it was given."""
        return self._root

    def close(self) -> None:
        """Closes the folder; nothing works after that. Optional: it is closed with the object."""
        self._folder.close()


@contextmanager
def _open(name: str, flags: int, folder: int) -> Iterator[int]:
    descriptor = os.open(name, flags, 0o666, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lstat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return None


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else "the disk failed"


def _node(found: os.stat_result) -> Node:
    if stat.S_ISREG(found.st_mode):
        return Node("file", found.st_size, (found.st_ino, found.st_mtime_ns, found.st_size))
    return Node("dir") if stat.S_ISDIR(found.st_mode) else Node("other")


def _check_plain(found: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ToolUserError(f"{path} is a folder.")
    if not stat.S_ISREG(found.st_mode):
        raise ToolUserError(f"{path} is a link or no plain file: it is left alone.")


def _read(file: int, expected: int, at_most: int) -> bytes:
    """Returns up to `at_most` bytes."""
    data = b""
    while len(data) < at_most and (more := os.read(file, max(expected - len(data), 1))):
        data += more
    return data


def _write_all(file: int, data: memoryview) -> None:
    while data:
        data = data[os.write(file, data) :]


def _sync(descriptor: int) -> None:
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    else:
        os.fsync(descriptor)
