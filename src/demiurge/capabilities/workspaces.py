"""`MemoryWorkspaces` and `FolderWorkspaces`: versioned trees of text files for the tools of a runner without a world.

The version of a workspace is a counter that moves on whenever the tree is found to be another than it was at the last
look, whoever changed it: a write, the roll-back of a failed call, an editor, another process, a write that a crash cut
off from its bookkeeping. So a version is never used again for other contents, and a write that expects a version never
replaces what its writer has not seen. The price is a look at every entry of the workspace, not at contents, for each
read and write.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from demiurge.errors import Damaged, Unavailable
from demiurge.filesystems import Limits
from demiurge.filesystems.files import TreeFilesystem
from demiurge.filesystems.folder import FolderTree
from demiurge.filesystems.memory import MemoryTree
from demiurge.filesystems.paths import file_path, joined, tree_path
from demiurge.filesystems.search import Search
from demiurge.filesystems.spool import Spool
from demiurge.filesystems.tree import Blob, Tree
from demiurge.tools.capabilities import WorkspaceCommit, WorkspaceEntry, WorkspaceFile
from demiurge.tools.errors import ToolUserError
from demiurge.tools.execution.scope import CallScope, Transaction, Transactional
from demiurge.values.clock import SystemClock

__all__ = ["FolderWorkspaces", "MemoryWorkspaces"]

_T = TypeVar("_T")
_NAME: Final = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,254}")
_VERSIONS: Final = ".versions"
"""The folder of `FolderWorkspaces` with a file for each workspace. No workspace has a name that begins with a dot."""
_STATE_BYTES: Final = 4096


class _State(NamedTuple):
    """A version, and the digest of the tree that has it."""

    version: int
    tree: str


class _TreeWorkspaces(Transactional):
    """Workspaces in one tree, each in a folder of its name. A failed call's writes are taken back."""

    def __init__(self, tree: Tree, spool: Spool, limits: Limits) -> None:
        clock = SystemClock()
        self._tree, self._search = tree, Search(tree, limits, clock)
        self._files = TreeFilesystem(tree, spool, limits, clock)

    def begin(self, scope: CallScope) -> Transaction:
        """Starts recording the writes of a call, so that they can be rolled back. A roll-back is a new version."""
        return self._files.begin(scope)

    async def list(self, path: str, *, workspace: str) -> Sequence[WorkspaceEntry]:
        """Returns the entries of one folder, sorted by path; links and special files are left out. Raises
        ToolUserError if there is no such folder."""
        return await self._run(partial(self._list, path, workspace))

    async def read(self, path: str, *, workspace: str) -> WorkspaceFile:
        """Returns a text file. Raises ToolUserError if there is none."""
        return await self._run(partial(self._read, path, workspace))

    async def write(self, path: str, text: str, *, workspace: str, expected_version: int | None) -> WorkspaceCommit:
        """Makes or replaces a text file, whole or not at all. Raises ToolUserError for a path that can't be."""
        return await self._run(partial(self._write, path, text, workspace, expected_version))

    @abstractmethod
    async def _run(self, work: Callable[[], _T]) -> _T:
        """Returns the result of `work`, which may wait for the lock and for the disk."""

    @abstractmethod
    def _locked(self) -> AbstractContextManager[object]:
        """Keeps other writes away, also those of other processes."""

    @abstractmethod
    def _load(self, workspace: str) -> _State | None: ...

    @abstractmethod
    def _save(self, workspace: str, state: _State) -> None: ...

    def _list(self, path: str, workspace: str) -> Sequence[WorkspaceEntry]:
        path, passed = tree_path(path), len(_checked(workspace)) + 1
        with _named(workspace):
            if not path and self._tree.node(workspace) is None:
                return []
            found = self._files.list(joined(workspace, path) if path else workspace)
        return [WorkspaceEntry(entry.path[passed:], entry.kind, entry.size) for entry in found if entry.kind != "other"]

    def _read(self, path: str, workspace: str) -> WorkspaceFile:
        path = file_path(path)
        with self._locked(), _named(_checked(workspace)):
            version = self._version(workspace)  # first, so that a later change is a later version
            file = self._files.read(joined(workspace, path))
        return WorkspaceFile(path, file.text, version, file.size)

    def _write(self, path: str, text: str, workspace: str, expected: int | None) -> WorkspaceCommit:
        path = file_path(path)
        with self._locked(), _named(_checked(workspace)):
            version = self._version(workspace)
            if expected is not None and expected != version:
                return WorkspaceCommit(path, version, False, expected, version)
            self._files.write(joined(workspace, path), text)
            return WorkspaceCommit(path, self._version(workspace), True)

    def _version(self, workspace: str) -> int:
        """Returns the version of the tree as it is now, which is a new one if the tree was not seen so before."""
        tree, state = self._digest(workspace), self._load(workspace) or _State(0, _NOTHING)
        if tree != state.tree:
            state = _State(state.version + 1, tree)
            self._save(workspace, state)
        return state.version

    def _digest(self, workspace: str) -> str:
        """Returns a digest of the names, kinds and stamps of all entries."""
        node = self._tree.node(workspace)
        if node is None:
            return _NOTHING
        if node.kind != "dir":
            raise ToolUserError(f"{workspace} is a link or no folder: it is left alone.")
        seen = sha256()
        for path, entry in self._search.walk(workspace):
            seen.update(f"{path}\0{entry.kind}\0{entry.stamp}\0".encode())
        return seen.hexdigest()


_NOTHING: Final = "nothing"
"""The digest of a workspace that nobody has written to. Its version is 0."""


class MemoryWorkspaces(_TreeWorkspaces):
    """Workspaces that end with their process. A `Workspaces` for tests and drafts."""

    def __init__(self, *, limits: Limits | None = None) -> None:
        super().__init__(MemoryTree(), Spool(None), limits or Limits())
        self._lock = threading.Lock()
        self._states: dict[str, _State] = {}

    async def _run(self, work: Callable[[], _T]) -> _T:
        return work()

    def _locked(self) -> AbstractContextManager[object]:
        return self._lock

    def _load(self, workspace: str) -> _State | None:
        return self._states.get(workspace)

    def _save(self, workspace: str, state: _State) -> None:
        self._states[workspace] = state


class FolderWorkspaces(_TreeWorkspaces):
    """Workspaces in a folder on disk, each in a subfolder of its name: `notes/main/todo.txt` is the file `todo.txt` of
    the workspace `main` in `FolderWorkspaces("notes")`. A `Workspaces`.

    The folder is made if its parent is there. No path leads out of it, and no link in it is followed. Several processes
    may use it at the same time. A write is durable when it returns; a process that is killed leaves each file whole.
    The versions are in the subfolder `.versions`. Raises Unavailable if the folder can't be made or opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, limits: Limits | None = None) -> None:
        self._root, limits = Path(path).absolute(), limits or Limits()
        try:
            self._root.mkdir(exist_ok=True)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else "the disk failed"
            raise Unavailable(f"The folder {self._root} can't be made: {reason}.", code="no_folder") from None
        super().__init__(FolderTree(self._root), Spool(limits.undo_bytes), limits)

    async def _run(self, work: Callable[[], _T]) -> _T:
        return await asyncio.to_thread(work)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            raise Unavailable(f"The folder {self._root} can't be opened.", code="no_folder") from None
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)  # also among threads: each has opened the folder for itself
            yield
        finally:
            os.close(folder)

    def _load(self, workspace: str) -> _State | None:
        path = joined(_VERSIONS, workspace)
        if self._tree.node(path) is None:
            return None
        try:
            version, tree = json.loads(self._tree.load(path, _STATE_BYTES).data)
            return _State(int(version), str(tree))
        except (TypeError, ValueError):
            place = self._root / _VERSIONS / workspace
            raise Damaged(f"{place} can't be read. Remove the file; then versions begin again at 1.") from None

    def _save(self, workspace: str, state: _State) -> None:
        if self._tree.node(_VERSIONS) is None:
            self._tree.make(_VERSIONS)
        self._tree.put(joined(_VERSIONS, workspace), Blob(json.dumps(state).encode()))


def _checked(workspace: str) -> str:
    """Returns the name of a workspace. Raises ToolUserError for a text that is none."""
    if not _NAME.fullmatch(workspace):
        raise ToolUserError("A workspace's name has 1 to 255 letters, digits and . _ ~ -, and no dot in front.")
    return workspace


@contextmanager
def _named(workspace: str) -> Iterator[None]:
    """Takes the workspace's folder out of messages: paths begin in the workspace."""
    try:
        yield
    except ToolUserError as error:
        in_front = rf"(?<![\w./~-]){re.escape(workspace)}/"
        raise ToolUserError(re.sub(in_front, "", error.message)) from error
