"""`Recorder`: writes down the events that one call folds into its session, while the call can still fail.

The call works on a copy of its unit's session. The copy is dropped; the events that are written here, which the receipt
names, remain. So an event that cannot be written makes the call fail, as a reducer that raises does, and a change that
is not an event is refused: a session that is a fold has no other past.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic_core import to_json

from demiurge.errors import InvalidValue
from demiurge.sessions.codec import EventCodec
from demiurge.sessions.session import Session
from demiurge.tools.execution.scope import CallScope, ScopeState, entered, innermost_scope
from demiurge.tools.invoked import ToolInvoked

__all__ = ["Recorder"]

log = logging.getLogger("demiurge.world")


class Recorder:
    """Records one call; `session` is the call's own copy."""

    def __init__(self, session: Session, codec: EventCodec) -> None:
        self.session = session
        self._codec = codec
        self._scope = CallScope(innermost_scope())
        self._transaction = session.begin(self._scope)
        self._events: list[object] = []
        session.event_bus.subscribe(ToolInvoked, self._hear)

    @contextmanager
    def recording(self) -> Iterator[Recorder]:
        """The context in which the call runs."""
        try:
            with entered(self._scope):
                yield self
        finally:
            self._scope.state = ScopeState.COMMITTED

    @property
    def events(self) -> bytes | None:
        """The events of a call that succeeded, as a JSON list of `{type, value}` in order; None if there are none.

        Not RFC 8785, which has no integers beyond 2^53.
        """
        return to_json(self._events) if self._events else None

    def _hear(self, event: ToolInvoked) -> None:
        """Notes the events of a call that succeeded. Raises InvalidValue: then the call fails and is rolled back."""
        if not event.result.success:
            return
        try:
            self._events = [self._codec.encode(found) for found in self._found(event)]
            if self._transaction.has_direct_changes:
                raise InvalidValue(
                    "a session of a world changes by events alone: broadcast one instead of seed, clear or restore"
                )
        except InvalidValue as error:
            log.error("the events of %s can't be kept: %s", event.name, error.message)
            raise

    def _found(self, event: ToolInvoked) -> Iterator[object]:
        """Yields the events to write. Left out are those that the receipt itself brings, and a result value whose type
        its tool does not declare."""
        for found in self._transaction.events:
            is_untold = found is event.result.value and type(found) not in self._codec.classes
            if not (is_untold or isinstance(found, ToolInvoked)):
                yield found
