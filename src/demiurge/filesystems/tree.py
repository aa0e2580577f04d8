"""The storage protocol of a filesystem: bytes at checked paths, changed one at a time.

All other features (text, limits, searches, undo) are the same for a tree in memory and for a folder on disk, and are
built on this protocol. The caller makes sure that the parent folder exists, and holds the lock during a change.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from demiurge.tools.filesystem import FileKind

__all__ = ["Blob", "FolderEntry", "Node", "Tree"]


@dataclass(frozen=True, slots=True)
class Blob:
    """A file's bytes, and its permission bits where there are any."""

    data: bytes
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """The entry at a path. The `stamp` of a file differs after each change, by whatever process."""

    kind: FileKind
    size: int = 0
    stamp: Hashable = None


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """An entry of a folder. `name` is empty if the path rules do not allow the name."""

    name: str
    node: Node


class Tree(Protocol):
    """A tree of files. Every method raises ToolUserError if an entry is missing or of another kind than expected, and
    Unavailable if the disk fails."""

    @property
    def entries(self) -> int:
        """Returns the number of entries, or of those added since this tree was opened."""

    @property
    def total_bytes(self) -> int:
        """Returns the bytes of all files, or those added since this tree was opened."""

    def node(self, path: str) -> Node | None: ...

    def names(self, path: str) -> Sequence[FolderEntry]:
        """Yields the entries of a folder, in no order."""

    def load(self, path: str, at_most: int) -> Blob:
        """Returns a file's bytes. Raises ToolUserError if there are more than `at_most`."""

    def put(self, path: str, blob: Blob) -> None:
        """Makes or replaces a file: a reader sees the whole old or the whole new one. A `mode` of None keeps the
        permission bits."""

    def make(self, path: str) -> None:
        """Makes a folder."""

    def remove(self, path: str) -> None:
        """Removes a file or an empty folder."""
