"""Storage for undo data: in memory up to a limit, beyond it in a file that no other process can open.

The file has no name, so it ends with its process, however that ends. It only grows, and is emptied when no data in it
is needed.
"""

from __future__ import annotations

import tempfile
import threading
import weakref
from io import FileIO

from demiurge.filesystems.tree import Blob

__all__ = ["Spool", "SpooledFile"]


class SpooledFile:
    """An earlier state of a file. Its space is freed when nothing refers to it."""

    __slots__ = ("__weakref__", "_data", "_place", "_spool", "mode", "size")

    def __init__(self, spool: Spool, mode: int | None, size: int, data: bytes | None, place: int) -> None:
        self._spool = spool
        self.mode = mode
        self.size = size
        self._data = data
        self._place = place

    def load(self) -> Blob:
        """Returns the contents. Raises OSError."""
        data = self._data if self._data is not None else self._spool.read(self._place, self.size)
        return Blob(data, self.mode)


class Spool:
    """`limit`: bytes in memory, None for no limit. Any thread may call."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._lock = threading.RLock()  # reentrant: a SpooledFile can be freed at any moment, also in here
        self._in_memory = 0
        self._in_file = 0
        self._end = 0
        self._file: FileIO | None = None

    def keep(self, blob: Blob) -> SpooledFile:
        """Stores a blob. Raises OSError if the file cannot be written."""
        size = len(blob.data)
        with self._lock:
            if self._limit is None or self._in_memory + size <= self._limit:
                self._in_memory += size
                saved_file = SpooledFile(self, blob.mode, size, blob.data, 0)
                self._watch(saved_file, size, 0)
                return saved_file
            self._in_file += 1  # counted before it is written, so that a release meanwhile does not empty the file
            try:
                saved_file = SpooledFile(self, blob.mode, size, None, self._write(blob.data))
            except BaseException:
                self._in_file -= 1
                raise
            self._watch(saved_file, 0, 1)
            return saved_file

    def read(self, place: int, size: int) -> bytes:
        """Returns bytes of the file. Raises OSError."""
        with self._lock:
            if self._file is None:
                raise OSError("nothing was kept")
            self._file.seek(place)
            return self._file.read(size)

    def _write(self, data: bytes) -> int:
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  (closed when it is emptied)
            self._close = weakref.finalize(self, self._file.close)
        place = self._end
        self._file.seek(place)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        self._end += len(data)
        return place

    def _watch(self, saved_file: SpooledFile, in_memory: int, in_file: int) -> None:
        weakref.finalize(saved_file, self._release, in_memory, in_file).atexit = False

    def _release(self, in_memory: int, in_file: int) -> None:
        with self._lock:
            self._in_memory -= in_memory
            self._in_file -= in_file
            if in_file and not self._in_file and self._file is not None:
                self._close()
                self._file, self._end = None, 0
