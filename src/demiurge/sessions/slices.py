"""One slice of a session: the values of one type, and the operations on them."""

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
    """The slice `session[T]`. Values are of type T or of a subclass, else InvalidValue is raised. A method that
    changes the slice raises Conflict (`call_over`) in code of a call that was rolled back."""

    __slots__ = ("_state", "_type")

    def __init__(self, state: SessionState, slice_type: type[T]) -> None:
        self._state = state
        self._type = slice_type

    def __repr__(self) -> str:
        return f"<slice {self._type.__name__}: {len(self.all())} values>"

    def all(self) -> tuple[T, ...]:
        """Returns the values, oldest first."""
        return self._state.history(self._type).all()

    def latest(self) -> T | None:
        """Returns the newest value; None if there is none."""
        return self._state.history(self._type).latest()

    def where(self, predicate: Callable[[T], bool]) -> tuple[T, ...]:
        """Returns the values for which `predicate` is true, oldest first."""
        return tuple(value for value in self.all() if predicate(value))

    def seed(self, values: T | Iterable[T]) -> None:
        """Replaces all values by this one or these."""
        several = isinstance(values, Iterable) and not isinstance(values, self._type)
        new_values: tuple[Any, ...] = tuple(values) if several else (values,)  # type: ignore[arg-type]
        for value in new_values:
            if not isinstance(value, self._type):
                raise InvalidValue(f"The slice {self._type.__name__} can't hold {with_article(type(value).__name__)}.")
        self._state.change(Seed(self._type, History(new_values)))

    def clear(self, predicate: Callable[[T], bool] | None = None) -> None:
        """Removes all values, or those for which `predicate` is true."""
        change = Seed(self._type, EMPTY) if predicate is None else Clear(self._type, predicate)
        self._state.change(change)

    def append(self, value: T) -> None:
        """Does the same as `broadcast(value)`, for a value of exactly this type: its reducers decide how it changes
        the slice."""
        if type(value) is not self._type:
            wanted, actual = with_article(self._type.__name__), with_article(type(value).__name__)
            raise InvalidValue(f"Only {wanted} can be appended here, not {actual}.")
        self._state.fold(value)

    def register(self, event_type: type[Any], reducer: SessionReducer, *, policy: SlicePolicy | None = None) -> None:
        """Makes `reducer` fold events of exactly `event_type` into this slice from now on, once, however often it is
        registered. `policy`: of the slice; None leaves it unchanged, and the default is STATE. Raises UsageError for
        an invalid reducer or policy, for a built-in reducer whose events cannot be values of this slice, and for a
        second policy that differs from the first."""
        if not isinstance(event_type, type) or not callable(reducer):
            raise UsageError("A reducer is registered as a type of event and a function.")
        if not takes_an_event(reducer):
            raise UsageError("A reducer is a function of (slice_values, event, *, context).")
        if policy is not None and not isinstance(policy, SlicePolicy):
            raise UsageError("The policy of a slice is SlicePolicy.STATE or SlicePolicy.LOG.")
        if isinstance(reducer, HistoryReducer) and not issubclass(event_type, self._type):
            raise UsageError(
                f"A built-in reducer would put {with_article(event_type.__name__)} into the slice"
                f" {self._type.__name__}: write a reducer that computes the slice's values from it."
            )
        self._state.register(event_type, Registration(self._type, reducer), policy)
