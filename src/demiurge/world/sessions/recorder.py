"""What one call folds into its session, written down while it can still fail.

The call works on a copy of its unit's session; what it leaves there is gone with the copy, but for the events that are
written here, which its receipt names. So an event that can't be written makes the call fail, as a reducer that raises
does, and what can't be an event at all is refused: a session that is a fold has no other past.
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
    """`session` is the call's own copy."""

    def __init__(self, session: Session, codec: EventCodec) -> None:
        self.session = session
        self._codec = codec
        self._scope = CallScope(innermost_scope())
        self._transaction = session.begin(self._scope)
        self._events: list[object] = []
        session.event_bus.subscribe(ToolInvoked, self._hear)

    @contextmanager
    def recording(self) -> Iterator[Recorder]:
        """The call is made in here."""
        try:
            with entered(self._scope):
                yield self
        finally:
            self._scope.state = ScopeState.COMMITTED

    @property
    def events(self) -> bytes | None:
        """Of a call that succeeded: the events as a JSON list of `{type, value}`, in order, None when there are none.

        Not RFC 8785, which has no integers beyond 2^53."""
        return to_json(self._events) if self._events else None

    def _hear(self, event: ToolInvoked) -> None:
        """Raises InvalidValue: then the call fails, and is taken back."""
        if not event.result.success:
            return
        try:
            self._events = [self._codec.encode(found) for found in self._found(event)]
            if self._transaction.has_direct_changes:
                raise InvalidValue("a session of a world is changed by events alone, not by seed, clear or restore")
        except InvalidValue as error:
            log.error("the events of %s can't be kept: %s", event.name, error.message)
            raise

    def _found(self, event: ToolInvoked) -> Iterator[object]:
        """What is folded again from the receipt itself is left out, and so is a value whose type its tool does not
        tell."""
        for found in self._transaction.events:
            is_untold = found is event.result.value and type(found) not in self._codec.classes
            if not (is_untold or isinstance(found, ToolInvoked)):
                yield found
