"""A Filesystem of text files over any Tree, in memory or on disk.

Each change holds one lock from its first look at the tree to its last byte, so concurrent calls cannot interfere;
reading takes no lock and sees each file old or new. A failed change leaves nothing behind: folders that it made on its
way are removed again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from demiurge.errors import DemiurgeError, InvalidValue
from demiurge.filesystems.limits import Limits
from demiurge.filesystems.paths import above, file_path, tree_path
from demiurge.filesystems.search import Search, decoded
from demiurge.filesystems.spool import Spool
from demiurge.filesystems.tree import Blob, Node, Tree
from demiurge.filesystems.undo import FilesSnapshot, NonFile, Undo
from demiurge.tools.errors import ToolUserError
from demiurge.tools.execution.scope import CallScope, Transaction, Transactional
from demiurge.tools.filesystem import FileEdit, FileEntry, FileText, GrepMatch, WriteMode
from demiurge.values.clock import Clock

__all__ = ["TreeFilesystem"]


class TreeFilesystem(Transactional):
    """A Filesystem that is Transactional and Snapshotable. Methods raise as Filesystem says; changes raise Conflict
    when they come from a call that was rolled back."""

    def __init__(self, tree: Tree, spool: Spool, limits: Limits, clock: Clock, *, read_only: bool = False) -> None:
        self._tree = tree
        self._limits = limits
        self._search = Search(tree, limits, clock)
        self._undo = Undo(tree, spool, limits.file_bytes)
        self._lock = threading.RLock()
        self._read_only = read_only

    @property
    def read_only(self) -> bool:
        return self._read_only

    @property
    def limits(self) -> Limits:
        return self._limits

    def exists(self, path: str) -> bool:
        return self._tree.node(tree_path(path)) is not None

    def stat(self, path: str) -> FileEntry:
        path = tree_path(path)
        node = self._found(path)
        return FileEntry(path, node.kind, node.size)

    def list(self, path: str = "", *, limit: int | None = None) -> Sequence[FileEntry]:
        return self._search.entries(tree_path(path), limit)

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> FileText:
        if offset < 0 or (limit is not None and limit < 0):
            raise InvalidValue("offset and limit are at least 0")
        path = file_path(path)
        self._file(path)
        data = self._tree.load(path, self._limits.file_bytes).data
        lines = decoded(path, data).split("\n")
        total = len(lines) - (lines[-1] == "")
        end = total if limit is None else min(offset + limit, total)
        text = "\n".join(lines[offset:end])
        if end > offset and end < len(lines):
            text += "\n"
        return FileText(path, text, offset + 1, max(end - offset, 0), total, len(data))

    def write(self, path: str, text: str, *, mode: WriteMode = "overwrite") -> FileEntry:
        path, data = file_path(path), _encoded(text)
        if mode not in ("create", "overwrite", "append"):
            raise InvalidValue("a mode is create, overwrite or append", path="mode")
        with self._lock:
            self._check_writable()
            node = self._tree.node(path)
            if node is not None:
                self._file(path)
                if mode == "create":
                    raise ToolUserError(f"There is a file {path} already.")
                if mode == "append":
                    data = self._tree.load(path, self._limits.file_bytes).data + data
            self._replace(path, node, data)
        return FileEntry(path, "file", len(data))

    def edit(self, path: str, old: str, new: str, *, replace_all: bool = False) -> FileEdit:
        path = file_path(path)
        _encoded(old)
        _encoded(new)
        if not old:
            raise ToolUserError("The text to replace is empty.")
        if old == new:
            raise ToolUserError("The old and the new text are the same: nothing to do.")
        with self._lock:
            self._check_writable()
            node = self._file(path)
            text = decoded(path, self._tree.load(path, self._limits.file_bytes).data)
            first, count = text.find(old), text.count(old)
            if first < 0:
                raise ToolUserError(f"The old text is not in {path}: read it again, and copy it exactly.")
            if not replace_all and text.find(old, first + 1) >= 0:  # overlapping occurrences count too
                raise ToolUserError(
                    f"The old text is {max(count, 2)} times in {path}: "
                    "take more of what is around the place, or replace all."
                )
            data = _encoded(text.replace(old, new))
            self._replace(path, node, data)
        return FileEdit(path, count, text.count("\n", 0, first) + 1, len(data))

    def delete(self, path: str, *, recursive: bool = False) -> None:
        path = file_path(path)
        with self._lock:
            self._check_writable()
            node = self._found(path)
            if node.kind != "dir":
                self._file(path)
            elif not recursive and self._tree.names(path):
                raise ToolUserError(f"The folder {path} is not empty.")
            doomed = [(path, node)] if node.kind != "dir" else [(path, node), *self._search.walk(path)]
            for name, found in doomed:
                self._check_removable(name, found)
            for name, _ in reversed(doomed):
                self._undo.change(name, NonFile.ABSENT)

    def mkdir(self, path: str) -> None:
        path = tree_path(path)
        with self._lock:
            self._check_writable()
            with self._folders([*above(path), path] if path else []):
                self._undo.rely_on(path)

    def glob(self, pattern: str, *, path: str = "", limit: int | None = None) -> Sequence[FileEntry]:
        return self._search.glob(pattern, tree_path(path), limit)

    def grep(
        self, pattern: str, *, path: str = "", glob: str | None = None, limit: int | None = None
    ) -> Sequence[GrepMatch]:
        return self._search.grep(pattern, tree_path(path), glob, limit)

    def begin(self, scope: CallScope) -> Transaction:
        """Starts recording changes in `scope`, so that they can be rolled back."""
        transaction = _FilesTransaction(self._undo, self._lock, scope)
        with self._lock:
            self._undo.begin(scope)  # last, so that nothing is begun without an owner who can end it
        return transaction

    def snapshot(self) -> FilesSnapshot:
        """Returns a snapshot. It costs nothing now; overwritten contents are kept as long as the snapshot is held."""
        with self._lock:
            return self._undo.snapshot()

    def restore(self, snapshot: FilesSnapshot) -> None:
        """Restores everything that was changed through this filesystem since `snapshot`; the snapshot can be used
        again. Raises UsageError for another filesystem's snapshot; Unavailable."""
        with self._lock:
            self._undo.restore(snapshot)

    def _check_writable(self) -> None:
        if self._read_only:
            raise ToolUserError("These files can only be read.")

    def _found(self, path: str) -> Node:
        node = self._tree.node(path)
        if node is None:
            raise ToolUserError(f"There is no file or folder {path}.")
        return node

    def _file(self, path: str) -> Node:
        node = self._found(path)
        if node.kind == "dir":
            raise ToolUserError(f"{path} is a folder.")
        if node.kind != "file":
            raise ToolUserError(f"{path} is a link or no plain file: it is left alone.")
        return node

    def _check_removable(self, path: str, node: Node) -> None:
        if node.kind == "other":
            raise ToolUserError(f"{path} is a link or no plain file: it is left alone.")
        if node.size > self._limits.file_bytes:
            raise ToolUserError(f"{path} is larger than {self._limits.file_bytes} bytes: it is left alone.")
        if node.kind == "dir" and not all(entry.name for entry in self._tree.names(path)):
            raise ToolUserError(f"In {path} is something with a name that can't be written here: it is left alone.")

    def _replace(self, path: str, node: Node | None, data: bytes) -> None:
        """Puts `data` at `path`, in place of `node`."""
        old = node.size if node is not None else 0
        for size in (old, len(data)):
            if size > self._limits.file_bytes:
                raise ToolUserError(f"{path}: a file has at most {self._limits.file_bytes} bytes.")
        if len(data) > old and self._tree.total_bytes + len(data) - old > self._limits.total_bytes:
            raise ToolUserError(f"All files together have at most {self._limits.total_bytes} bytes.")
        with self._folders(above(path), beside=1 if node is None else 0):
            self._undo.change(path, Blob(data))

    @contextmanager
    def _folders(self, folders: Sequence[str], beside: int = 0) -> Iterator[None]:
        """Makes the missing ones of `folders`, and removes them again if the block fails. `beside`: the number of files
        that come with them."""
        missing = self._missing(folders)
        added = len(missing) + beside
        if added and self._tree.entries + added > self._limits.entries:
            raise ToolUserError(f"There can be at most {self._limits.entries} files and folders.")
        made = 0
        try:
            for folder in missing:
                self._undo.change(folder, NonFile.FOLDER)
                made += 1
            yield
        except BaseException:
            for folder in reversed(missing[:made]):
                with suppress(DemiurgeError):
                    self._undo.change(folder, NonFile.ABSENT)
            raise

    def _missing(self, folders: Sequence[str]) -> Sequence[str]:
        """Returns the missing end of `folders`; existing entries must be folders."""
        for at, folder in enumerate(folders):
            node = self._tree.node(folder)
            if node is None:
                return folders[at:]
            if node.kind != "dir":
                raise ToolUserError(f"{folder} is no folder.")
        return ()


class _FilesTransaction:
    """A Transaction over the undo of one filesystem."""

    def __init__(self, undo: Undo, lock: threading.RLock, scope: CallScope) -> None:
        self._undo = undo
        self._lock = lock
        self._scope = scope

    def commit(self) -> None:
        with self._lock:
            self._undo.commit(self._scope)

    def roll_back(self) -> None:
        """Rolls back. Raises Unavailable if the disk fails; as much as possible is restored."""
        with self._lock:
            self._undo.roll_back(self._scope)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolUserError("The text holds half a character, which UTF-8 can't write.") from error
