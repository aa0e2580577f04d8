"""Searches of a tree: walk, glob and grep, each with limits.

A walk visits names in sorted order, so that the first results stay first if a limit cuts the rest. Entries that vanish
meanwhile are skipped. It only reads, so it needs no lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from demiurge.errors import InvalidValue
from demiurge.filesystems.limits import Limits
from demiurge.filesystems.paths import joined
from demiurge.filesystems.patterns import Matches, glob_root, path_glob, regular_expression
from demiurge.filesystems.tree import FolderEntry, Node, Tree
from demiurge.tools.errors import ToolUserError
from demiurge.tools.filesystem import FileEntry, GrepMatch
from demiurge.values.clock import Clock

__all__ = ["Search", "decoded"]

_Found = TypeVar("_Found")
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Search:
    """Searches of `tree` within `limits`. `path` is a checked one, "" the root. Raises ToolUserError if there is no
    such folder, if a pattern is invalid, and if a limit other than the caller's `limit` is exceeded."""

    tree: Tree
    limits: Limits
    clock: Clock

    def entries(self, path: str, limit: int | None) -> Sequence[FileEntry]:
        self._check_folder(path)
        return self._at_most(limit, map(_entry, _sorted(path, self.tree.names(path))))

    def walk(self, path: str) -> Iterator[tuple[str, Node]]:
        """Yields all entries below a folder, a folder before its entries."""
        seen, end = 0, self._end()
        pending = _sorted(path, self.tree.names(path))[::-1]
        while pending:
            name, node = pending.pop()
            yield name, node
            seen += 1
            if node.kind == "dir":
                pending += _sorted(name, self._inside(name))[::-1]
            self._check_time(end)
            if seen + len(pending) > self.limits.walked:
                raise ToolUserError(f"There are more than {self.limits.walked} entries here: name a smaller folder.")

    def glob(self, pattern: str, path: str, limit: int | None) -> Sequence[FileEntry]:
        self._check_folder(path)
        matches = path_glob(pattern, self.limits.pattern_chars)
        root = glob_root(pattern)
        start = joined(path, root) if root else path
        node = self.tree.node(start)
        if node is None or node.kind != "dir":
            return ()
        passed = len(path) + 1 if path else 0
        files = (found for found in self.walk(start) if found[1].kind == "file" and matches(found[0][passed:]))
        return self._at_most(limit, map(_entry, files))

    def grep(self, pattern: str, path: str, glob: str | None, limit: int | None) -> Sequence[GrepMatch]:
        matches = regular_expression(pattern, self.limits.pattern_chars)
        is_wanted = self._wanted(glob, path)
        node = self.tree.node(path)
        if node is not None and node.kind == "file":
            return self._at_most(limit, self._lines([(path, node)], matches, is_named=True))
        self._check_folder(path)
        files = (found for found in self.walk(path) if found[1].kind == "file" and is_wanted(found[0]))
        return self._at_most(limit, self._lines(files, matches, is_named=False))

    def _check_folder(self, path: str) -> None:
        node = self.tree.node(path)
        if node is None:
            raise ToolUserError(f"There is no {path}.")
        if node.kind != "dir":
            raise ToolUserError(f"{path} is no folder.")

    def _inside(self, path: str) -> Sequence[FolderEntry]:
        try:
            return self.tree.names(path)
        except ToolUserError:  # vanished meanwhile, or not readable
            return ()

    def _wanted(self, glob: str | None, path: str) -> Matches:
        if glob is None:
            return lambda _: True
        matches = path_glob(glob, self.limits.pattern_chars)
        if "/" not in glob:
            return lambda name: matches(name.rpartition("/")[2])
        passed = len(path) + 1 if path else 0
        return lambda name: matches(name[passed:])

    def _lines(self, files: Iterable[tuple[str, Node]], matches: Matches, *, is_named: bool) -> Iterator[GrepMatch]:
        """Yields the matching lines. `is_named`: a file that cannot be searched is an error, else it is skipped."""
        left, most, end = self.limits.searched_bytes, self.limits.line_chars, self._end()
        for path, node in files:
            if node.size > self.limits.file_bytes and not is_named:
                continue
            left -= node.size
            if left < 0:
                raise ToolUserError(f"One search reads {self.limits.searched_bytes} bytes: name a folder, or a glob.")
            for number, line in enumerate(self._split(path, is_named), 1):
                self._check_time(end)
                text = line.removesuffix("\r")
                if matches(text[:most]):
                    yield GrepMatch(path, number, text if len(text) <= most else f"{text[:most]}…")

    def _end(self) -> int:
        """Returns the time at which a search that begins now must stop."""
        return self.clock.monotonic_ns() + self.limits.seconds * _NS

    def _check_time(self, end: int) -> None:
        if self.clock.monotonic_ns() > end:
            raise ToolUserError("The search took too long: use a simpler pattern, or a smaller folder.")

    def _split(self, path: str, is_named: bool) -> Sequence[str]:
        """Returns the lines of a file; none for a file to be skipped."""
        try:
            text = decoded(path, self.tree.load(path, self.limits.file_bytes).data)
        except ToolUserError:
            if is_named:
                raise
            return ()
        return text.removesuffix("\n").split("\n") if text else ()

    def _at_most(self, limit: int | None, found: Iterable[_Found]) -> tuple[_Found, ...]:
        if limit is not None and limit < 0:
            raise InvalidValue("a limit is at least 0", path="limit")
        most = self.limits.results
        if limit is not None and limit <= most:
            return tuple(islice(found, limit))
        results = tuple(islice(found, most + 1))
        if len(results) > most:
            raise ToolUserError(f"There are more than {most} results: give a limit, or ask for less.")
        return results


def decoded(path: str, data: bytes) -> str:
    """Returns a file's text. Raises ToolUserError."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolUserError(f"{path} is no text in UTF-8.") from error


def _sorted(folder: str, found: Iterable[FolderEntry]) -> list[tuple[str, Node]]:
    return [
        (joined(folder, entry.name), entry.node) for entry in sorted(found, key=lambda entry: entry.name) if entry.name
    ]


def _entry(found: tuple[str, Node]) -> FileEntry:
    path, node = found
    return FileEntry(path, node.kind, node.size)
