"""`Sources`: the files of one workspace, as the core tools read them.

A path is checked before it reaches the capability, so no tool can read outside the workspace. A file is read once in
the life of a `Sources`, which lasts for one call of a tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from demiurge.registry.evidence import MAX_QUOTE, EvidenceItem
from demiurge.registry.pack.result import GatherError
from demiurge.tools.capabilities import WorkspaceEntry, Workspaces
from demiurge.tools.core.workspace import workspace_name, workspace_path
from demiurge.tools.errors import ToolUserError
from demiurge.values.refs import Ref, ref_of

__all__ = ["MAX_FILES", "MAX_FILE_CHARS", "SourceText", "Sources", "split_lines"]

MAX_FILES: Final = 5000
"""The most files of a workspace that a tool looks at."""

MAX_FILE_CHARS: Final = 1_000_000
"""The most characters of a file that a tool reads."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text file. `sha256`: the digest of its bytes. `lines`: the text split at line feeds, each line without its
    line end; a line feed at the end of the file begins no line."""

    path: str
    text: str
    sha256: Ref
    lines: tuple[str, ...]


class Sources:
    """The text files of `workspace`. All methods raise GatherError for a fault that the model can correct."""

    def __init__(self, workspaces: Workspaces, *, workspace: str = "main") -> None:
        self._workspaces = workspaces
        self._workspace = workspace
        self._texts: dict[str, SourceText] = {}
        self._files: tuple[WorkspaceEntry, ...] | None = None

    async def files(self) -> tuple[WorkspaceEntry, ...]:
        """Returns all files of the workspace, sorted by path. Raises GatherError (`too_many_files`)."""
        if self._files is None:
            self._files = await self._walk()
        return self._files

    async def paths(self) -> tuple[str, ...]:
        """Returns the paths of all files, sorted. Raises GatherError (`too_many_files`)."""
        return tuple(entry.path for entry in await self.files())

    async def text(self, path: str) -> SourceText:
        """Returns a file. Raises GatherError: `invalid_path`, `unreadable`, `too_large`."""
        try:
            plain = workspace_path(path.strip().removeprefix("./"))
        except ToolUserError as error:
            raise GatherError(error.message, code="invalid_path") from None
        if plain not in self._texts:
            try:
                file = await self._workspaces.read(plain, workspace=workspace_name(self._workspace))
            except ToolUserError as error:
                raise GatherError(error.message, code="unreadable") from None
            if len(file.text) > MAX_FILE_CHARS:
                raise GatherError(f"{plain} has more than {MAX_FILE_CHARS} characters.", code="too_large")
            self._texts[plain] = SourceText(plain, file.text, ref_of(file.text.encode()), split_lines(file.text))
        return self._texts[plain]

    def evidence(self, text: SourceText, start: int, end: int) -> EvidenceItem:
        """Returns the evidence for the lines `start` to `end` of a file, both included and from 1. Lines that the file
        does not have are left out."""
        last = max(len(text.lines), 1)
        start = min(max(start, 1), last)
        end = min(max(end, start), last)
        quote = "\n".join(text.lines[start - 1 : end])[:MAX_QUOTE]
        return EvidenceItem(text.path, start, end, quote, text.sha256)

    def whole(self, text: SourceText) -> EvidenceItem:
        """Returns the evidence for a whole file."""
        return self.evidence(text, 1, len(text.lines))

    async def _walk(self) -> tuple[WorkspaceEntry, ...]:
        files: dict[str, WorkspaceEntry] = {}
        seen, folders = {""}, [""]
        while folders:
            for entry in await self._list(folders.pop()):
                if entry.kind == "file":
                    files[entry.path] = entry
                elif entry.path not in seen:
                    seen.add(entry.path)
                    folders.append(entry.path)
            if len(files) + len(seen) > MAX_FILES:
                raise GatherError(f"The workspace has more than {MAX_FILES} files.", code="too_many_files")
        return tuple(files[path] for path in sorted(files))

    async def _list(self, folder: str) -> Sequence[WorkspaceEntry]:
        try:
            return await self._workspaces.list(folder, workspace=workspace_name(self._workspace))
        except ToolUserError as error:
            raise GatherError(error.message, code="unreadable") from None


def split_lines(text: str) -> tuple[str, ...]:
    """Returns the lines of a text. Only a line feed ends a line; a carriage return before it belongs to the end."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return tuple(line.removesuffix("\r") for line in lines)
