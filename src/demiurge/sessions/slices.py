"""One slice of a session: the values of one type, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from demiurge.errors import InvalidValue, UsageError
from demiurge.sessions.changes import Clear, Seed
from demiurge.sessions.history import EMPTY, History
from demiurge.sessions.policy import SlicePolicy
from demiurge.sessions.reducers import HistoryReducer, Registration, SessionReducer, takes_an_event
from demiurge.sessions.state import SessionState
from demiurge.values.article import with_article

__all__ = ["SliceAccessor"]

T = TypeVar("T")


class SliceAccessor(Generic[T]):
    """`session[T]`. Values are of type T or of a subclass, else InvalidValue. What changes a slice raises Conflict
    (`call_over`) in what is left of a call that was taken back."""

    __slots__ = ("_state", "_type")

    def __init__(self, state: SessionState, slice_type: type[T]) -> None:
        self._state = state
        self._type = slice_type

    def __repr__(self) -> str:
        return f"<slice {self._type.__name__}: {len(self.all())} values>"

    def all(self) -> tuple[T, ...]:
        """The values, oldest first."""
        return self._state.history(self._type).all()

    def latest(self) -> T | None:
        """The newest value; None if there is none."""
        return self._state.history(self._type).latest()

    def where(self, predicate: Callable[[T], bool]) -> tuple[T, ...]:
        """Those for which `predicate` is true, oldest first."""
        return tuple(value for value in self.all() if predicate(value))

    def seed(self, values: T | Iterable[T]) -> None:
        """This value, or these, in the place of all that were there."""
        several = isinstance(values, Iterable) and not isinstance(values, self._type)
        given: tuple[Any, ...] = tuple(values) if several else (values,)  # type: ignore[arg-type]
        for value in given:
            if not isinstance(value, self._type):
                raise InvalidValue(f"The slice {self._type.__name__} can't hold {with_article(type(value).__name__)}.")
        self._state.change(Seed(self._type, History(given)))

    def clear(self, predicate: Callable[[T], bool] | None = None) -> None:
        """Takes out all values, or those for which `predicate` is true."""
        change = Seed(self._type, EMPTY) if predicate is None else Clear(self._type, predicate)
        self._state.change(change)

    def append(self, value: T) -> None:
        """As `broadcast(value)`, for a value of exactly this type: its reducers decide what becomes of it."""
        if type(value) is not self._type:
            wanted, given = with_article(self._type.__name__), with_article(type(value).__name__)
            raise InvalidValue(f"Only {wanted} can be appended here, not {given}.")
        self._state.fold(value)

    def register(self, event_type: type[Any], reducer: SessionReducer, *, policy: SlicePolicy | None = None) -> None:
        """From now on `reducer` folds events of exactly `event_type` into this slice, once, however often it is
        registered. `policy`: of the slice; None leaves it as it is, STATE at first. Raises UsageError for what is no
        reducer or no policy, for a built-in one whose events could not be values of this slice, and for a second
        policy that is not the first."""
        if not isinstance(event_type, type) or not callable(reducer):
            raise UsageError("A reducer is registered as a type of event and a function.")
        if not takes_an_event(reducer):
            raise UsageError("A reducer is a function of (slice_values, event, *, context).")
        if policy is not None and not isinstance(policy, SlicePolicy):
            raise UsageError("The policy of a slice is SlicePolicy.STATE or SlicePolicy.LOG.")
        if isinstance(reducer, HistoryReducer) and not issubclass(event_type, self._type):
            raise UsageError(
                f"A built-in reducer would put {with_article(event_type.__name__)} into the slice"
                f" {self._type.__name__}: write one that makes the slice's values of it."
            )
        self._state.register(event_type, Registration(self._type, reducer), policy)
