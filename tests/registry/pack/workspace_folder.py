"""A workspace whose files are real files in a folder, listed one folder at a time as a world lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from demiurge.registry.pack.sources import Sources
from demiurge.tools import ToolUserError, WorkspaceCommit, WorkspaceEntry, WorkspaceFile


class FolderWorkspaces:
    """Workspaces over the folders in `root`, one for each name. `reads` are the paths that were read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.reads: list[str] = []

    async def list(self, path: str, *, workspace: str) -> Sequence[WorkspaceEntry]:
        folder = self.root / workspace / path
        if not folder.is_dir():
            raise ToolUserError(f"There is no folder {path} in workspace {workspace}.")
        return [
            WorkspaceEntry(
                found.relative_to(self.root / workspace).as_posix(),
                "dir" if found.is_dir() else "file",
                0 if found.is_dir() else found.stat().st_size,
            )
            for found in sorted(folder.iterdir(), reverse=True)
        ]

    async def read(self, path: str, *, workspace: str) -> WorkspaceFile:
        self.reads.append(path)
        try:
            data = (self.root / workspace / path).read_bytes()
            return WorkspaceFile(path, data.decode(), 1, len(data))
        except (OSError, UnicodeDecodeError):
            raise ToolUserError(f"{path} is no text file in workspace {workspace}.") from None

    async def write(self, path: str, text: str, *, workspace: str, expected_version: int | None) -> WorkspaceCommit:
        put(self.root / workspace, {path: text})
        return WorkspaceCommit(path, 1, ok=True)


def put(folder: Path, files: Mapping[str, str]) -> None:
    """Writes the files, each with exactly these characters."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())


def sources_with(root: Path, files: Mapping[str, str]) -> Sources:
    """Returns the sources over a new workspace `main` with these files."""
    (root / "main").mkdir(exist_ok=True)
    put(root / "main", files)
    return Sources(FolderWorkspaces(root))
