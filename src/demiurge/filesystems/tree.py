"""What a filesystem stands on: bytes at checked paths, changed one at a time.

Everything else (text, limits, searching, undoing) is the same for a tree in memory and for a folder of the disk, and
lives above this protocol. Who calls sees to it that the folder above a path is there, and holds the lock when it
changes something.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from demiurge.tools.filesystem import FileKind

__all__ = ["Blob", "Named", "Node", "Tree"]


@dataclass(frozen=True, slots=True)
class Blob:
    """A file's bytes, and its permission bits where there are any."""

    data: bytes
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """What is at a path. `stamp` of a file is another one after each change, whoever made it."""

    kind: FileKind
    size: int = 0
    stamp: Hashable = None


@dataclass(frozen=True, slots=True)
class Named:
    """An entry of a folder. `name` is empty when the path rules have no word for it."""

    name: str
    node: Node


class Tree(Protocol):
    """Every method raises ToolUserError for what isn't as the caller takes it to be, and Unavailable when the disk
    fails."""

    @property
    def entries(self) -> int:
        """How many there are, or were added since this tree was opened."""

    @property
    def total_bytes(self) -> int:
        """How many bytes of files there are, or were added since this tree was opened."""

    def look(self, path: str) -> Node | None: ...

    def names(self, path: str) -> Sequence[Named]:
        """What is in a folder, in no order."""

    def load(self, path: str, at_most: int) -> Blob:
        """A file's bytes; ToolUserError if there are more than `at_most`."""

    def put(self, path: str, blob: Blob) -> None:
        """Makes a file or replaces one: whoever looks sees the old or the new one, whole. A `mode` of None leaves the
        permission bits."""

    def make(self, path: str) -> None:
        """Makes a folder."""

    def remove(self, path: str) -> None:
        """Removes a file or an empty folder."""
