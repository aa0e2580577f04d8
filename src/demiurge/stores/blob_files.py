"""Blobs as files: `<folder>/sha256/ab/<64 hex>`, one file for each blob, written once.

Invariant: a file under `sha256/` was complete and on disk before it got its name, and its name is on disk before `put`
returns: temp file, write, fsync, rename, fsync of the folder. A crash leaves at most a temp file in `tmp/`, which the
next start removes. Bytes are checked against the name at every read. No link is followed, and files with other names
are left alone. A fork may share a file with the world it was forked from, by a hard link: neither world writes to the
file, and removing one name leaves the other.

A file's modification time says when its blob was last put.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Final

from demiurge import faults
from demiurge.stores.errors import unavailable
from demiurge.stores.private import open_file, open_folder
from demiurge.stores.protocol import REFRESH_S, BlobInfo

__all__ = ["BlobFiles", "sync_data", "sync_file", "sync_folder"]

_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache
_TEMP_NAME: Final = re.compile(r"[0-9]+-[0-9]+")
_FOLDER_NAME: Final = re.compile(r"[0-9a-f]{2}")
_BLOB_NAME: Final = re.compile(r"[0-9a-f]{64}")


class BlobFiles:
    """Blob files in `folder`, addressed by digest (32 bytes). Any thread may call; one process per folder writes.

    Every method raises Unavailable if the disk fails, is full or read-only, or if a link or a foreign entry stands
    where a file or a folder of the store belongs. Methods that change a file also raise what `check_writable` raises.
    """

    def __init__(self, folder: Path, check_writable: Callable[[], object] = lambda: None) -> None:
        self._check_writable = check_writable
        self._place = folder
        self._root = folder / "sha256"
        self._temp = folder / "tmp"
        self._numbers = count()
        self._durable: set[str] = set()  # folders whose name is on disk

    def open(self) -> None:
        """Makes the folders, and removes temp files that a crash left."""
        with self._failing():
            for folder in (self._place, self._root, self._temp):
                with _opened(folder, make=True) as descriptor:
                    if os.fstat(descriptor).st_mode & 0o077:
                        os.fchmod(descriptor, 0o700)
            sync_folder(self._place)
            sync_folder(self._place.parent)
            with _opened(self._temp) as descriptor:
                for name in os.listdir(descriptor):
                    if _TEMP_NAME.fullmatch(name) and _is_file(name, descriptor):
                        os.unlink(name, dir_fd=descriptor)

    def put(self, blobs: Sequence[bytes], now_s: int) -> None:
        """Writes the blobs; durable on return. An intact file is left alone, a damaged one is replaced. `now_s`:
        seconds since 1970."""
        self._check_writable()
        with self._failing():
            touched = {self._write(data, now_s).parent for data in blobs}
            for folder in touched:
                sync_folder(folder)

    def link(self, other: BlobFiles, digest: bytes) -> None:
        """Hard-links the blob's file from another folder into this one, if the file exists and the file system can. A
        later `put` of the same bytes makes the link durable, or writes the file if there is none."""
        self._check_writable()
        source, target = other._path(digest), self._path(digest)
        with self._failing():
            try:
                there = open_folder(source.parent)
            except FileNotFoundError:
                return
            try:
                self._make_folder(target.parent)
                with _opened(target.parent) as here, contextlib.suppress(OSError, NotImplementedError):
                    os.link(source.name, target.name, src_dir_fd=there, dst_dir_fd=here, follow_symlinks=False)
            finally:
                os.close(there)

    def get(self, digest: bytes) -> bytes | None:
        """Returns the bytes, unchecked; None if there is no such file."""
        with self._failing(), self._reading(digest) as file:
            return _read_all(file) if file is not None else None

    def size(self, digest: bytes) -> int | None:
        with self._failing(), self._reading(digest) as file:
            return os.fstat(file).st_size if file is not None else None

    def list_all(self) -> Iterator[BlobInfo]:
        """Yields all blobs in order of digest, a folder at a time."""
        with self._failing():
            with _opened(self._root) as root:
                folders = sorted(name for name in os.listdir(root) if _FOLDER_NAME.fullmatch(name))
            for folder in folders:
                with _opened(self._root / folder) as descriptor:
                    found = list(_blobs_in(folder, descriptor))
                yield from found

    def remove(self, digests: Iterable[bytes]) -> None:
        """Removes the files of these digests, if they exist; durable on return."""
        self._check_writable()
        folders: defaultdict[Path, list[str]] = defaultdict(list)
        for path in map(self._path, digests):
            folders[path.parent].append(path.name)
        with self._failing():
            for folder, names in folders.items():
                with contextlib.suppress(FileNotFoundError), _opened(folder) as descriptor:
                    for name in names:
                        faults.point("remove.before_unlink")
                        with contextlib.suppress(FileNotFoundError):
                            os.unlink(name, dir_fd=descriptor)
                    sync_file(descriptor)

    def _path(self, digest: bytes) -> Path:
        name = digest.hex()
        return self._root / name[:2] / name

    @contextlib.contextmanager
    def _reading(self, digest: bytes) -> Iterator[int | None]:
        """A descriptor of the blob's file; None if there is none."""
        path = self._path(digest)
        try:
            with _opened(path.parent) as folder:
                file = open_file(path, os.O_RDONLY, dir_fd=folder, shared=True)
        except FileNotFoundError:
            yield None
            return
        try:
            yield file
        finally:
            os.close(file)

    def _has(self, digest: bytes, data: bytes, now_s: int) -> bool:
        with self._reading(digest) as file:
            if file is None or _read_all(file) != data:
                return False
            if os.fstat(file).st_mtime < now_s - REFRESH_S:
                with contextlib.suppress(OSError):
                    os.utime(file, (now_s, now_s))
            return True

    def _write(self, data: bytes, now_s: int) -> Path:
        digest = sha256(data).digest()
        path = self._path(digest)
        if self._has(digest, data, now_s):
            return path
        self._make_folder(path.parent)
        temp = f"{os.getpid()}-{next(self._numbers)}"
        with _opened(self._temp) as source, _opened(path.parent) as target:
            try:
                _write_durably(temp, data, source, now_s)
                faults.point("blob.before_rename")
                os.replace(temp, path.name, src_dir_fd=source, dst_dir_fd=target)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temp, dir_fd=source)
                raise
        faults.point("blob.after_rename")
        return path

    def _make_folder(self, folder: Path) -> None:
        if folder.name not in self._durable:
            with _opened(folder, make=True):
                sync_folder(self._root)
            self._durable.add(folder.name)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unavailable(error, self._place) from error


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _opened(folder: Path, *, make: bool = False) -> Iterator[int]:
    descriptor = open_folder(folder, make=make)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_file(name: str, folder: int) -> bool:
    return stat.S_ISREG(os.lstat(name, dir_fd=folder).st_mode)


def _blobs_in(beginning: str, folder: int) -> Iterator[BlobInfo]:
    for name in os.listdir(folder):
        if name.startswith(beginning) and _BLOB_NAME.fullmatch(name) is not None:
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                found = os.lstat(name, dir_fd=folder)
                if stat.S_ISREG(found.st_mode):
                    yield BlobInfo(bytes.fromhex(name), found.st_size, int(found.st_mtime))


def _read_all(file: int) -> bytes:
    with open(file, "rb", closefd=False) as reader:
        return reader.read()


def _write_durably(name: str, data: bytes, folder: int, now_s: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        faults.point("blob.before_write")
        half = len(data) // 2
        _write_all(descriptor, memoryview(data)[:half])
        faults.point("blob.half_written")
        _write_all(descriptor, memoryview(data)[half:])
        os.utime(descriptor, (now_s, now_s))
        faults.point("blob.before_fsync")
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def sync_file(descriptor: int) -> None:
    """Makes the bytes of an open file durable."""
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    else:
        os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """Makes overwritten bytes of an open file durable; skips the file's times if the system allows it."""
    if _FULL_SYNC is None and hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        sync_file(descriptor)
