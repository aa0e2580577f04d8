"""What happened, folded into typed state.

A session holds one slice for each type: `session[Plan]`. An event is folded into the slices whose reducers want its
type; one that nobody wants is appended to its own. A call's changes are taken back when it fails, and those of calls
that ran at the same time stay: see `begin`.
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
    """What `observe` gives: the way to end it."""

    _end: Callable[[], bool]

    def unsubscribe(self) -> bool:
        """False if it had ended before."""
        return self._end()


class Session(Transactional):
    """Safe to use from several threads; reducers, observers and subscribers may use it too, and must not wait for
    another thread that does.

    `bus`: where it listens for ToolInvoked with its own id or none; a new one by default. `parent`: the session that
    this one is part of. `session_id`: a random UUID by default. `created_at`: with a time zone. `tags`: any words.
    Raises InvalidValue."""

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
        """The sessions made with this one as their parent that are still in use, oldest first: it does not keep
        them."""
        return tuple(self._children.values())

    def __getitem__(self, slice_type: type[T]) -> SliceAccessor[T]:
        """The slice of this type. Raises UsageError for what is no class."""
        return SliceAccessor(self._state, _class(slice_type))

    def broadcast(self, event: object) -> None:
        """Folds `event` by every reducer that is registered for exactly its type, in order of registration, or
        appends it to the slice of its type if there is none. If a reducer raises, no slice is changed and the
        exception goes up."""
        if event is None or isinstance(event, type):
            raise InvalidValue("An event is an object, not None or a class.")
        self._state.fold(event)

    def install(self, state_type: type[T], initial: T | Callable[[], T] | None = None) -> None:
        """Makes the `@reducer(on=...)` methods of a frozen dataclass the reducers of its slice, which from then on
        holds the latest state alone. `initial`: a state, or what makes one, for an event that finds the slice empty;
        with None such an event changes nothing. Raises UsageError."""
        for event_type, method in reducers_of(_class(state_type), initial).items():
            self._state.register(event_type, Registration(state_type, method), None)

    def observe(self, slice_type: type[T], observer: Callable[[tuple[T, ...], tuple[T, ...]], object]) -> Subscription:
        """`observer(old, new)` is called after each change of this slice. What it raises goes up to whoever made the
        change, which stays; after a roll-back it is logged."""
        self._state.observe(_class(slice_type), observer)
        return Subscription(lambda: self._state.unobserve(slice_type, observer))

    def reset(self) -> None:
        """Empties all slices, the logs too. Reducers and observers stay."""
        self._state.change(Replace({}, keep_logs=False))

    def snapshot(
        self,
        *,
        tag: str | None = None,
        policies: Collection[SlicePolicy] = frozenset({SlicePolicy.STATE}),
        include_all: bool = False,
    ) -> SessionSnapshot:
        """The slices with one of `policies`, or all, as they are now. Costs the same whatever they hold. Raises
        ValueError for what is no policy."""
        held, logs = self._state.held, self._state.logs
        wanted = set(SlicePolicy) if include_all else {SlicePolicy(policy) for policy in policies}
        kept = {kind: history for kind, history in held.items() if _policy(kind, logs) in wanted}
        return SessionSnapshot(MappingProxyType(kept), self.session_id, self._now(), tag, self.tags)

    def restore(self, snapshot: SessionSnapshot, *, preserve_logs: bool = True) -> None:
        """Makes the slices as they were then; what is not in the snapshot is emptied. Logs stay as they are, unless
        `preserve_logs` is false. Raises SnapshotRestoreError for what is no snapshot."""
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
        """A session with the same slices, reducers, policies and, by default, parent and tags; from now on each goes
        its own way. By default on a bus of its own, with a new id. Observers stay with this one."""
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
        """From now on the changes made in `scope` can be taken back without those that others make meanwhile. Slices
        with the policy LOG stay as they are."""
        return self._state.begin(scope)

    def correct(self, event: ToolInvoked) -> None:
        """Puts `event` into the log in the place of the one with the same `event_id`, or last if there is none. Only
        the log: nothing is folded."""
        with self._state.lock:
            log = self._state.history(ToolInvoked)
            corrected = log.replaced(lambda found: found.event_id == event.event_id, event)
            self._state.change(Seed(ToolInvoked, log.append(event) if corrected is None else corrected))

    def _take(self, event: ToolInvoked) -> None:
        if event.session_id is not None and str(event.session_id) != str(self.session_id):
            return
        value = event.result.value
        is_event = isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type))
        self._state.fold(event, *([value] if event.result.success and is_event else []))

    def _now(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self._clock.now_ns() // 1000)


def _listen(session: Session) -> None:
    """Subscribes it without keeping it: a bus may live longer than its sessions."""
    bus = session.event_bus
    found = weakref.ref(session)

    def take(event: ToolInvoked) -> None:
        listening = found()
        if listening is None:
            bus.unsubscribe(ToolInvoked, take)
        else:
            listening._take(event)

    bus.subscribe(ToolInvoked, take)


def _policy(kind: type[Any], logs: frozenset[type[Any]]) -> SlicePolicy:
    return SlicePolicy.LOG if kind in logs else SlicePolicy.STATE


def _class(slice_type: type[T]) -> type[T]:
    if not isinstance(slice_type, type):
        raise UsageError(f"A slice is named by a class, not {slice_type!r}.")
    return slice_type


def _aware(moment: datetime) -> datetime:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InvalidValue("must be a datetime with a time zone", path="created_at")
    return moment


def _checked_tags(tags: Mapping[str, str]) -> Mapping[str, str]:
    if not all(isinstance(key, str) and isinstance(value, str) for key, value in tags.items()):
        raise InvalidValue("must map words to words", path="tags")
    return MappingProxyType(dict(tags))
