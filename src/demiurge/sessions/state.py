"""The state of a session: its slices, and the only way to change them.

Invariant: under the lock, the slices are always the result of complete changes. If anything in a change raises, the
state before is restored; a change made during another (a reducer that broadcasts) is part of it. While a call is
open, each change is recorded with the call in which it was made.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from demiurge.errors import UsageError
from demiurge.sessions.changes import Fold, SessionChange, SliceHistories, Slices
from demiurge.sessions.history import EMPTY, History
from demiurge.sessions.policy import SlicePolicy
from demiurge.sessions.reducers import Registration, SessionReducerContext, append_all
from demiurge.sessions.undo import CallBegan, UndoLog
from demiurge.tools.execution.scope import CallScope, current_scope

__all__ = ["SessionState", "SessionTransaction"]

log = logging.getLogger("demiurge.sessions")

Observer = Callable[[tuple[Any, ...], tuple[Any, ...]], object]


class SessionState:
    """`context`: the context that reducers get. Safe to use from several threads, and from reducers and observers."""

    def __init__(self, context: SessionReducerContext, logs: frozenset[type[Any]]) -> None:
        self.lock = threading.RLock()
        self._context = context
        self._slices = Slices({}, logs)
        self._undo = UndoLog(self._slices)
        self._policies: dict[type[Any], SlicePolicy] = dict.fromkeys(logs, SlicePolicy.LOG)
        self._registrations: dict[type[Any], tuple[Registration, ...]] = {}
        self._observers: dict[type[Any], tuple[Observer, ...]] = {}
        self._is_changing = False

    @property
    def held(self) -> SliceHistories:
        with self.lock:
            return self._slices.held

    @property
    def logs(self) -> frozenset[type[Any]]:
        return self._slices.logs

    def history(self, slice_type: type[Any]) -> History[Any]:
        with self.lock:
            return self._slices.get(slice_type)

    def copy_to(self, other: SessionState) -> None:
        """Gives `other`, which is new, the same slices, reducers and policies."""
        with self.lock:
            other._slices.held, other._slices.logs = self._slices.held, self._slices.logs
            other._policies = dict(self._policies)
            other._registrations = dict(self._registrations)

    def register(self, event_type: type[Any], registration: Registration, policy: SlicePolicy | None) -> None:
        slice_type = registration.slice_type
        with self.lock:
            if policy is not None and self._policies.setdefault(slice_type, policy) is not policy:
                raise UsageError(f"The slice {slice_type.__name__} already has the other policy.")
            if policy is SlicePolicy.LOG:
                self._slices.logs |= {slice_type}
            known = self._registrations.get(event_type, ())
            if registration not in known:
                self._registrations[event_type] = (*known, registration)

    def fold(self, *events: object) -> None:
        """Folds all events or none. Raises what a reducer raises."""
        with self.lock:
            self.change(*(Fold(event, self._registered(type(event))) for event in events))

    def change(self, *changes: SessionChange) -> None:
        """Makes all changes or none. Raises what they raise, Conflict (`call_over`) in code of a call that was
        rolled back, and afterwards what observers raise."""
        with self.lock:
            before = self._slices.held
            if self._is_changing:
                self._apply(changes, before)
                return
            scope = current_scope()
            self._is_changing = True
            try:
                self._apply(changes, before)
            finally:
                self._is_changing = False
            for change in changes:
                self._undo.note(change, scope)
            errors = self._notify(before)
            if errors:
                raise errors[0] if len(errors) == 1 else ExceptionGroup("observers failed", errors)

    def begin(self, scope: CallScope) -> SessionTransaction:
        with self.lock:
            self._check_no_change()
            began = CallBegan(scope, self._slices.held)
            transaction = SessionTransaction(self, self._undo, began)
            self._undo.begin(began)  # last, so that a call is only open once its transaction exists
            return transaction

    def roll_back(self, began: CallBegan) -> None:
        with self.lock:
            self._check_no_change()
            before = self._slices.held
            self._is_changing = self._slices.logs_are_closed = True
            try:
                self._undo.roll_back(began, self._context)
            except BaseException:
                self._slices.held = before
                raise
            finally:
                self._is_changing = self._slices.logs_are_closed = False
            for error in self._notify(before):
                log.warning("an observer of a roll-back failed: %s", type(error).__name__)

    def observe(self, slice_type: type[Any], observer: Observer) -> None:
        with self.lock:
            self._observers[slice_type] = (*self._observers.get(slice_type, ()), observer)

    def unobserve(self, slice_type: type[Any], observer: Observer) -> bool:
        with self.lock:
            observers = list(self._observers.get(slice_type, ()))
            if observer not in observers:
                return False
            observers.remove(observer)
            self._observers[slice_type] = tuple(observers)
            return True

    def _check_no_change(self) -> None:
        if self._is_changing:
            raise UsageError("A call can't begin or be rolled back in a reducer.")

    def _registered(self, event_type: type[Any]) -> tuple[Registration, ...]:
        return self._registrations.get(event_type) or (Registration(event_type, append_all),)

    def _apply(self, changes: tuple[SessionChange, ...], before: SliceHistories) -> None:
        try:
            for change in changes:
                change.apply(self._slices, self._context)
        except BaseException:
            self._slices.held = before
            raise

    def _notify(self, before: SliceHistories) -> list[Exception]:
        """Notifies the observers of each changed slice. Returns what they raised."""
        now = self._slices.held
        errors: list[Exception] = []
        for kind, observers in tuple(self._observers.items()):
            old, new = before.get(kind, EMPTY), now.get(kind, EMPTY)
            for observer in observers if old is not new else ():
                try:
                    observer(old.all(), new.all())
                except Exception as error:  # noqa: BLE001  (the other observers have to be notified too)
                    errors.append(error)
        return errors


class SessionTransaction:
    """The changes of one call. Call `commit` or `roll_back`, once; a second call raises UsageError
    (`transaction_over`). Whoever opened the scope sets the scope's state before, so that code of the call that still
    runs can change nothing any more."""

    def __init__(self, state: SessionState, undo: UndoLog, began: CallBegan) -> None:
        self._state = state
        self._undo = undo
        self._began: CallBegan | None = began
        self._events: tuple[object, ...] = ()
        self._has_direct_changes = False

    @property
    def events(self) -> tuple[object, ...]:
        """The events that were broadcast in this call and in calls inside it, and that changed slices other than
        logs: in order, without those that were rolled back. Empty after a roll-back. Direct changes (`seed`,
        `clear`, `restore`, `reset`) are not events."""
        with self._state.lock:
            return self._events if self._began is None else self._undo.events(self._began)

    @property
    def has_direct_changes(self) -> bool:
        """True if this call made a change that is not in `events`; False after a roll-back."""
        with self._state.lock:
            began = self._began
            return self._has_direct_changes if began is None else self._undo.has_direct_changes(began)

    def commit(self) -> None:
        with self._state.lock:
            began = self._require_open()
            self._events = self._undo.events(began)
            self._has_direct_changes = self._undo.has_direct_changes(began)
            self._undo.close(began)
            self._began = None

    def roll_back(self) -> None:
        """Rolls the changes back. Later changes of others are made again; a change that fails without those that
        were rolled back is dropped, and logged."""
        with self._state.lock:
            self._state.roll_back(self._require_open())
            self._began = None

    def _require_open(self) -> CallBegan:
        if self._began is None:
            raise UsageError("This transaction is over.", code="transaction_over")
        return self._began
