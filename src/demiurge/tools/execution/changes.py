"""What one call changes in its session and its resources: kept as a whole, or taken back as a whole.

Things that can tell calls apart take back just this call's changes; others go back to how they were before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from demiurge.tools.execution.cause import log_cause
from demiurge.tools.execution.interrupt import is_from_outside
from demiurge.tools.execution.scope import CallScope, ScopeState, Transactional, innermost_scope

__all__ = ["Changes", "can_go_back"]


def can_go_back(thing: object) -> bool:
    """Is it Transactional or Snapshotable?"""
    return isinstance(thing, Transactional) or (hasattr(thing, "snapshot") and hasattr(thing, "restore"))


class Changes:
    """From now to `commit` or `roll_back`, whichever comes first; what is asked for after that is ignored."""

    def __init__(self) -> None:
        self.scope = CallScope(innermost_scope())
        self._ways_on: list[Callable[[], object]] = []
        self._ways_back: list[Callable[[], object]] = []

    def watch(self, things: Iterable[Any]) -> None:
        """The call's changes to these are its own from here on. Raises what they raise."""
        for thing in things:
            if isinstance(thing, Transactional):
                transaction = thing.begin(self.scope)
                self._ways_on.append(transaction.commit)
                self._ways_back.append(transaction.roll_back)
            else:
                self._ways_back.append(partial(thing.restore, thing.snapshot()))

    def commit(self) -> None:
        if self.scope.state is ScopeState.OPEN:
            self.scope.state = ScopeState.COMMITTED
            self._each(self._ways_on)

    def roll_back(self) -> bool:
        """Takes back all that can be, last first; False when something could not be."""
        if self.scope.state is not ScopeState.OPEN:
            return True
        self.scope.state = ScopeState.ROLLED_BACK
        return self._each(reversed(self._ways_back))

    def _each(self, steps: Iterable[Callable[[], object]]) -> bool:
        """All of them, whatever each does. One that is interrupted is done again, and the interrupt goes up when the
        last is done."""
        sound = True
        outside: BaseException | None = None
        for step in steps:
            error = _error_of(step)
            if error is not None and is_from_outside(error):
                outside, error = error, _error_of(step)
            if error is not None:
                sound = False
                log_cause("session", error)
        if outside is not None:
            raise outside
        return sound


def _error_of(step: Callable[[], object]) -> BaseException | None:
    try:
        step()
    except BaseException as error:  # noqa: BLE001  (the other steps are due, whatever this one does)
        return error
    return None
