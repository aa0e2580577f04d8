"""What one call changed in a session, and how to take back just that.

While calls are open the changes since the oldest of them began are kept, in order, each with the scope it was made in.
Taking one call back makes the others' changes again on the state in which it began. With no open call nothing is kept.

    began A ── change ── began B ── change ── change ── …        each is linked to the next

The links go forward only, and a transaction that is over lets go of its own: so nobody holds what is before the oldest
open call.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from demiurge.sessions.changes import Fold, Held, SessionChange, Slices
from demiurge.sessions.reducers import SessionReducerContext
from demiurge.tools.execution.scope import CallScope, ScopeState

__all__ = ["CallBegan", "UndoLog"]

log = logging.getLogger("demiurge.sessions")


@dataclass(eq=False, repr=False, slots=True)
class ChangeDone:
    """A change that was made. `scope`: None when it is nobody's."""

    change: SessionChange
    scope: CallScope | None
    next: ChangeDone | CallBegan | None = None


@dataclass(eq=False, repr=False, slots=True)
class CallBegan:
    """A call began; `held` is the state in which it did, None when the call is over."""

    scope: CallScope
    held: Held | None
    next: ChangeDone | CallBegan | None = None

    @property
    def is_over(self) -> bool:
        """Nobody will take it back; also when what broke in (no stack left, Ctrl-C) kept it from being closed."""
        return self.held is None or self.scope.state is ScopeState.COMMITTED


class UndoLog:
    """The changes since the oldest open call began, and nothing when none is open. Used under its session's lock."""

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._oldest: CallBegan | None = None
        self._newest: ChangeDone | CallBegan | None = None

    def begin(self, began: CallBegan) -> None:
        self._link(began)
        if self._oldest is None:
            self._oldest = began

    def note(self, change: SessionChange, scope: CallScope | None) -> None:
        """`change` was made. Kept only if a call is open that it might have to be taken back with, or made again."""
        if self._oldest is not None and change.concerns_state(self._slices):
            self._link(ChangeDone(change, scope))

    def events(self, began: CallBegan) -> tuple[object, ...]:
        """What was broadcast in this call and wanted by slices that are no logs."""
        logs = self._slices.logs
        return tuple(
            change.event
            for change in _within(began)
            if isinstance(change, Fold) and any(entry.slice_type not in logs for entry in change.registrations)
        )

    def has_direct_changes(self, began: CallBegan) -> bool:
        """Did this call change slices that are no logs otherwise than by events?"""
        return any(not isinstance(change, Fold) for change in _within(began))

    def close(self, began: CallBegan) -> None:
        """The call is over; what only it needed goes."""
        began.held = None
        while self._oldest is not None and self._oldest.is_over:
            self._oldest = next((later for later in _after(self._oldest) if isinstance(later, CallBegan)), None)
        if self._oldest is None:
            self._newest = None

    def roll_back(self, began: CallBegan, context: SessionReducerContext) -> None:
        """Leaves the slices as if the changes within this call's scope had not been made."""
        slices = self._slices
        now = slices.held
        assert began.held is not None
        slices.held = slices.with_logs_of(now, began.held)
        kept: list[ChangeDone | CallBegan] = []
        bases: list[tuple[CallBegan, Held]] = []
        for entry in _after(began):
            if isinstance(entry, CallBegan):
                if entry.held is not None:
                    bases.append((entry, slices.held))
                    kept.append(entry)
            elif not (entry.scope is not None and entry.scope.within(began.scope)) and _again(entry, slices, context):
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
    """The changes made in this call, and in those inside it."""
    for done in _after(began):
        if isinstance(done, ChangeDone) and done.scope is not None and done.scope.within(began.scope):
            yield done.change


def _again(done: ChangeDone, slices: Slices, context: SessionReducerContext) -> bool:
    before = slices.held
    try:
        done.change.apply(slices, context)
    except Exception as error:  # noqa: BLE001  (others' failure to stand alone must not keep this call from going)
        slices.held = before
        log.warning("a change was dropped with a call that was taken back: %s", type(error).__name__)
        return False
    return True
