"""What a call changed can be taken back, and nothing else: memory and folder agree with a fold over a plain list."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filesystems.conftest import MakeFiles

from demiurge.errors import Conflict, UsageError
from demiurge.filesystems import FolderFilesystem, InMemoryFilesystem, Limits
from demiurge.filesystems.files import TreeFilesystem
from demiurge.filesystems.memory import MemoryTree
from demiurge.filesystems.spool import Spool
from demiurge.filesystems.tree import Blob, FolderEntry, Node
from demiurge.tools.errors import ToolUserError
from demiurge.tools.execution.scope import CallScope, ScopeState, Transaction, entered
from demiurge.values.clock import SystemClock

pytestmark = pytest.mark.usefixtures("unsynced")

State: TypeAlias = dict[str, str | None]  # None is a folder
ABSENT = object()


def tree(files: TreeFilesystem, path: str = "") -> State:
    """All that is there."""
    found: State = {}
    for entry in files.list(path):
        found[entry.path] = None if entry.kind == "dir" else files.read(entry.path).text
        if entry.kind == "dir":
            found.update(tree(files, entry.path))
    return found


def parents(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:end]) for end in range(1, len(names))]


class Model:
    """Every change is a line in one list, with its owner; the state is what the list adds up to. Taking back is
    striking lines out."""

    def __init__(self) -> None:
        self.lines: list[tuple[CallScope | None, str, Any]] = []
        self.seen: set[str] = set()

    def state(self) -> State:
        whole = {path: value for _, path, value in self.lines}
        return {path: value for path, value in whole.items() if value is not ABSENT}

    def assign(self, owner: CallScope | None, path: str, value: Any) -> None:
        self.seen.add(path)
        if value is not None:
            self.lines += [(owner, other, ABSENT) for other in self.seen if other.startswith(f"{path}/")]
        if value is not ABSENT:
            self.lines += [(owner, folder, None) for folder in parents(path)]
            self.seen.update(parents(path))
        self.lines.append((owner, path, value))

    def apply(self, owner: CallScope | None, action: str, path: str, text: str) -> None:
        """Raises ToolUserError where a filesystem has to."""
        state = self.state()
        if path not in state and action in ("delete", "remove", "edit"):
            raise ToolUserError("not there")
        is_folder = path in state and state[path] is None
        old = state.get(path) or ""
        blocked = any(state.get(folder, None) is not None for folder in parents(path))
        match action:
            case "mkdir" if not blocked and (is_folder or path not in state):
                self.assign(owner, path, None)
            case "write" if not blocked and not is_folder:
                self.assign(owner, path, text)
            case "append" if not blocked and not is_folder:
                self.assign(owner, path, old + text)
            case "create" if not blocked and path not in state:
                self.assign(owner, path, text)
            case "edit" if not is_folder and old.count("x") == 1:
                self.assign(owner, path, old.replace("x", "yy"))
            case "delete":
                self.assign(owner, path, ABSENT)
            case "remove" if not any(other.startswith(f"{path}/") for other in state):
                self.assign(owner, path, ABSENT)
            case _:
                raise ToolUserError("can't be")

    def restore(self, owner: CallScope | None, saved: State) -> None:
        state = self.state()
        for path in sorted(state, reverse=True):
            if path not in saved or (saved[path] is None) != (state[path] is None):
                self.assign(owner, path, ABSENT)
        for path, value in sorted(saved.items()):
            if path not in self.state() or self.state()[path] != value:
                self.assign(owner, path, value)

    def commit(self, scope: CallScope, heir: CallScope | None) -> None:
        self.lines = [(heir if owner is scope else owner, path, value) for owner, path, value in self.lines]

    def roll_back(self, scope: CallScope) -> None:
        self.lines = [line for line in self.lines if line[0] is None or not line[0].within(scope)]


def act(files: TreeFilesystem, action: str, path: str, text: str) -> None:
    actions: dict[str, Callable[[], object]] = {
        "mkdir": lambda: files.mkdir(path),
        "write": lambda: files.write(path, text),
        "append": lambda: files.write(path, text, mode="append"),
        "create": lambda: files.write(path, text, mode="create"),
        "edit": lambda: files.edit(path, "x", "yy"),
        "delete": lambda: files.delete(path, recursive=True),
        "remove": lambda: files.delete(path),
    }
    actions[action]()


ACTIONS = ["mkdir", "write", "append", "create", "edit", "delete", "remove"]
PATHS = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)
CHANGES = st.tuples(st.sampled_from(ACTIONS), PATHS, st.sampled_from(["", "x", "2\n"]), st.integers(0, 4))
SCOPES = st.tuples(st.sampled_from(["begin", "commit", "roll_back"]), st.integers(0, 3))
MOMENTS = st.tuples(st.sampled_from(["snapshot", "restore"]), st.integers(0, 1))
NOBODY = 9
OPENED = [("begin", NOBODY), ("begin", 0), ("begin", NOBODY), ("begin", 1)]
"""Scope 1 is inside 0, 3 is inside 1, 2 is alone; the first change of number 4 is outside of all."""


class Run:
    """The same steps on a model, a tree in memory and a folder."""

    def __init__(self, folder: Path) -> None:
        self.model = Model()
        self.both: list[TreeFilesystem] = [InMemoryFilesystem(), FolderFilesystem(folder, limits=Limits(undo_bytes=2))]
        self.scopes: list[tuple[CallScope, list[Transaction]]] = []
        self.moments: list[tuple[State, list[Any]]] = []

    def scope(self, number: int) -> CallScope | None:
        return self.scopes[number][0] if number < len(self.scopes) else None

    def step(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("begin", number):
                scope = CallScope(self.scope(number))
                self.scopes.append((scope, [files.begin(scope) for files in self.both]))
            case ("commit" | "roll_back" as how, number) if number < len(self.scopes):
                self.end(number, how)
            case ("snapshot", _):
                self.moments.append((self.model.state(), [files.snapshot() for files in self.both]))
            case ("restore", number) if number < len(self.moments):
                state, snapshots = self.moments[number]
                self.model.restore(None, state)
                for files, snapshot in zip(self.both, snapshots, strict=True):
                    files.restore(snapshot)
            case (action, path, text, number):
                self.change(action, path, text, self.scope(number))

    def end(self, number: int, how: str) -> None:
        scope, transactions = self.scopes[number]
        if scope.state is not ScopeState.OPEN or is_rolled_back(scope):
            return
        scope.state = ScopeState.COMMITTED if how == "commit" else ScopeState.ROLLED_BACK
        for transaction in transactions:
            getattr(transaction, how)()
        if how == "commit":
            self.model.commit(scope, nearest(scope.parent))
        else:
            self.model.roll_back(scope)

    def change(self, action: str, path: str, text: str, scope: CallScope | None) -> None:
        said = set()
        for files in self.both:
            with entered(scope) if scope is not None else nullcontext():
                said.add(outcome(lambda files=files: act(files, action, path, text)))  # type: ignore[misc]
        expected = Conflict
        if not is_rolled_back(scope):
            expected = outcome(lambda: self.model.apply(nearest(scope), action, path, text))
        elif said == {ToolUserError}:
            return
        assert said == {expected}, (action, path)


def is_rolled_back(scope: CallScope | None) -> bool:
    while scope is not None:
        if scope.state is ScopeState.ROLLED_BACK:
            return True
        scope = scope.parent
    return False


def nearest(scope: CallScope | None) -> CallScope | None:
    while scope is not None and scope.state is not ScopeState.OPEN:
        scope = scope.parent
    return scope


def begin_call(files: TreeFilesystem, parent: CallScope | None = None) -> tuple[CallScope, Transaction]:
    scope = CallScope(parent)
    return scope, files.begin(scope)


def outcome(work: Callable[[], object]) -> Any:
    try:
        work()
    except (ToolUserError, Conflict) as error:
        return type(error)
    return None


@settings(max_examples=200, deadline=None)
@given(st.lists(CHANGES | CHANGES | CHANGES | SCOPES | MOMENTS, max_size=30))
def test_memory_and_folder_do_what_a_list_of_changes_adds_up_to(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        for step in [*OPENED, *steps]:
            run.step(step)
            state = run.model.state()
            assert [tree(files) for files in run.both] == [state, state], step


def test_a_rollback_keeps_the_later_changes_of_another_call(files: TreeFilesystem) -> None:
    files.write("shared", "0")
    (first, undo), (second, keep) = begin_call(files), begin_call(files)
    with entered(first):
        files.write("shared", "1")
        files.write("first/a", "1")
        files.delete("shared")
    with entered(second):
        files.write("shared", "2")
        files.write("first/b", "2")
    undo.roll_back()
    assert tree(files) == {"shared": "2", "first": None, "first/b": "2"}
    keep.roll_back()
    assert tree(files) == {"shared": "0"}


class Pressed(MemoryTree):
    """Ctrl-C comes at the change with this number."""

    def __init__(self) -> None:
        super().__init__()
        self.left = -1

    def put(self, path: str, blob: Blob) -> None:
        self._press()
        super().put(path, blob)

    def remove(self, path: str) -> None:
        self._press()
        super().remove(path)

    def _press(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_rollback_that_was_interrupted_can_be_repeated(at: int) -> None:
    pressed = Pressed()
    files = TreeFilesystem(pressed, Spool(None), Limits(), SystemClock())
    files.write("shared", "0")
    files.write("gone", "0")
    (first, undo), (second, keep) = begin_call(files), begin_call(files)
    with entered(second):
        files.write("others", "2")
    with entered(first):
        files.write("shared", "1")
        files.write("others", "1")
        files.write("folder/a", "1")
        files.delete("gone")
    pressed.left = at
    with pytest.raises(KeyboardInterrupt):
        undo.roll_back()
    undo.roll_back()
    assert tree(files) == {"shared": "0", "gone": "0", "others": "2"}
    keep.roll_back()
    assert tree(files) == {"shared": "0", "gone": "0"}


def test_a_committed_inner_call_is_rolled_back_with_its_outer_call(files: TreeFilesystem) -> None:
    outer, undo = begin_call(files)
    inner, keep = begin_call(files, outer)
    with entered(inner):
        files.write("a", "1")
    inner.state = ScopeState.COMMITTED
    keep.commit()
    with entered(inner):  # what is left of it writes for the call around it
        files.write("b", "1")
    undo.roll_back()
    assert tree(files) == {}


def test_a_call_that_was_taken_back_changes_nothing_more(files: TreeFilesystem) -> None:
    scope, undo = begin_call(files)
    scope.state = ScopeState.ROLLED_BACK
    undo.roll_back()
    with entered(scope), pytest.raises(Conflict, match="call is over"):
        files.write("a/b", "1")
    assert tree(files) == {}


def test_a_scope_that_was_not_begun_here_can_not_be_taken_back_here(files: TreeFilesystem) -> None:
    with entered(CallScope()):
        files.write("a", "1")
    undo = begin_call(files)[1]
    undo.roll_back()
    assert tree(files) == {"a": "1"}


def test_a_folder_that_a_call_asked_for_is_its_own_too(files: TreeFilesystem) -> None:
    (first, undo), (second, keep) = begin_call(files), begin_call(files)
    with entered(first):
        files.mkdir("d")
    with entered(second):
        files.mkdir("d")
    undo.roll_back()
    assert tree(files) == {"d": None}
    keep.commit()
    assert tree(files) == {"d": None}


def test_a_snapshot_can_be_restored_more_than_once(files: TreeFilesystem) -> None:
    files.write("a/b", "0")
    moment = files.snapshot()
    for text in ("1", "2"):
        files.write("a/b", text)
        files.write("c", text)
        files.restore(moment)
        assert tree(files) == {"a": None, "a/b": "0"}
    files.delete("a", recursive=True)
    files.write("a", "a file now")
    files.restore(moment)
    assert tree(files) == {"a": None, "a/b": "0"}


def test_a_snapshot_of_something_else_is_refused(files: TreeFilesystem) -> None:
    for other in (InMemoryFilesystem().snapshot(), None):
        with pytest.raises(UsageError):
            files.restore(other)  # type: ignore[arg-type]


def test_changes_that_were_rolled_back_do_not_count_for_the_limits(make_files: MakeFiles) -> None:
    files = make_files(limits=Limits(entries=3, total_bytes=10))
    for _ in range(3):
        scope, undo = begin_call(files)
        with entered(scope):
            files.write("a/b", "x" * 10)
            files.write("a/c", "")
            files.delete("a/b")
        undo.roll_back()
    files.write("a/b", "x" * 10)


class Counted(MemoryTree):
    """How often a tree was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def node(self, path: str) -> Node | None:
        self.asked += 1
        return super().node(path)

    def names(self, path: str) -> Sequence[FolderEntry]:
        self.asked += 1
        return super().names(path)


def count_requests(entries: int) -> int:
    """What a call with three changes asks of a tree with so many entries, its beginning and its end included."""
    counted = Counted()
    files = TreeFilesystem(counted, Spool(None), Limits(), SystemClock())
    for number in range(entries):
        files.write(f"f{number}", "")
    counted.asked = 0
    scope, undo = begin_call(files)
    with entered(scope):
        files.write("f1", "1")
        files.write("new/a", "1")
        files.delete("f2")
    undo.roll_back()
    return counted.asked


def test_the_cost_of_a_call_does_not_grow_with_the_tree() -> None:
    assert count_requests(10) == count_requests(1_000)


def test_a_call_that_was_kept_from_its_end_costs_the_later_ones_nothing() -> None:
    """Its scope is committed, but what broke in (no stack left, Ctrl-C) came before the files heard of it."""

    def asked_after(end: Callable[[CallScope, Transaction], None]) -> int:
        counted = Counted()
        files = TreeFilesystem(counted, Spool(None), Limits(), SystemClock())
        scope, keep = begin_call(files)
        with entered(scope):
            files.write("a", "1")
        end(scope, keep)
        begin_call(files)[1].commit()
        counted.asked = 0
        files.write("a", "2")
        return counted.asked

    def kept_from_its_end(scope: CallScope, keep: Transaction) -> None:
        scope.state = ScopeState.COMMITTED

    assert asked_after(kept_from_its_end) == asked_after(lambda scope, keep: keep.commit())
