"""`InMemoryFilesystem`: a tree that ends with its process. For tests, for drafts, for data that must not reach a
disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from demiurge.filesystems.files import TreeFilesystem
from demiurge.filesystems.limits import Limits
from demiurge.filesystems.paths import joined, parent
from demiurge.filesystems.spool import Spool
from demiurge.filesystems.tree import Blob, FolderEntry, Node
from demiurge.tools.errors import ToolUserError
from demiurge.values.clock import Clock, SystemClock

__all__ = ["InMemoryFilesystem", "MemoryTree"]


class MemoryTree:
    """A Tree of dictionaries: files by path, and the names in each folder."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, int]] = {}  # with the number of its last change
        self._folders: dict[str, set[str]] = {"": set()}
        self._total = 0
        self._changes = 0

    @property
    def entries(self) -> int:
        return len(self._files) + len(self._folders) - 1

    @property
    def total_bytes(self) -> int:
        return self._total

    def node(self, path: str) -> Node | None:
        if (file := self._files.get(path)) is not None:
            return Node("file", len(file[0]), file[1])
        return Node("dir") if path in self._folders else None

    def names(self, path: str) -> Sequence[FolderEntry]:
        names = self._folders.get(path)
        if names is None:
            raise ToolUserError(f"There is no folder {path}.")
        found = ((name, self.node(joined(path, name))) for name in tuple(names))
        return [FolderEntry(name, node) for name, node in found if node is not None]

    def load(self, path: str, at_most: int) -> Blob:
        file = self._files.get(path)
        if file is None:
            raise ToolUserError(f"There is no file {path}.")
        return Blob(file[0])

    def put(self, path: str, blob: Blob) -> None:
        old = self._files.get(path, (b"", 0))
        self._changes += 1
        self._files[path] = (blob.data, self._changes)
        self._folders[parent(path)].add(path.rpartition("/")[2])
        self._total += len(blob.data) - len(old[0])

    def make(self, path: str) -> None:
        self._folders[path] = set()
        self._folders[parent(path)].add(path.rpartition("/")[2])

    def remove(self, path: str) -> None:
        if path in self._folders:
            if self._folders[path]:
                raise ToolUserError(f"The folder {path} is not empty.")
            del self._folders[path]
        else:
            self._total -= len(self._files.pop(path)[0])
        self._folders[parent(path)].discard(path.rpartition("/")[2])


class InMemoryFilesystem(TreeFilesystem):
    """A Filesystem in memory that starts with `files` (path to text). Transactional and Snapshotable.

    Raises ToolUserError for a path or a text that is not allowed.
    """

    def __init__(
        self,
        files: Mapping[str, str] | None = None,
        *,
        read_only: bool = False,
        limits: Limits | None = None,
        clock: Clock | None = None,
    ) -> None:
        spool = Spool(None)  # no limit: the bytes are in memory anyway
        super().__init__(MemoryTree(), spool, limits or Limits(), clock or SystemClock())
        for path, text in (files or {}).items():
            self.write(path, text)
        self._read_only = read_only
