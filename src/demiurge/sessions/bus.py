"""The event bus: it calls the subscribers of an event's type at once, in the publisher's thread, in the order of
subscription.

If a subscriber raises, the others are still called. Its exception is in the result of the publication, which a
runner checks before it commits a call's changes, and in the log, with the subscriber's name, for a publisher that
ignores the result.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from demiurge.tools.execution.cause import place_of

__all__ = ["HandlerFailure", "InProcessEventBus", "PublishResult"]

E = TypeVar("E")
Handler = Callable[[Any], object]

_LOG = logging.getLogger("demiurge.sessions")


@dataclass(frozen=True, slots=True)
class HandlerFailure:
    """`error` is the exception of `handler`; a note on it names the handler."""

    handler: Handler
    error: Exception

    @property
    def subscriber(self) -> str:
        """Module and qualified name of the handler, or of the class of a callable object."""
        named = self.handler if hasattr(self.handler, "__qualname__") else type(self.handler)
        return f"{named.__module__}.{named.__qualname__}" if named.__module__ else named.__qualname__


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The result of a publication. `handlers_invoked`: all handlers that were called, including those that failed."""

    event: object
    handlers_invoked: tuple[Handler, ...]
    errors: tuple[HandlerFailure, ...] = ()

    @property
    def handled_count(self) -> int:
        """The number of handlers that were called."""
        return len(self.handlers_invoked)

    @property
    def ok(self) -> bool:
        return not self.errors

    def raise_if_errors(self) -> None:
        """Raises the subscribers' exceptions as an ExceptionGroup, if there are any."""
        if self.errors:
            who = ", ".join(failure.subscriber for failure in self.errors)
            message = f"subscribers of {type(self.event).__name__} failed: {who}"
            raise ExceptionGroup(message, [failure.error for failure in self.errors])


class InProcessEventBus:
    """A bus for one process; safe to use from several threads, and from its own subscribers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handlers: dict[type[Any], tuple[Handler, ...]] = {}

    def subscribe(self, event_type: type[E], handler: Callable[[E], object]) -> None:
        """Calls `handler` with every event of exactly this type, once for each subscription."""
        with self._lock:
            self._handlers[event_type] = (*self._handlers.get(event_type, ()), handler)

    def unsubscribe(self, event_type: type[E], handler: Callable[[E], object]) -> bool:
        """Removes one subscription. Returns False if there is none. A publication that is running still calls the
        handler."""
        with self._lock:
            handlers = list(self._handlers.get(event_type, ()))
            if handler not in handlers:
                return False
            handlers.remove(handler)
            self._handlers[event_type] = tuple(handlers)
            return True

    def publish(self, event: object) -> PublishResult:
        """Calls the subscribers one after the other. An exception that is no Exception (Ctrl-C, a cancellation) is
        raised at once."""
        handlers = self._handlers.get(type(event), ())
        errors: list[HandlerFailure] = []
        for handler in handlers:
            try:
                handler(event)
            except Exception as error:  # noqa: BLE001  (collected: the publisher decides)
                errors.append(_failure(handler, error, event))
        return PublishResult(event, handlers, tuple(errors))


def _failure(handler: Handler, error: Exception, event: object) -> HandlerFailure:
    """Returns the failure. Adds a note to the exception and writes a line to the log (types and places, no text);
    both name the subscriber."""
    failure, kind = HandlerFailure(handler, error), type(event).__name__
    error.add_note(f"raised by the subscriber {failure.subscriber} of {kind}")
    _LOG.warning("subscriber %s of %s raised %s at %s", failure.subscriber, kind, type(error).__name__, place_of(error))
    return failure
