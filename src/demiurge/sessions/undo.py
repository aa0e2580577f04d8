"""The undo log: what each open call changed in a session, so that one call alone can be rolled back.

While calls are open, the changes since the oldest of them began are kept, in order, each with the scope in which it
was made. Rolling one call back restores the state in which it began and makes the other calls' changes again.
Without an open call nothing is kept.

    began A ── change ── began B ── change ── change ── …        each is linked to the next

The links go forward only, and a finished transaction drops its own. So nothing before the oldest open call is kept
alive.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from demiurge.sessions.changes import Fold, SessionChange, SliceHistories, Slices
from demiurge.sessions.reducers import SessionReducerContext
from demiurge.tools.execution.scope import CallScope, ScopeState

__all__ = ["CallBegan", "UndoLog"]

log = logging.getLogger("demiurge.sessions")


@dataclass(eq=False, repr=False, slots=True)
class ChangeDone:
    """A change that was made. `scope`: None if it was made outside of calls."""

    change: SessionChange
    scope: CallScope | None
    next: ChangeDone | CallBegan | None = None


@dataclass(eq=False, repr=False, slots=True)
class CallBegan:
    """The begin of a call; `held` is the state at that moment, None once the call is over."""

    scope: CallScope
    held: SliceHistories | None
    next: ChangeDone | CallBegan | None = None

    @property
    def is_over(self) -> bool:
        """True if the call cannot be rolled back any more; also if an interruption (no stack left, Ctrl-C) kept it
        from being closed."""
        return self.held is None or self.scope.state is ScopeState.COMMITTED


class UndoLog:
    """The changes since the oldest open call began; empty when none is open. Used under its session's lock."""

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._oldest: CallBegan | None = None
        self._newest: ChangeDone | CallBegan | None = None

    def begin(self, began: CallBegan) -> None:
        self._link(began)
        if self._oldest is None:
            self._oldest = began

    def note(self, change: SessionChange, scope: CallScope | None) -> None:
        """Records `change` if a call is open for which it may have to be rolled back, or made again."""
        if self._oldest is not None and change.concerns_state(self._slices):
            self._link(ChangeDone(change, scope))

    def events(self, began: CallBegan) -> tuple[object, ...]:
        """Returns the events that were broadcast in this call and folded into slices other than logs."""
        logs = self._slices.logs
        return tuple(
            change.event
            for change in _within(began)
            if isinstance(change, Fold) and any(entry.slice_type not in logs for entry in change.registrations)
        )

    def has_direct_changes(self, began: CallBegan) -> bool:
        """Returns whether this call changed slices other than logs without an event."""
        return any(not isinstance(change, Fold) for change in _within(began))

    def close(self, began: CallBegan) -> None:
        """Ends the call and drops what was kept for it alone."""
        began.held = None
        while self._oldest is not None and self._oldest.is_over:
            self._oldest = next((later for later in _after(self._oldest) if isinstance(later, CallBegan)), None)
        if self._oldest is None:
            self._newest = None

    def roll_back(self, began: CallBegan, context: SessionReducerContext) -> None:
        """Restores the slices as if the changes within this call's scope had not been made."""
        slices = self._slices
        now = slices.held
        assert began.held is not None
        slices.held = slices.with_logs_of(now, began.held)
        kept: list[ChangeDone | CallBegan] = []
        bases: list[tuple[CallBegan, SliceHistories]] = []
        for entry in _after(began):
            if isinstance(entry, CallBegan):
                if entry.held is not None:
                    bases.append((entry, slices.held))
                    kept.append(entry)
            elif not (entry.scope is not None and entry.scope.within(began.scope)) and _reapply(entry, slices, context):
                kept.append(entry)
        for later, held in bases:
            later.held = held
        self._newest = began
        for entry in kept:
            self._link(entry)
        self._newest.next = None
        self.close(began)

    def _link(self, entry: ChangeDone | CallBegan) -> None:
        if self._newest is not None:
            self._newest.next = entry
        self._newest = entry


def _after(began: CallBegan) -> Iterator[ChangeDone | CallBegan]:
    entry = began.next
    while entry is not None:
        yield entry
        entry = entry.next


def _within(began: CallBegan) -> Iterator[SessionChange]:
    """Yields the changes made in this call and in calls inside it."""
    for done in _after(began):
        if isinstance(done, ChangeDone) and done.scope is not None and done.scope.within(began.scope):
            yield done.change


def _reapply(done: ChangeDone, slices: Slices, context: SessionReducerContext) -> bool:
    """Makes a change again. Returns False if it raised; then it is dropped."""
    before = slices.held
    try:
        done.change.apply(slices, context)
    except Exception as error:  # noqa: BLE001  (a dependent change that fails must not stop the roll-back)
        slices.held = before
        log.warning("a change was dropped with a call that was rolled back: %s", type(error).__name__)
        return False
    return True
