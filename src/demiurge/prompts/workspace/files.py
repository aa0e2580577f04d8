"""The parameters and results of the tools for files, and their text for the model.

File contents are private, paths and counts public; see `tools`. Every list says whether it is complete and, if not,
how to get the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from demiurge.tools.filesystem import FileKind

__all__ = [
    "EditFile",
    "Edited",
    "FileLines",
    "FoundFile",
    "FoundFiles",
    "FoundLine",
    "FoundLines",
    "Glob",
    "Grep",
    "ListFolder",
    "Listed",
    "Listing",
    "ReadFile",
    "WriteFile",
    "Written",
]

LINE_CHARACTERS = 2_000
"""The maximum number of characters shown of a line."""

_FOLDER = {"description": "Folder to look in. Left out: the top folder."}
_FILE = {"description": "Path of the file, from the top folder."}


@dataclass(frozen=True, slots=True)
class ListFolder:
    path: str = field(default="", metadata=_FOLDER)


@dataclass(frozen=True, slots=True)
class Listed:
    path: str
    kind: FileKind
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The entries of a folder. `more`: the folder holds more than these."""

    path: str
    entries: tuple[Listed, ...]
    more: bool

    def render(self) -> str:
        return "\n".join([*map(_listed, self.entries), *(["More is not shown: use glob."] if self.more else [])])


@dataclass(frozen=True, slots=True)
class ReadFile:
    path: str = field(metadata=_FILE)
    first_line: int = field(default=1, metadata={"description": "Number of the first line to show, from 1."})
    lines: int = field(default=500, metadata={"description": "How many lines to show at most, 1 to 2000."})


@dataclass(frozen=True, slots=True)
class FileLines:
    """`text` is the exact text of `lines` lines from `first_line` on; the model sees them with their numbers.
    `next_line`: the first line after these, None at the end of the file."""

    path: str
    first_line: int
    lines: int
    total_lines: int
    size: int
    next_line: int | None
    text: str

    def render(self) -> str:
        lines = self.text.split("\n")[: self.lines]
        shown = [f"{number:>6}\t{_cut(line)}" for number, line in enumerate(lines, self.first_line)]
        if self.next_line is not None:
            shown.append(f"There are {self.total_lines} lines: go on with first_line={self.next_line}.")
        return "\n".join(shown)


@dataclass(frozen=True, slots=True)
class WriteFile:
    path: str = field(metadata=_FILE)
    text: str = field(metadata={"description": "The text: the whole of the file, or what is added with append."})
    mode: Literal["overwrite", "create", "append"] = field(
        default="overwrite",
        metadata={"description": "create: only if there is no such file. append: at the end of the file."},
    )


@dataclass(frozen=True, slots=True)
class Written:
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class EditFile:
    path: str = field(metadata=_FILE)
    old_text: str = field(
        metadata={"description": "The exact text to replace, without line numbers, and with enough around it."}
    )
    new_text: str = field(metadata={"description": "The text to put in its place."})
    replace_all: bool = field(default=False, metadata={"description": "Replace every place, not just the only one."})


@dataclass(frozen=True, slots=True)
class Edited:
    """The outcome of an edit: `replaced` places, the first of them in line `first_line`."""

    path: str
    replaced: int
    first_line: int
    size: int


@dataclass(frozen=True, slots=True)
class Glob:
    pattern: str = field(
        metadata={"description": "Path from the folder; * and ? within a name, ** for any folders: src/**/*.py"}
    )
    path: str = field(default="", metadata=_FOLDER)


@dataclass(frozen=True, slots=True)
class FoundFile:
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files that a glob found. `more`: there are more than these."""

    files: tuple[FoundFile, ...]
    more: bool

    def render(self) -> str:
        notice = ["More files match: narrow the pattern or the folder."] if self.more else []
        return "\n".join([*(f"{file.path} ({file.size} bytes)" for file in self.files), *notice])


@dataclass(frozen=True, slots=True)
class Grep:
    pattern: str = field(
        metadata={"description": "Regular expression, for one line; no look-around, no back references."}
    )
    path: str = field(default="", metadata={"description": "File or folder to search. Left out: everything."})
    glob: str | None = field(default=None, metadata={"description": "Only files of this name or path: *.py"})
    ignore_case: bool = field(default=False, metadata={"description": "Take small and capital letters as equal."})


@dataclass(frozen=True, slots=True)
class FoundLine:
    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class FoundLines:
    """The lines that a search found. `more`: there are more than these."""

    matches: tuple[FoundLine, ...]
    more: bool

    def render(self) -> str:
        shown: list[str] = []
        for path, found in groupby(self.matches, key=lambda match: match.path):
            shown += [path, *(f"{match.line:>6}\t{match.text}" for match in found)]
        return "\n".join([*shown, *(["More lines match: narrow the pattern or the folder."] if self.more else [])])


def _listed(entry: Listed) -> str:
    if entry.kind == "file":
        return f"{entry.path} ({entry.size} bytes)"
    return f"{entry.path}/" if entry.kind == "dir" else f"{entry.path} (a link or no plain file)"


def _cut(line: str) -> str:
    left = len(line) - LINE_CHARACTERS
    return line if left <= 0 else f"{line[:LINE_CHARACTERS]}… ({left} more characters in this line)"
