"""Whose changes a tree holds, so that those of one call can be taken back and all others stay.

A path that an open scope changed has a history: what was there before, and what each owner after that put there, in
order. Taking a scope back takes its entries out, and the path gets what is last then. So what others put there later
stays, and what they put there earlier comes back. A change that nobody owns (outside of calls, or committed to nobody)
is never taken back, so it makes a new beginning.

Changing a path says something of others, too: that the folders above it are folders, and that nothing is below what is
no folder. Where those have a history, they get an entry for it. So what is left when some scopes are taken back is
always a tree. A change from outside, by another process, is found by the file's stamp, and counts as nobody's.

Costs are those of the paths that were changed, whatever is beside them. Not thread-safe: the filesystem has the lock.
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

__all__ = ["FilesSnapshot", "Mark", "Undo"]


class Mark(Enum):
    """What a path can be that holds no bytes."""

    ABSENT = "absent"
    FOLDER = "folder"


_State: TypeAlias = Mark | SpooledFile


@dataclass(slots=True)
class _Entry:
    """What `owner` put at a path; `state` is known as soon as something else is there."""

    owner: CallScope
    state: _State | None = None


@dataclass(slots=True)
class _History:
    """`base`: what was there before the entries; `stamp`: what the tree said after the last of them."""

    base: _State
    entries: list[_Entry]
    stamp: Hashable = None


@dataclass(slots=True, eq=False, weakref_slot=True)
class FilesSnapshot:
    """A moment to go back to. It holds what was changed since then, and is free when nobody holds it."""

    owner: Undo = field(repr=False)
    saved: dict[str, _State] = field(default_factory=dict, repr=False)


class Undo:
    """The only way to change `tree`. `most_bytes` of a file can be kept, a larger one can't be changed."""

    def __init__(self, tree: Tree, spool: Spool, most_bytes: int) -> None:
        self._tree = tree
        self._spool = spool
        self._most_bytes = most_bytes
        self._histories: dict[str, _History] = {}
        self._sorted: list[str] = []  # their paths; "0" comes right after "/"
        self._touched: dict[CallScope, set[str]] = {}  # open scopes, and the paths in whose history they are
        self._snapshots: weakref.WeakSet[FilesSnapshot] = weakref.WeakSet()

    def begin(self, scope: CallScope) -> None:
        for other in tuple(self._touched):
            if other.state is ScopeState.COMMITTED:  # what broke in (no stack left, Ctrl-C) kept it from its end
                self.commit(other)
        self._touched.setdefault(scope, set())

    def change(self, path: str, value: Blob | Mark) -> None:
        """Puts a file, a folder or nothing at `path`, in the name of the current scope. Raises Conflict in what is left
        of a call that was taken back; ToolUserError, Unavailable."""
        owner = self._owner(current_scope())
        if owner is None and not self._histories and not self._snapshots:
            self._write(path, value)
            return
        before, stamp = self._before(path, owner), self._stamp(path)
        self._save(path)
        try:
            self._write(path, value)
        finally:
            if self._stamp(path) != stamp:  # what fails may have come so far
                self._note(path, owner, before)
                self._claim(path, owner, value)

    def rely_on(self, folder: str) -> None:
        """The current scope wants the folder that is there, as if it had made it. Raises Conflict."""
        self._claim_all([*above(folder), folder], self._owner(current_scope()))

    def commit(self, scope: CallScope) -> None:
        """The scope's changes belong to the nearest open scope around it, or to nobody."""
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
        """Takes the changes of the scope and of those inside it back. Does what it can, then raises what it met:
        Unavailable, ToolUserError. What an interrupt breaks off can be done again."""
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
        """What `owners` put at the path is there no more."""
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
        with suppress(DemiurgeError):  # else what is there counts as changed by somebody else
            self._histories[path].stamp = self._stamp(path)

    def snapshot(self) -> FilesSnapshot:
        made = FilesSnapshot(self)
        self._snapshots.add(made)
        return made

    def restore(self, snapshot: FilesSnapshot) -> None:
        """Everything that was changed here since the snapshot is as it was then; that is a change like any other.
        Raises UsageError for a snapshot of something else; Unavailable."""
        if not isinstance(snapshot, FilesSnapshot) or snapshot.owner is not self:
            raise UsageError("This is no snapshot of these files.")
        self._bring(dict(snapshot.saved), self.change)

    def _owner(self, scope: CallScope | None) -> CallScope | None:
        """The nearest scope from here outwards that is open and was begun here."""
        while scope is not None and scope not in self._touched:
            scope = scope.parent
        return scope

    def _write(self, path: str, value: Blob | Mark) -> None:
        if isinstance(value, Blob):
            self._tree.put(path, value)
        elif value is Mark.FOLDER:
            self._tree.make(path)
        else:
            self._tree.remove(path)

    def _state(self, path: str) -> _State:
        node = self._tree.look(path)
        if node is None or node.kind != "file":
            return Mark.ABSENT if node is None else Mark.FOLDER
        blob = self._tree.load(path, self._most_bytes)
        try:
            return self._spool.keep(blob)
        except OSError as error:
            raise Unavailable("There is no room to note what a change can be undone with.", code="disk") from error

    def _stamp(self, path: str) -> Hashable:
        return _stamp_of(self._tree.look(path))

    def _known(self, path: str) -> _History | None:
        """The path's history; None if somebody else changed it since: that made a new beginning."""
        history = self._histories.get(path)
        if history is not None and self._stamp(path) != history.stamp:
            self._drop(path)
            return None
        return history

    def _before(self, path: str, owner: CallScope | None) -> _State | None:
        """What is at `path`, if that has to be noted."""
        history = self._known(path)
        if owner is None or (history is not None and history.entries[-1].owner is owner):
            return None
        return self._state(path)

    def _save(self, path: str) -> None:
        """Tells the snapshots what is at `path` before that is changed."""
        missing = [snapshot for snapshot in self._snapshots if path not in snapshot.saved]
        if missing:
            state = self._state(path)
            for snapshot in missing:
                snapshot.saved[path] = state

    def _note(self, path: str, owner: CallScope | None, before: _State | None) -> None:
        """Notes that `owner` changed `path`, where `before` was."""
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

    def _claim(self, path: str, owner: CallScope | None, value: Blob | Mark) -> None:
        """Notes what a change says of other paths."""
        claimed = above(path) if value is not Mark.ABSENT else []
        if value is not Mark.FOLDER:
            claimed += self._sorted[bisect_left(self._sorted, f"{path}/") : bisect_left(self._sorted, f"{path}0")]
        self._claim_all(claimed, owner)

    def _claim_all(self, paths: Iterable[str], owner: CallScope | None) -> None:
        for other in paths:
            if self._known(other) is not None:
                self._note(other, owner, self._before(other, owner))

    def _drop(self, path: str) -> None:
        """What is at `path` is nobody's."""
        if self._histories.pop(path, None) is not None:
            del self._sorted[bisect_left(self._sorted, path)]

    def _forget(self, path: str, history: _History, scope: CallScope) -> None:
        """What `scope` put at `path` is nobody's now, and what was before it can't come back."""
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

    def _put_back(self, path: str, value: Blob | Mark) -> None:
        self._save(path)
        self._write(path, value)
        self._restamp(path)

    def _bring(self, targets: Mapping[str, _State], change: Callable[[str, Blob | Mark], None]) -> None:
        """Makes each path what it shall be: first from the bottom up what has to go, then from the top down what has to
        come. What can't be, because others have put something in its way, stays as they made it."""
        failure: DemiurgeError | None = None
        for path in sorted(targets, reverse=True):
            node = self._tree.look(path)
            if node is None or node.kind == _kind(targets[path]):
                continue
            try:
                change(path, Mark.ABSENT)
            except ToolUserError:
                continue  # a folder that others put something into
            except DemiurgeError as error:
                failure = error
        for path, state in sorted(targets.items()):
            try:
                if state is not Mark.ABSENT:
                    self._bring_one(path, state, change)
            except ToolUserError:
                continue
            except DemiurgeError as error:
                failure = error
        if failure is not None:
            raise failure

    def _bring_one(self, path: str, state: _State, change: Callable[[str, Blob | Mark], None]) -> None:
        node, folder = self._tree.look(path), parent(path)
        in_the_way = node is not None and node.kind != _kind(state)
        if in_the_way or (folder and _kind_of(self._tree.look(folder)) != "dir"):
            return
        if isinstance(state, Mark):
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
    """What has to be at the path without the entries of `owners`, None if that is what is there."""
    if history.entries[-1].owner not in owners:
        return None
    left = [entry for entry in history.entries if entry.owner not in owners]
    return left[-1].state if left else history.base


def _kind(state: _State) -> str | None:
    return "file" if isinstance(state, SpooledFile) else "dir" if state is Mark.FOLDER else None


def _kind_of(node: Node | None) -> str | None:
    return node.kind if node is not None else None


def _stamp_of(node: Node | None) -> Hashable:
    return (node.kind, node.stamp) if node is not None else None
