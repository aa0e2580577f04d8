"""A session: the events of one agent, folded into typed state.

A session holds one slice for each type: `session[Plan]`. An event is folded into the slices that have a reducer for
its type; without any, it is appended to the slice of its own type. The changes of a failed call are rolled back, and
those of calls that ran at the same time are kept: see `begin`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, is_dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from pydantic import BaseModel

from demiurge.errors import InvalidValue, UsageError
from demiurge.sessions.bus import InProcessEventBus
from demiurge.sessions.changes import Replace, Seed
from demiurge.sessions.errors import SnapshotRestoreError
from demiurge.sessions.policy import SlicePolicy
from demiurge.sessions.reducers import Registration, SessionReducerContext, reducers_of
from demiurge.sessions.slices import SliceAccessor
from demiurge.sessions.snapshot import SessionSnapshot
from demiurge.sessions.state import SessionState, SessionTransaction
from demiurge.tools.execution.scope import CallScope, Transactional
from demiurge.tools.invoked import ToolInvoked
from demiurge.values.clock import Clock, Entropy, SystemClock, SystemEntropy

__all__ = ["Session", "Subscription"]

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOGS: frozenset[type[Any]] = frozenset({ToolInvoked})


@dataclass(frozen=True, slots=True)
class Subscription:
    """The return value of `observe`, which can end the observation."""

    _end: Callable[[], bool]

    def unsubscribe(self) -> bool:
        """Ends the observation. Returns False if it had ended before."""
        return self._end()


class Session(Transactional):
    """Safe to use from several threads. Reducers, observers and subscribers may use the session too, but must not
    wait for another thread that does.

    `bus`: where the session listens for ToolInvoked events with its own id or none; by default a new bus. `parent`:
    the session that this one belongs to. `session_id`: by default a random UUID. `created_at`: with a time zone.
    `tags`: any text. Raises InvalidValue."""

    def __init__(
        self,
        *,
        bus: InProcessEventBus | None = None,
        parent: Session | None = None,
        session_id: UUID | str | None = None,
        created_at: datetime | None = None,
        tags: Mapping[str, str] | None = None,
        clock: Clock = SystemClock(),  # noqa: B008  (holds nothing)
        entropy: Entropy = SystemEntropy(),  # noqa: B008
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self.event_bus = InProcessEventBus() if bus is None else bus
        self.parent = parent
        self.session_id = UUID(bytes=entropy.token(16), version=4) if session_id is None else session_id
        self.created_at = self._now() if created_at is None else _aware(created_at)
        self.tags = _checked_tags(tags or {})
        self._children: weakref.WeakValueDictionary[int, Session] = weakref.WeakValueDictionary()
        self._numbers = count()
        self._state = SessionState(SessionReducerContext(self), _LOGS)
        if parent is not None:
            parent._children[next(parent._numbers)] = self
        _listen(self)

    @property
    def children(self) -> tuple[Session, ...]:
        """The sessions with this one as their parent that are still in use, oldest first. A session does not keep
        its children alive."""
        return tuple(self._children.values())

    def __getitem__(self, slice_type: type[T]) -> SliceAccessor[T]:
        """Returns the slice of this type. Raises UsageError unless it is a class."""
        return SliceAccessor(self._state, _class(slice_type))

    def broadcast(self, event: object) -> None:
        """Folds `event` with every reducer that is registered for exactly its type, in order of registration;
        without any, appends it to the slice of its type. If a reducer raises, no slice is changed and the exception
        is raised again."""
        if event is None or isinstance(event, type):
            raise InvalidValue("An event is an object, not None or a class.")
        self._state.fold(event)

    def install(self, state_type: type[T], initial: T | Callable[[], T] | None = None) -> None:
        """Registers the `@reducer(on=...)` methods of a frozen dataclass for its slice, which from then on holds
        only the latest state. `initial`: a state, or a function that makes one, for an event that finds the slice
        empty; with None such an event changes nothing. Raises UsageError."""
        for event_type, method in reducers_of(_class(state_type), initial).items():
            self._state.register(event_type, Registration(state_type, method), None)

    def observe(self, slice_type: type[T], observer: Callable[[tuple[T, ...], tuple[T, ...]], object]) -> Subscription:
        """Calls `observer(old, new)` after each change of this slice. Its exceptions are raised to whoever made the
        change, which is kept; after a roll-back they are logged."""
        self._state.observe(_class(slice_type), observer)
        return Subscription(lambda: self._state.unobserve(slice_type, observer))

    def reset(self) -> None:
        """Empties all slices, including the logs. Reducers and observers are kept."""
        self._state.change(Replace({}, keep_logs=False))

    def snapshot(
        self,
        *,
        tag: str | None = None,
        policies: Collection[SlicePolicy] = frozenset({SlicePolicy.STATE}),
        include_all: bool = False,
    ) -> SessionSnapshot:
        """Returns the present slices with one of `policies`, or all of them. The cost does not depend on their
        content. Raises ValueError for an unknown policy."""
        held, logs = self._state.held, self._state.logs
        wanted = set(SlicePolicy) if include_all else {SlicePolicy(policy) for policy in policies}
        kept = {kind: history for kind, history in held.items() if _policy(kind, logs) in wanted}
        return SessionSnapshot(MappingProxyType(kept), self.session_id, self._now(), tag, self.tags)

    def restore(self, snapshot: SessionSnapshot, *, preserve_logs: bool = True) -> None:
        """Sets the slices to their values in the snapshot and empties the others. Logs stay as they are, unless
        `preserve_logs` is false. Raises SnapshotRestoreError for any other object."""
        if not isinstance(snapshot, SessionSnapshot):
            raise SnapshotRestoreError(f"A session is restored from a SessionSnapshot, not {type(snapshot).__name__}.")
        self._state.change(Replace(snapshot.held, keep_logs=preserve_logs))

    def clone(
        self,
        *,
        bus: InProcessEventBus | None = None,
        parent: Session | None = None,
        session_id: UUID | str | None = None,
        created_at: datetime | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Session:
        """Returns a session with the same slices, reducers, policies and, by default, parent and tags; later changes
        of one do not affect the other. By default it has a new bus and a new id. Observers are not copied."""
        copy = Session(
            bus=bus,
            parent=self.parent if parent is None else parent,
            session_id=session_id,
            created_at=created_at,
            tags=self.tags if tags is None else tags,
            clock=self._clock,
            entropy=self._entropy,
        )
        self._state.copy_to(copy._state)
        return copy

    def begin(self, scope: CallScope) -> SessionTransaction:
        """Begins a transaction: the changes made in `scope` from now on can be rolled back without those that others
        make meanwhile. Slices with the policy LOG are not rolled back."""
        return self._state.begin(scope)

    def correct(self, event: ToolInvoked) -> None:
        """Puts `event` into the log in place of the one with the same `event_id`, or at the end if there is none.
        Only the log changes: nothing is folded."""
        with self._state.lock:
            log = self._state.history(ToolInvoked)
            corrected = log.replaced(lambda found: found.event_id == event.event_id, event)
            self._state.change(Seed(ToolInvoked, log.append(event) if corrected is None else corrected))

    def _fold_invoked(self, event: ToolInvoked) -> None:
        if event.session_id is not None and str(event.session_id) != str(self.session_id):
            return
        value = event.result.value
        is_event = isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type))
        self._state.fold(event, *([value] if event.result.success and is_event else []))

    def _now(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self._clock.now_ns() // 1000)


def _listen(session: Session) -> None:
    """Subscribes the session through a weak reference, because a bus may live longer than its sessions."""
    bus = session.event_bus
    found = weakref.ref(session)

    def take(event: ToolInvoked) -> None:
        listening = found()
        if listening is None:
            bus.unsubscribe(ToolInvoked, take)
        else:
            listening._fold_invoked(event)

    bus.subscribe(ToolInvoked, take)


def _policy(kind: type[Any], logs: frozenset[type[Any]]) -> SlicePolicy:
    return SlicePolicy.LOG if kind in logs else SlicePolicy.STATE


def _class(slice_type: type[T]) -> type[T]:
    if not isinstance(slice_type, type):
        raise UsageError(f"A slice is found by its class, not by {slice_type!r}.")
    return slice_type


def _aware(moment: datetime) -> datetime:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InvalidValue("must be a datetime with a time zone", path="created_at")
    return moment


def _checked_tags(tags: Mapping[str, str]) -> Mapping[str, str]:
    if not all(isinstance(key, str) and isinstance(value, str) for key, value in tags.items()):
        raise InvalidValue("must map text to text", path="tags")
    return MappingProxyType(dict(tags))
