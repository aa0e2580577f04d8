"""A call's changes to several things: kept together or taken back together, whatever one of them does."""

from __future__ import annotations

import signal

import pytest

from demiurge.tools.execution.changes import Changes, supports_rollback
from demiurge.tools.execution.scope import CallScope, ScopeState, Transaction, Transactional


class Ledgered(Transactional):
    """Writes down what it is asked; may fail at one of it."""

    def __init__(self, log: list[str], name: str, fails_at: str = "") -> None:
        self.log, self.name, self.fails_at = log, name, fails_at

    def begin(self, scope: CallScope) -> Transaction:
        self._note("begin")
        return self

    def commit(self) -> None:
        self._note("commit")

    def roll_back(self) -> None:
        self._note("roll_back")

    def _note(self, what: str) -> None:
        if what == self.fails_at:
            raise OSError(what)
        self.log.append(f"{self.name}.{what}")


class Saved:
    def __init__(self) -> None:
        self.value = 1

    def snapshot(self) -> int:
        return self.value

    def restore(self, snapshot: int) -> None:
        self.value = snapshot


class Connection:
    """Somebody's database connection: its `begin` means something else."""

    def begin(self, nested: bool = False) -> None:
        raise AssertionError("it is none of ours")


def test_supports_rollback_tells_which_things_can_be_rolled_back() -> None:
    assert supports_rollback(Ledgered([], "a"))
    assert supports_rollback(Saved())
    assert not supports_rollback(Connection())
    assert not supports_rollback(None)


def test_kept_or_taken_back_as_a_whole_and_once() -> None:
    log: list[str] = []
    kept, dropped = Changes(), Changes()
    for changes in (kept, dropped):
        changes.watch([Ledgered(log, "a"), Ledgered(log, "b")])
    kept.commit()
    kept.roll_back()
    assert kept.scope.state is ScopeState.COMMITTED
    assert dropped.roll_back()
    dropped.commit()
    assert dropped.scope.state is ScopeState.ROLLED_BACK
    assert log == ["a.begin", "b.begin"] * 2 + ["a.commit", "b.commit", "b.roll_back", "a.roll_back"]


def test_a_failed_rollback_does_not_keep_other_changes_from_being_rolled_back() -> None:
    log: list[str] = []
    saved = Saved()
    changes = Changes()
    changes.watch([Ledgered(log, "a"), Ledgered(log, "b", fails_at="roll_back"), saved])
    saved.value = 2
    assert not changes.roll_back()
    assert log == ["a.begin", "b.begin", "a.roll_back"]
    assert saved.value == 1


class Interrupted(Saved):
    """Ctrl-C comes while it goes back for the first time."""

    presses = 1

    def restore(self, snapshot: int) -> None:
        if self.presses:
            self.presses -= 1
            signal.raise_signal(signal.SIGINT)
        super().restore(snapshot)


def test_a_rollback_step_that_an_interrupt_stopped_is_repeated_before_the_interrupt_is_raised() -> None:
    things = [Interrupted(), Saved(), Interrupted()]
    changes = Changes()
    changes.watch(things)
    for thing in things:
        thing.value = 7
    with pytest.raises(KeyboardInterrupt):
        changes.roll_back()
    assert [thing.value for thing in things] == [1, 1, 1]


def test_a_change_that_can_not_begin_raises_and_the_others_are_rolled_back() -> None:
    log: list[str] = []
    changes = Changes()
    with pytest.raises(OSError, match="begin"):
        changes.watch([Ledgered(log, "a"), Ledgered(log, "b", fails_at="begin")])
    assert changes.roll_back()
    assert log == ["a.begin", "a.roll_back"]
