"""What can be done to the slices of a session, as data: so it can be done again without what was taken back.

Every change replaces the mapping from types to histories; the old mapping stays as it was, so keeping a state costs
nothing and going back to one is an assignment. While a call is taken back, changes are made again on top of an
earlier state; slices that are logs are not concerned, and what is done to them then has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from demiurge.sessions.errors import ReducerError
from demiurge.sessions.history import EMPTY, History
from demiurge.sessions.reducers import Registration, SessionReducerContext

__all__ = ["Clear", "Fold", "Held", "Replace", "Seed", "SessionChange", "Slices"]

Held = Mapping[type[Any], History[Any]]
"""The slices at one moment. Never changed, only replaced."""


class Slices:
    """The slices now. `logs`: the types whose slices survive a roll-back."""

    __slots__ = ("held", "logs", "logs_are_closed")

    def __init__(self, held: Held, logs: frozenset[type[Any]]) -> None:
        self.held = held
        self.logs = logs
        self.logs_are_closed = False

    def get(self, slice_type: type[Any]) -> History[Any]:
        return self.held.get(slice_type, EMPTY)

    def put(self, slice_type: type[Any], history: History[Any]) -> None:
        if not (self.logs_are_closed and slice_type in self.logs):
            self.held = {**self.held, slice_type: history}

    def with_logs_of(self, now: Held, then: Held) -> Held:
        """The logs as they are in `now`, everything else as in `then`."""
        kept = {kind: history for kind, history in now.items() if kind in self.logs}
        return {**{kind: history for kind, history in then.items() if kind not in self.logs}, **kept}


class SessionChange(Protocol):
    """One change. `apply` may raise; whoever calls it puts back the state before."""

    def apply(self, slices: Slices, context: SessionReducerContext) -> None: ...

    def concerns_state(self, slices: Slices) -> bool:
        """Could a roll-back have to take it back?"""


@dataclass(frozen=True, slots=True)
class Fold:
    """An event and the reducers that its type had when it came, all of which take it or none."""

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
    slice_type: type[Any]
    history: History[Any]

    def apply(self, slices: Slices, context: SessionReducerContext) -> None:
        slices.put(self.slice_type, self.history)

    def concerns_state(self, slices: Slices) -> bool:
        return self.slice_type not in slices.logs


@dataclass(frozen=True, slots=True)
class Clear:
    """Takes out the values for which `predicate` says so."""

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
    """All slices at once; the logs too, unless `keep_logs`."""

    held: Held
    keep_logs: bool

    def apply(self, slices: Slices, context: SessionReducerContext) -> None:
        keep_logs = self.keep_logs or slices.logs_are_closed
        slices.held = slices.with_logs_of(slices.held, self.held) if keep_logs else self.held

    def concerns_state(self, slices: Slices) -> bool:
        return True
