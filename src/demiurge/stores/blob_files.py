"""Blobs as files: `<folder>/sha256/ab/<64 hex>`, one per blob, written once.

Invariant: a file under `sha256/` was complete and on disk before it got its name, and its name is on disk
before `put` returns: temp file, write, fsync, rename, fsync of the folder. A crash leaves at most a temp
file, in `tmp/`, which the next start removes. Bytes are checked against the name at every read.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Final

from demiurge import faults
from demiurge.stores.errors import unavailable

__all__ = ["BlobFiles", "sync_folder"]

_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache


class BlobFiles:
    """Blob files in `folder`, addressed by digest (32 bytes). Any thread may call; one process per folder
    writes.

    Every method raises Unavailable when the disk fails, is full or read-only.
    """

    def __init__(self, folder: Path) -> None:
        self._place = folder
        self._root = folder / "sha256"
        self._temp = folder / "tmp"
        self._numbers = count()
        self._durable: set[str] = set()  # folders whose own name is known to be on disk

    def open(self) -> None:
        """Make the folders, and remove the temp files that a crash left."""
        with self._failing():
            self._root.mkdir(parents=True, exist_ok=True)
            self._temp.mkdir(exist_ok=True)
            sync_folder(self._place)
            sync_folder(self._place.parent)
            for entry in os.scandir(self._temp):
                os.unlink(entry.path)

    def put(self, blobs: Sequence[bytes]) -> None:
        """Durable on return. A good file is left alone, a damaged one replaced."""
        with self._failing():
            touched = {self._write(data).parent for data in blobs}
            for folder in touched:
                sync_folder(folder)

    def get(self, digest: bytes) -> bytes | None:
        """The bytes as they are, unchecked; None when there is no such file."""
        with self._failing():
            try:
                return self._path(digest).read_bytes()
            except FileNotFoundError:
                return None

    def size(self, digest: bytes) -> int | None:
        with self._failing():
            try:
                return self._path(digest).stat().st_size
            except FileNotFoundError:
                return None

    def digests(self) -> Iterator[bytes]:
        with self._failing():
            for folder in sorted(self._root.iterdir()):
                for name in os.listdir(folder):
                    yield bytes.fromhex(name)

    def _path(self, digest: bytes) -> Path:
        name = digest.hex()
        return self._root / name[:2] / name

    def _write(self, data: bytes) -> Path:
        digest = sha256(data).digest()
        path = self._path(digest)
        if self.get(digest) == data:
            return path
        self._make_folder(path.parent)
        temp = self._temp / f"{os.getpid()}-{next(self._numbers)}"
        try:
            _write_durably(temp, data)
            faults.point("blob.before_rename")
            os.replace(temp, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temp)
            raise
        faults.point("blob.after_rename")
        return path

    def _make_folder(self, folder: Path) -> None:
        if folder.name not in self._durable:
            folder.mkdir(exist_ok=True)
            sync_folder(self._root)
            self._durable.add(folder.name)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unavailable(error, self._place) from error


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _write_durably(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        faults.point("blob.before_write")
        half = len(data) // 2
        _write_all(descriptor, memoryview(data)[:half])
        faults.point("blob.half_written")
        _write_all(descriptor, memoryview(data)[half:])
        faults.point("blob.before_fsync")
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _sync(descriptor: int) -> None:
    if _FULL_SYNC is not None:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    else:
        os.fsync(descriptor)
