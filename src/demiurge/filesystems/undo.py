"""Records which call made which change of a tree, so that one call's changes can be undone while all others stay.

A path that an open scope changed has a history: its state before, and each owner's later states, in order. Undoing a
scope removes its entries, and the path gets the last state that is left. So later changes of others stay, and earlier
ones come back. A change without an owner (outside of calls, or committed to no scope) is never undone, so the history
starts anew from it.

A change of a path implies facts about other paths: the entries above it are folders, and nothing is below an entry that
is no folder. If those paths have a history, they get an entry for it. So the result of undoing some scopes is always a
valid tree. A change by another process is found by the file's stamp, and counts as a change without an owner.

The cost depends only on the changed paths. Not thread-safe: the filesystem holds the lock.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from demiurge.errors import DemiurgeError, Unavailable, UsageError
from demiurge.filesystems.paths import above, parent
from demiurge.filesystems.spool import Spool, SpooledFile
from demiurge.filesystems.tree import Blob, Node, Tree
from demiurge.tools.errors import ToolUserError
from demiurge.tools.execution.scope import CallScope, ScopeState, current_scope

__all__ = ["FilesSnapshot", "NonFile", "Undo"]


class NonFile(Enum):
    """The states of a path that is no file."""

    ABSENT = "absent"
    FOLDER = "folder"


_State: TypeAlias = NonFile | SpooledFile


@dataclass(slots=True)
class _Entry:
    """The state that `owner` gave a path; `state` is filled in once another state replaces it."""

    owner: CallScope
    state: _State | None = None


@dataclass(slots=True)
class _History:
    """`base`: the state before the entries; `stamp`: the tree's stamp after the last of them."""

    base: _State
    entries: list[_Entry]
    stamp: Hashable = None


@dataclass(slots=True, eq=False, weakref_slot=True)
class FilesSnapshot:
    """A moment to return to. It holds the contents overwritten since then, and is freed when nothing refers to it."""

    owner: Undo = field(repr=False)
    saved: dict[str, _State] = field(default_factory=dict, repr=False)


class Undo:
    """The only way to change `tree`. Up to `most_bytes` of a file can be kept; a larger file cannot be changed."""

    def __init__(self, tree: Tree, spool: Spool, most_bytes: int) -> None:
        self._tree = tree
        self._spool = spool
        self._most_bytes = most_bytes
        self._histories: dict[str, _History] = {}
        self._sorted: list[str] = []  # their paths; "0" comes right after "/"
        self._touched: dict[CallScope, set[str]] = {}  # open scopes, and the paths whose history contains them
        self._snapshots: weakref.WeakSet[FilesSnapshot] = weakref.WeakSet()

    def begin(self, scope: CallScope) -> None:
        for other in tuple(self._touched):
            if other.state is ScopeState.COMMITTED:  # an interruption (no stack left, Ctrl-C) kept it from ending
                self.commit(other)
        self._touched.setdefault(scope, set())

    def change(self, path: str, value: Blob | NonFile) -> None:
        """Puts a file, a folder or nothing at `path`, owned by the current scope. Raises Conflict if the call was
        rolled back; ToolUserError, Unavailable."""
        owner = self._owner(current_scope())
        if owner is None and not self._histories and not self._snapshots:
            self._write(path, value)
            return
        before, stamp = self._before(path, owner), self._stamp(path)
        self._save(path)
        try:
            self._write(path, value)
        finally:
            if self._stamp(path) != stamp:  # a failed change may have got this far
                self._note(path, owner, before)
                self._claim(path, owner, value)

    def rely_on(self, folder: str) -> None:
        """Records that the current scope needs the existing folder, as if it had made it. Raises Conflict."""
        self._claim_all([*above(folder), folder], self._owner(current_scope()))

    def commit(self, scope: CallScope) -> None:
        """Gives the scope's changes to the nearest open scope around it, or to none."""
        heir = self._owner(scope.parent)
        for path in self._touched.get(scope, ()):
            history = self._histories.get(path)
            if history is None:
                continue
            if heir is None:
                self._forget(path, history, scope)
                continue
            for entry in history.entries:
                if entry.owner is scope:
                    entry.owner = heir
            history.entries = [
                entry
                for entry, later in zip(history.entries, [*history.entries[1:], None], strict=True)
                if later is None or later.owner is not entry.owner
            ]
            self._touched[heir].add(path)
        self._touched.pop(scope, None)

    def roll_back(self, scope: CallScope) -> None:
        """Undoes the changes of the scope and of those inside it, as far as possible, then raises the errors:
        Unavailable, ToolUserError. After an interruption it can be called again."""
        inside = {other for other in self._touched if other.within(scope)}
        paths = set().union(*(self._touched[other] for other in inside))
        failure: DemiurgeError | None = None
        targets: dict[str, _State] = {}
        for path in paths:
            try:
                history = self._known(path)
            except DemiurgeError as error:
                failure = error
                self._drop(path)
            else:
                if history is not None and (state := _below(history, inside)) is not None:
                    targets[path] = state
        try:
            self._bring(targets, self._put_back)
        except DemiurgeError as error:
            failure = error
        for path in paths:
            self._take_out(path, inside)
        for other in inside:
            del self._touched[other]
        if failure is not None:
            raise failure

    def _take_out(self, path: str, owners: set[CallScope]) -> None:
        """Removes the entries of `owners` from the path."""
        history = self._histories.get(path)
        if history is None:
            return
        left = [entry for entry in history.entries if entry.owner not in owners]
        if not left:
            self._drop(path)
            return
        if history.entries[-1].owner in owners:
            left[-1].state = None
        history.entries = left
        self._restamp(path)

    def _restamp(self, path: str) -> None:
        with suppress(DemiurgeError):  # else the state counts as another process's change
            self._histories[path].stamp = self._stamp(path)

    def snapshot(self) -> FilesSnapshot:
        made = FilesSnapshot(self)
        self._snapshots.add(made)
        return made

    def restore(self, snapshot: FilesSnapshot) -> None:
        """Restores everything that was changed here since the snapshot, as a change like any other. Raises UsageError
        for another tree's snapshot; Unavailable."""
        if not isinstance(snapshot, FilesSnapshot) or snapshot.owner is not self:
            raise UsageError("This is no snapshot of these files.")
        self._bring(dict(snapshot.saved), self.change)

    def _owner(self, scope: CallScope | None) -> CallScope | None:
        """Returns the nearest scope, from here outwards, that is open and was begun here."""
        while scope is not None and scope not in self._touched:
            scope = scope.parent
        return scope

    def _write(self, path: str, value: Blob | NonFile) -> None:
        if isinstance(value, Blob):
            self._tree.put(path, value)
        elif value is NonFile.FOLDER:
            self._tree.make(path)
        else:
            self._tree.remove(path)

    def _state(self, path: str) -> _State:
        node = self._tree.node(path)
        if node is None or node.kind != "file":
            return NonFile.ABSENT if node is None else NonFile.FOLDER
        blob = self._tree.load(path, self._most_bytes)
        try:
            return self._spool.keep(blob)
        except OSError as error:
            raise Unavailable("There is no room to note what a change can be undone with.", code="disk") from error

    def _stamp(self, path: str) -> Hashable:
        return _stamp_of(self._tree.node(path))

    def _known(self, path: str) -> _History | None:
        """Returns the path's history; None if another process changed the path since, because its history then starts
        anew."""
        history = self._histories.get(path)
        if history is not None and self._stamp(path) != history.stamp:
            self._drop(path)
            return None
        return history

    def _before(self, path: str, owner: CallScope | None) -> _State | None:
        """Returns the state of `path`, if it has to be recorded."""
        history = self._known(path)
        if owner is None or (history is not None and history.entries[-1].owner is owner):
            return None
        return self._state(path)

    def _save(self, path: str) -> None:
        """Saves the state of `path` for the snapshots, before a change."""
        missing = [snapshot for snapshot in self._snapshots if path not in snapshot.saved]
        if missing:
            state = self._state(path)
            for snapshot in missing:
                snapshot.saved[path] = state

    def _note(self, path: str, owner: CallScope | None, before: _State | None) -> None:
        """Records that `owner` changed `path`, whose state was `before`."""
        history = self._histories.get(path)
        if owner is None:
            self._drop(path)
            return
        if history is None:
            assert before is not None
            history = self._histories[path] = _History(before, [_Entry(owner)])
            insort(self._sorted, path)
            self._touched[owner].add(path)
        elif history.entries[-1].owner is not owner:
            history.entries[-1].state = before
            history.entries.append(_Entry(owner))
            self._touched[owner].add(path)
        history.stamp = self._stamp(path)

    def _claim(self, path: str, owner: CallScope | None, value: Blob | NonFile) -> None:
        """Records what a change implies about other paths."""
        claimed = above(path) if value is not NonFile.ABSENT else []
        if value is not NonFile.FOLDER:
            claimed += self._sorted[bisect_left(self._sorted, f"{path}/") : bisect_left(self._sorted, f"{path}0")]
        self._claim_all(claimed, owner)

    def _claim_all(self, paths: Iterable[str], owner: CallScope | None) -> None:
        for other in paths:
            if self._known(other) is not None:
                self._note(other, owner, self._before(other, owner))

    def _drop(self, path: str) -> None:
        """Makes the state of `path` owned by no scope."""
        if self._histories.pop(path, None) is not None:
            del self._sorted[bisect_left(self._sorted, path)]

    def _forget(self, path: str, history: _History, scope: CallScope) -> None:
        """Makes the state that `scope` gave `path` owned by no scope; earlier states cannot come back."""
        last = max((at for at, entry in enumerate(history.entries) if entry.owner is scope), default=-1)
        if last < 0:
            return
        state = history.entries[last].state
        del history.entries[: last + 1]
        if history.entries:
            assert state is not None
            history.base = state
        else:
            self._drop(path)

    def _put_back(self, path: str, value: Blob | NonFile) -> None:
        self._save(path)
        self._write(path, value)
        self._restamp(path)

    def _bring(self, targets: Mapping[str, _State], change: Callable[[str, Blob | NonFile], None]) -> None:
        """Gives each path its target state: first removes entries from the bottom up, then adds entries from the top
        down. A path that others have blocked stays as it is."""
        failure: DemiurgeError | None = None
        for path in sorted(targets, reverse=True):
            node = self._tree.node(path)
            if node is None or node.kind == _kind(targets[path]):
                continue
            try:
                change(path, NonFile.ABSENT)
            except ToolUserError:
                continue  # a folder with entries of others
            except DemiurgeError as error:
                failure = error
        for path, state in sorted(targets.items()):
            try:
                if state is not NonFile.ABSENT:
                    self._bring_one(path, state, change)
            except ToolUserError:
                continue
            except DemiurgeError as error:
                failure = error
        if failure is not None:
            raise failure

    def _bring_one(self, path: str, state: _State, change: Callable[[str, Blob | NonFile], None]) -> None:
        node, folder = self._tree.node(path), parent(path)
        in_the_way = node is not None and node.kind != _kind(state)
        if in_the_way or (folder and _kind_of(self._tree.node(folder)) != "dir"):
            return
        if isinstance(state, NonFile):
            if node is None:
                change(path, state)
            return
        try:
            blob = state.load()
        except OSError as error:
            raise Unavailable(f"What {path} was can't be read back.", code="disk") from error
        if node is None or node.size != state.size or self._tree.load(path, self._most_bytes) != blob:
            change(path, blob)


def _below(history: _History, owners: set[CallScope]) -> _State | None:
    """Returns the state of the path without the entries of `owners`, None if it is the present one."""
    if history.entries[-1].owner not in owners:
        return None
    left = [entry for entry in history.entries if entry.owner not in owners]
    return left[-1].state if left else history.base


def _kind(state: _State) -> str | None:
    return "file" if isinstance(state, SpooledFile) else "dir" if state is NonFile.FOLDER else None


def _kind_of(node: Node | None) -> str | None:
    return node.kind if node is not None else None


def _stamp_of(node: Node | None) -> Hashable:
    return (node.kind, node.stamp) if node is not None else None
