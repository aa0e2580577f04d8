"""The changes that one call makes in its session and its resources: all are committed, or all are rolled back.

A Transactional target rolls back this call's changes alone; a Snapshotable target goes back to its state before the
call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from demiurge.tools.execution.cause import log_cause
from demiurge.tools.execution.interrupt import is_from_outside
from demiurge.tools.execution.scope import CallScope, ScopeState, Transactional, innermost_scope

__all__ = ["Changes", "supports_rollback"]


def supports_rollback(target: object) -> bool:
    """Returns whether `target` is Transactional or Snapshotable."""
    return isinstance(target, Transactional) or (hasattr(target, "snapshot") and hasattr(target, "restore"))


class Changes:
    """The changes made from now until `commit` or `roll_back`, whichever comes first; a later call of either does
    nothing."""

    def __init__(self) -> None:
        self.scope = CallScope(innermost_scope())
        self._commits: list[Callable[[], object]] = []
        self._rollbacks: list[Callable[[], object]] = []

    def watch(self, targets: Iterable[Any]) -> None:
        """Begins a transaction on each target, or takes its snapshot. Raises what the targets raise."""
        for target in targets:
            if isinstance(target, Transactional):
                transaction = target.begin(self.scope)
                self._commits.append(transaction.commit)
                self._rollbacks.append(transaction.roll_back)
            else:
                self._rollbacks.append(partial(target.restore, target.snapshot()))

    def commit(self) -> None:
        """Keeps the changes of all targets."""
        if self.scope.state is ScopeState.OPEN:
            self.scope.state = ScopeState.COMMITTED
            self._each(self._commits)

    def roll_back(self) -> bool:
        """Rolls back the targets, last first. Returns False if one of them raised."""
        if self.scope.state is not ScopeState.OPEN:
            return True
        self.scope.state = ScopeState.ROLLED_BACK
        return self._each(reversed(self._rollbacks))

    def _each(self, steps: Iterable[Callable[[], object]]) -> bool:
        """Runs all steps, even if one raises. A step that is interrupted from outside runs again, and the interrupt
        is raised after the last step. Returns whether no step failed."""
        all_done = True
        interrupt: BaseException | None = None
        for step in steps:
            error = _error_of(step)
            if error is not None and is_from_outside(error):
                interrupt, error = error, _error_of(step)
            if error is not None:
                all_done = False
                log_cause("session", error)
        if interrupt is not None:
            raise interrupt
        return all_done


def _error_of(step: Callable[[], object]) -> BaseException | None:
    try:
        step()
    except BaseException as error:  # noqa: BLE001  (the other steps have to run even if this one fails)
        return error
    return None
