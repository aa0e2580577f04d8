"""The interface of a filesystem for tools: a tree below one root, and nothing outside of it.

Paths are relative, with `/` between names; "" and "." are the root. All content is UTF-8 text, and a line ends with
"\\n" and with nothing else. A fault that a model can correct (a missing file, a path that leaves the root, too many
results) raises ToolUserError; a disk that fails raises Unavailable, and nothing was lost. A result is cut only at a
limit that the caller gave.
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
    """A file or folder. `path` from the root; `size` in bytes, 0 for a folder. Kind `other`: a link, a device and
    the like, which is listed and can neither be read nor changed."""

    path: str
    kind: FileKind
    size: int


@dataclass(frozen=True, slots=True)
class FileText:
    """A part of a file's text: `lines` lines from `first_line` (from 1) on. `total_lines`: of the whole file;
    `size`: of the whole file, in bytes. A last line without "\\n" counts."""

    path: str
    text: str
    first_line: int
    lines: int
    total_lines: int
    size: int


@dataclass(frozen=True, slots=True)
class FileEdit:
    """The outcome of an exact replacement: `replaced` places; the first one begins in `first_line` (from 1)."""

    path: str
    replaced: int
    first_line: int
    size: int


@dataclass(frozen=True, slots=True)
class GrepMatch:
    """One matching line; `line` from 1, `text` without its line end. A very long line is cut and ends with `…`."""

    path: str
    line: int
    text: str


class Filesystem(Protocol):
    """A tree of text files. `read_only`: nothing in it can be changed. `limit`: the maximum number of results;
    without it all results are returned, or ToolUserError is raised if there are more than the filesystem returns at
    once. Any thread may call the methods."""

    @property
    def read_only(self) -> bool: ...

    def exists(self, path: str) -> bool: ...

    def stat(self, path: str) -> FileEntry: ...

    def list(self, path: str = "", *, limit: int | None = None) -> Sequence[FileEntry]:
        """Returns the entries of a folder, sorted by name."""

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> FileText:
        """Returns the file's text after the first `offset` lines, at most `limit` lines."""

    def write(self, path: str, text: str, *, mode: WriteMode = "overwrite") -> FileEntry:
        """Writes a file and makes the folders above it; `create` refuses an existing file."""

    def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> FileEdit:
        """Replaces the text `old` by `new`, atomically. Raises ToolUserError unless `old` occurs exactly once, or
        with `replace_all` at least once."""

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file or an empty folder; with `recursive` also a folder with all its content."""

    def mkdir(self, path: str) -> None:
        """Makes a folder and those above it; does nothing if it exists."""

    def glob(self, pattern: str, *, path: str = "", limit: int | None = None) -> Sequence[FileEntry]:
        """Returns files below `path` whose path from there matches: `*` and `?` match within a name, `[a-z]` one
        character, `**` any folders. Sorted by path, name by name."""

    def grep(
        self, pattern: str, *, path: str = "", glob: str | None = None, limit: int | None = None
    ) -> Sequence[GrepMatch]:
        """Returns lines that a regular expression matches, by path and line, in the file `path`, or in the files
        below `path` that `glob` matches (a glob without `/` is matched with the name). Files that are not text are
        skipped."""
