"""How an event becomes the next value of a slice.

A reducer is a function of the slice's values and the event. It may be called again with the same event, when a call
that overlapped is taken back, so it must not change anything, what it is given least of all: that is noticed, put back,
and refused. The built-in ones work on the history itself, so that their cost does not grow with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, is_dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from demiurge.errors import UsageError
from demiurge.sessions.errors import ReducerError
from demiurge.sessions.history import History
from demiurge.sessions.watch import Watch
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
    """`session`: the one whose slices are being folded, to read other slices or to broadcast what follows."""

    session: Session


class SessionReducer(Protocol):
    """The slice's values and an event in; the slice's new values out, as a tuple or a list."""

    def __call__(self, slice_values: tuple[Any, ...], event: Any, /, *, context: SessionReducerContext) -> Any: ...


@dataclass(frozen=True, slots=True)
class HistoryReducer:
    """A reducer that puts the event itself into the slice, and need not see all of it to do so."""

    step: Callable[[History[Any], Any], History[Any]]

    def __call__(
        self, slice_values: tuple[Any, ...], event: Any, /, *, context: SessionReducerContext | None = None
    ) -> tuple[Any, ...]:
        return self.step(History(slice_values), event).all()


append_all = HistoryReducer(lambda history, event: history.append(event))
"""The event comes after all the others. What a type without a reducer of its own has."""

replace_latest = HistoryReducer(lambda history, event: History((event,)))
"""The event is all there is."""


def replace_latest_by(key: Callable[[Any], object]) -> HistoryReducer:
    """The event comes last, and those with the same key go."""

    def step(history: History[Any], event: Any) -> History[Any]:
        wanted = key(event)
        return History((*(value for value in history.all() if key(value) != wanted), event))

    return HistoryReducer(step)


def upsert_by(key: Callable[[Any], object]) -> HistoryReducer:
    """The event takes the place of the first one with the same key, and others with it go; without one it comes
    last."""

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
    `on`; `Session.install` finds it."""

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
        """The slice's next history. Raises ReducerError, and what the reducer raises."""
        if isinstance(self.reducer, HistoryReducer):
            return self.reducer.step(history, event)
        values = history.all()
        watch = Watch((event, *values))
        try:
            given = self.reducer(values, event, context=context)
        except BaseException as error:
            watch.put_back()
            error.add_note(f"raised by the {self._who(event)}")
            raise
        if watch.put_back():
            raise ReducerError(
                f"The {self._who(event)} changed in place what it was given: return new values.",
                code="reducer_mutation",
            )
        return history if given is values else History(self._checked(given, event))

    def _checked(self, given: object, event: object) -> tuple[Any, ...]:
        if not isinstance(given, tuple | list):
            raise ReducerError(
                f"The {self._who(event)} returned {type(given).__name__}:"
                f" return a tuple of {self.slice_type.__name__}.",
                code="reducer_result",
            )
        for kind in set(map(type, given)):
            if not issubclass(kind, self.slice_type):
                raise ReducerError(
                    f"The {self._who(event)} returned a tuple with {with_article(kind.__name__)} in it: return only"
                    f" {self.slice_type.__name__}.",
                    code="reducer_result",
                )
        return tuple(given)

    def _who(self, event: object) -> str:
        name = getattr(self.reducer, "__qualname__", None) or str(self.reducer)
        return f"reducer {name} of {type(event).__name__} for the slice {self.slice_type.__name__}"


def takes_an_event(function: Callable[..., Any]) -> bool:
    """Can it be called as a reducer? True for what does not tell."""
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
    """The reducers that the methods of a frozen dataclass are, by type of event. Raises UsageError."""
    if not (is_dataclass(state_type) and state_type.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        raise UsageError(f"{state_type.__name__} is no frozen dataclass, so its methods can't be reducers.")
    found: dict[type[Any], SessionReducer] = {}
    for name, on in _marked(state_type):
        if on in found:
            raise UsageError(f"{state_type.__name__} has two reducers for {on.__name__}.")
        found[on] = MethodReducer(state_type, name, initial)
    if not found:
        raise UsageError(f"{state_type.__name__} has no method with @reducer(on=...).")
    return found


def event_types_of(state_type: type[Any]) -> list[type[Any]]:
    """The types of event that the marked methods of a class take."""
    return list(dict.fromkeys(on for _, on in _marked(state_type)))


@dataclass(frozen=True, slots=True)
class MethodReducer:
    """The method `name` of `state_type`, applied to the latest state. Installed again, it is the same one."""

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
        made = self.initial
        return made() if callable(made) and not isinstance(made, self.state_type) else made


def _marked(state_type: type[Any]) -> Iterator[tuple[str, type[Any]]]:
    """The methods with the mark and the type of their events. A method that overrides one has its mark, too."""
    marks: dict[str, type[Any]] = {}
    for owner in reversed(state_type.__mro__):
        for name, value in vars(owner).items():
            on = getattr(value, _MARK, None)
            if on is not None:
                marks[name] = on
    yield from marks.items()
