"""Files as tools see them (seed 004, ToolContext): a tree below one root, and nothing outside of it.

Paths are relative, with `/` between names; "" and "." are the root. Everything here is text in UTF-8. What a model can
mend (a file that is not there, a path that leads out) raises ToolUserError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

__all__ = ["FileEntry", "FileKind", "FileText", "Filesystem", "GrepMatch", "WriteMode"]

FileKind: TypeAlias = Literal["file", "dir"]
WriteMode: TypeAlias = Literal["create", "overwrite", "append"]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """`path` from the root; `size` in bytes, 0 for a folder."""

    path: str
    kind: FileKind
    size: int


@dataclass(frozen=True, slots=True)
class FileText:
    """Lines `first_line` (from 1) and following of a file; `total_lines` in all, `size` in bytes of the whole."""

    path: str
    text: str
    first_line: int
    lines: int
    total_lines: int
    size: int


@dataclass(frozen=True, slots=True)
class GrepMatch:
    """One line that matches; `line` from 1, `text` without its end."""

    path: str
    line: int
    text: str


class Filesystem(Protocol):
    """A tree of text files. `read_only`: nothing in it can be changed."""

    @property
    def read_only(self) -> bool: ...

    def exists(self, path: str) -> bool: ...

    def stat(self, path: str) -> FileEntry: ...

    def list(self, path: str = "") -> Sequence[FileEntry]:
        """What is in a folder, sorted by path."""

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> FileText:
        """The file's text; `offset` lines are passed over, at most `limit` given."""

    def write(self, path: str, text: str, *, mode: WriteMode = "overwrite") -> FileEntry:
        """Writes a file and makes the folders above it; `create` refuses one that is there."""

    def delete(self, path: str, *, recursive: bool = False) -> None: ...

    def mkdir(self, path: str) -> None:
        """Makes a folder, and those above it; one that is there stays."""

    def glob(self, pattern: str, *, path: str = "") -> Sequence[FileEntry]:
        """Files below `path` whose path from there matches; `*` stays within a name, `**` crosses folders."""

    def grep(
        self, pattern: str, *, path: str = "", glob: str | None = None, limit: int | None = None
    ) -> Sequence[GrepMatch]:
        """Lines that a regular expression matches, by path and line."""
