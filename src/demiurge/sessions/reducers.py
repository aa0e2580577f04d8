"""Session reducers: functions that compute the next value of a slice from an event.

A session reducer is a function of the slice's values and the event. It may be called again with the same event,
after a concurrent call is rolled back, so it must not change anything, least of all its arguments: such a change is
detected, undone and refused. The built-in reducers work on the history itself, so their cost does not grow with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, is_dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from demiurge.errors import UsageError
from demiurge.sessions.errors import ReducerError
from demiurge.sessions.history import History
from demiurge.sessions.mutation_guard import MutationGuard
from demiurge.values.article import with_article

if TYPE_CHECKING:
    from demiurge.sessions.session import Session

__all__ = [
    "HistoryReducer",
    "Registration",
    "SessionReducer",
    "SessionReducerContext",
    "append_all",
    "event_types_of",
    "reducer",
    "reducers_of",
    "replace_latest",
    "replace_latest_by",
    "takes_an_event",
    "upsert_by",
]

MethodT = TypeVar("MethodT", bound=Callable[..., Any])

_MARK = "_demiurge_reduces"


@dataclass(frozen=True, slots=True)
class SessionReducerContext:
    """`session`: the session whose slices are being folded, for reading other slices and broadcasting further
    events."""

    session: Session


class SessionReducer(Protocol):
    """Takes the slice's values and an event; returns the slice's new values as a tuple or a list."""

    def __call__(self, slice_values: tuple[Any, ...], event: Any, /, *, context: SessionReducerContext) -> Any: ...


@dataclass(frozen=True, slots=True)
class HistoryReducer:
    """A built-in reducer. It stores the event itself in the slice, without reading all its values."""

    step: Callable[[History[Any], Any], History[Any]]

    def __call__(
        self, slice_values: tuple[Any, ...], event: Any, /, *, context: SessionReducerContext | None = None
    ) -> tuple[Any, ...]:
        return self.step(History(slice_values), event).all()


append_all = HistoryReducer(lambda history, event: history.append(event))
"""Appends the event. A type without a reducer of its own has this one."""

replace_latest = HistoryReducer(lambda history, event: History((event,)))
"""Replaces all values by the event."""


def replace_latest_by(key: Callable[[Any], object]) -> HistoryReducer:
    """Appends the event and removes the values with the same key."""

    def step(history: History[Any], event: Any) -> History[Any]:
        wanted = key(event)
        return History((*(value for value in history.all() if key(value) != wanted), event))

    return HistoryReducer(step)


def upsert_by(key: Callable[[Any], object]) -> HistoryReducer:
    """Puts the event in place of the first value with the same key and removes the others; without one, appends it."""

    def step(history: History[Any], event: Any) -> History[Any]:
        wanted, values = key(event), history.all()
        places = [at for at, value in enumerate(values) if key(value) == wanted]
        if not places:
            return history.append(event)
        if len(places) == 1:
            return history.replaced(lambda value: value is values[places[0]], event) or history.append(event)
        others = set(places[1:])
        kept = (event if at == places[0] else value for at, value in enumerate(values) if at not in others)
        return History(tuple(kept))

    return HistoryReducer(step)


def reducer(*, on: type[Any]) -> Callable[[MethodT], MethodT]:
    """Marks a method `def on_x(self, event: E) -> Self` of a frozen dataclass as its reducer for events of type
    `on`; `Session.install` registers it."""

    def mark(method: MethodT) -> MethodT:
        setattr(method, _MARK, on)
        return method

    return mark


@dataclass(frozen=True, slots=True)
class Registration:
    """`reducer` folds events of one type into the slice of `slice_type`."""

    slice_type: type[Any]
    reducer: SessionReducer

    @property
    def is_built_in(self) -> bool:
        return isinstance(self.reducer, HistoryReducer)

    def fold(self, history: History[Any], event: Any, context: SessionReducerContext) -> History[Any]:
        """Returns the slice's next history. Raises ReducerError, and what the reducer raises."""
        if isinstance(self.reducer, HistoryReducer):
            return self.reducer.step(history, event)
        values = history.all()
        guard = MutationGuard((event, *values))
        try:
            returned = self.reducer(values, event, context=context)
        except BaseException as error:
            guard.restore()
            error.add_note(f"raised by the {self._who(event)}")
            raise
        if guard.restore():
            raise ReducerError(
                f"The {self._who(event)} changed its arguments in place: return new values.",
                code="reducer_mutation",
            )
        return history if returned is values else History(self._checked(returned, event))

    def _checked(self, returned: object, event: object) -> tuple[Any, ...]:
        if not isinstance(returned, tuple | list):
            raise ReducerError(
                f"The {self._who(event)} returned {type(returned).__name__}:"
                f" return a tuple of {self.slice_type.__name__}.",
                code="reducer_result",
            )
        for kind in set(map(type, returned)):
            if not issubclass(kind, self.slice_type):
                raise ReducerError(
                    f"The {self._who(event)} returned a tuple with {with_article(kind.__name__)} in it: return only"
                    f" {self.slice_type.__name__}.",
                    code="reducer_result",
                )
        return tuple(returned)

    def _who(self, event: object) -> str:
        name = getattr(self.reducer, "__qualname__", None) or str(self.reducer)
        return f"reducer {name} of {type(event).__name__} for the slice {self.slice_type.__name__}"


def takes_an_event(function: Callable[..., Any]) -> bool:
    """Returns whether the function can be called as a reducer; True if it has no readable signature."""
    try:
        parameters = signature(function)
    except (TypeError, ValueError):
        return True
    try:
        parameters.bind((), None, context=None)
    except TypeError:
        return False
    return True


def reducers_of(
    state_type: type[Any], initial: object | Callable[[], object] | None
) -> dict[type[Any], SessionReducer]:
    """Returns the reducers that are methods of a frozen dataclass, by type of event. Raises UsageError."""
    if not (is_dataclass(state_type) and state_type.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        raise UsageError(f"{state_type.__name__} is not a frozen dataclass, so its methods can't be reducers.")
    found: dict[type[Any], SessionReducer] = {}
    for name, on in _marked(state_type):
        if on in found:
            raise UsageError(f"{state_type.__name__} has two reducers for {on.__name__}.")
        found[on] = MethodReducer(state_type, name, initial)
    if not found:
        raise UsageError(f"{state_type.__name__} has no method with @reducer(on=...).")
    return found


def event_types_of(state_type: type[Any]) -> list[type[Any]]:
    """Returns the event types of a class's `@reducer` methods."""
    return list(dict.fromkeys(on for _, on in _marked(state_type)))


@dataclass(frozen=True, slots=True)
class MethodReducer:
    """The method `name` of `state_type`, applied to the latest state. Two of the same method are equal, so it can be
    installed again."""

    state_type: type[Any]
    name: str
    initial: object | Callable[[], object] | None = field(compare=False)

    def __str__(self) -> str:
        return f"{self.state_type.__qualname__}.{self.name}"

    def __call__(
        self, slice_values: tuple[Any, ...], event: Any, /, *, context: SessionReducerContext
    ) -> tuple[Any, ...]:
        if not slice_values and self.initial is None:
            return slice_values
        state = slice_values[-1] if slice_values else self._first()
        return (getattr(self.state_type, self.name)(state, event),)

    def _first(self) -> object:
        initial = self.initial
        return initial() if callable(initial) and not isinstance(initial, self.state_type) else initial


def _marked(state_type: type[Any]) -> Iterator[tuple[str, type[Any]]]:
    """Yields the marked methods and the type of their events. An overriding method inherits the mark."""
    marks: dict[str, type[Any]] = {}
    for owner in reversed(state_type.__mro__):
        for name, value in vars(owner).items():
            on = getattr(value, _MARK, None)
            if on is not None:
                marks[name] = on
    yield from marks.items()
