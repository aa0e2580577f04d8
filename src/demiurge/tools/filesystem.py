"""Files as tools see them: a tree below one root, and nothing outside of it.

Paths are relative, with `/` between names; "" and "." are the root. Everything here is text in UTF-8, and a line ends
with "\\n" and with nothing else. What a model can mend (a file that is not there, a path that leads out, too many
results) raises ToolUserError; a disk that fails raises Unavailable, and nothing was lost. No result is ever cut without
the caller having said where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

__all__ = ["FileEdit", "FileEntry", "FileKind", "FileText", "Filesystem", "GrepMatch", "WriteMode"]

FileKind: TypeAlias = Literal["file", "dir", "other"]
WriteMode: TypeAlias = Literal["create", "overwrite", "append"]


@dataclass(frozen=True, slots=True)
class FileEntry:
    """`path` from the root; `size` in bytes, 0 for a folder. `other`: a link, a device and the like, which can be seen
    and neither read nor changed."""

    path: str
    kind: FileKind
    size: int


@dataclass(frozen=True, slots=True)
class FileText:
    """Lines `first_line` (from 1) and following of a file; `total_lines` in all, `size` in bytes of the whole. A last
    line without "\\n" counts."""

    path: str
    text: str
    first_line: int
    lines: int
    total_lines: int
    size: int


@dataclass(frozen=True, slots=True)
class FileEdit:
    """What an exact replacement did: `replaced` places; `first_line` (from 1) is where the first one begins."""

    path: str
    replaced: int
    first_line: int
    size: int


@dataclass(frozen=True, slots=True)
class GrepMatch:
    """One line that matches; `line` from 1, `text` without its end. A very long line is cut and ends with `…`."""

    path: str
    line: int
    text: str


class Filesystem(Protocol):
    """A tree of text files. `read_only`: nothing in it can be changed. `limit`: at most so many results; without it
    there are all, or ToolUserError when the filesystem doesn't give so many at once. Any thread may call."""

    @property
    def read_only(self) -> bool: ...

    def exists(self, path: str) -> bool: ...

    def stat(self, path: str) -> FileEntry: ...

    def list(self, path: str = "", *, limit: int | None = None) -> Sequence[FileEntry]:
        """What is in a folder, sorted by name."""

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> FileText:
        """The file's text; `offset` lines are passed over, at most `limit` given."""

    def write(self, path: str, text: str, *, mode: WriteMode = "overwrite") -> FileEntry:
        """Writes a file and makes the folders above it; `create` refuses one that is there."""

    def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> FileEdit:
        """Replaces the text `old` by `new`, in one step that nothing comes between. ToolUserError unless `old` is there
        exactly once, or with `replace_all` at least once."""

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file, or a folder: an empty one, or with `recursive` all that is in it."""

    def mkdir(self, path: str) -> None:
        """Makes a folder, and those above it; one that is there stays."""

    def glob(self, pattern: str, *, path: str = "", limit: int | None = None) -> Sequence[FileEntry]:
        """Files below `path` whose path from there matches: `*` and `?` stay within a name, `[a-z]` is one character,
        `**` is any folders. Sorted by path, name by name."""

    def grep(
        self, pattern: str, *, path: str = "", glob: str | None = None, limit: int | None = None
    ) -> Sequence[GrepMatch]:
        """Lines that a regular expression matches, by path and line; in the file `path`, or in the files below it that
        `glob` matches (one without `/`: whose name it matches). Files that are no text are passed over."""
