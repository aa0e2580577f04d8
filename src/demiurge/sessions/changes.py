"""The changes of a session's slices, as data, so that a change can be made again without others that were rolled
back.

Every change replaces the mapping from types to histories. The old mapping is not modified, so keeping a state costs
nothing and restoring one is an assignment. While a call is rolled back, later changes are made again on top of an
earlier state; slices that are logs are left out, and changes of them then have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from demiurge.sessions.errors import ReducerError
from demiurge.sessions.history import EMPTY, History
from demiurge.sessions.reducers import Registration, SessionReducerContext

__all__ = ["Clear", "Fold", "Replace", "Seed", "SessionChange", "SliceHistories", "Slices"]

SliceHistories = Mapping[type[Any], History[Any]]
"""The slices at one moment. It is never modified, only replaced."""


class Slices:
    """The present slices. `logs`: the types whose slices survive a roll-back."""

    __slots__ = ("held", "logs", "logs_are_closed")

    def __init__(self, held: SliceHistories, logs: frozenset[type[Any]]) -> None:
        self.held = held
        self.logs = logs
        self.logs_are_closed = False

    def get(self, slice_type: type[Any]) -> History[Any]:
        return self.held.get(slice_type, EMPTY)

    def put(self, slice_type: type[Any], history: History[Any]) -> None:
        if not (self.logs_are_closed and slice_type in self.logs):
            self.held = {**self.held, slice_type: history}

    def with_logs_of(self, now: SliceHistories, then: SliceHistories) -> SliceHistories:
        """Returns the logs as they are in `now`, and everything else as in `then`."""
        kept = {kind: history for kind, history in now.items() if kind in self.logs}
        return {**{kind: history for kind, history in then.items() if kind not in self.logs}, **kept}


class SessionChange(Protocol):
    """One change. `apply` may raise; its caller then restores the state before."""

    def apply(self, slices: Slices, context: SessionReducerContext) -> None: ...

    def concerns_state(self, slices: Slices) -> bool:
        """Returns whether a roll-back may have to undo the change."""


@dataclass(frozen=True, slots=True)
class Fold:
    """An event, and the reducers that its type had when it came. All of them fold it, or none."""

    event: object
    registrations: tuple[Registration, ...]

    def apply(self, slices: Slices, context: SessionReducerContext) -> None:
        for registration in self.registrations:
            kind = registration.slice_type
            before = slices.get(kind)
            after = registration.fold(before, self.event, context)
            if slices.get(kind) is not before:
                raise ReducerError(
                    f"A reducer of {kind.__name__} changed this slice through the session: return the values instead.",
                    code="reducer_overlap",
                )
            if after is not before:
                slices.put(kind, after)

    def concerns_state(self, slices: Slices) -> bool:
        return any(not entry.is_built_in or entry.slice_type not in slices.logs for entry in self.registrations)


@dataclass(frozen=True, slots=True)
class Seed:
    """Replaces the values of one slice."""

    slice_type: type[Any]
    history: History[Any]

    def apply(self, slices: Slices, context: SessionReducerContext) -> None:
        slices.put(self.slice_type, self.history)

    def concerns_state(self, slices: Slices) -> bool:
        return self.slice_type not in slices.logs


@dataclass(frozen=True, slots=True)
class Clear:
    """Removes the values for which `predicate` is true."""

    slice_type: type[Any]
    predicate: Callable[[Any], bool]

    def apply(self, slices: Slices, context: SessionReducerContext) -> None:
        values = slices.get(self.slice_type).all()
        kept = tuple(value for value in values if not self.predicate(value))
        if len(kept) < len(values):
            slices.put(self.slice_type, History(kept))

    def concerns_state(self, slices: Slices) -> bool:
        return self.slice_type not in slices.logs


@dataclass(frozen=True, slots=True)
class Replace:
    """Replaces all slices at once; the logs too, unless `keep_logs`."""

    held: SliceHistories
    keep_logs: bool

    def apply(self, slices: Slices, context: SessionReducerContext) -> None:
        keep_logs = self.keep_logs or slices.logs_are_closed
        slices.held = slices.with_logs_of(slices.held, self.held) if keep_logs else self.held

    def concerns_state(self, slices: Slices) -> bool:
        return True
