"""The protocol of one HTTP connection: uvicorn's faster parser, which alone would keep a head of any size in memory,
and wait for the rest of a request for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from demiurge.server.options import ConnectionLimits
from demiurge.server.response_wire import SCOPE_KEY, ResponseWire
from demiurge.values.clock import SystemClock

__all__ = ["BoundedHttp"]

_CLOCK = SystemClock()

MAX_HEAD: Final = 64 * 1024
"""How much of a request may come without a part of its body, in bytes: its head, or what follows the body."""

TOO_LATE: Final = (
    STATUS_LINE[408] + b"content-type: text/plain\r\ncontent-length: 34\r\nconnection: close\r\n\r\n"
    b"The request took too long to come."
)

REPEATED_S: Final = 60.0


class _OnceAMinute(logging.Filter):
    """Lets the same warning pass once a minute: uvicorn warns of every request that it can't read."""

    def __init__(self) -> None:
        super().__init__()
        self._last_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether a record is logged."""
        if record.levelno != logging.WARNING:
            return True
        now_s = _CLOCK.monotonic_ns() / 1e9
        if now_s < self._last_s.get(str(record.msg), -REPEATED_S) + REPEATED_S:
            return False
        self._last_s[str(record.msg)] = now_s
        return True


_ONCE_A_MINUTE = _OnceAMinute()


class BoundedHttp(HttpToolsProtocol):
    """A connection whose heads are limited in size, and whose requests are limited in the time that they take to come.
    `on_lost` is called when the connection is lost. A route finds the wire of its response in the scope
    (`response_wire`)."""

    _without_body, _in_body, _was_known = 0, False, False
    _wire: ResponseWire

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        limits: ConnectionLimits,
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__(config, server_state, app_state)
        self.logger.addFilter(_ONCE_A_MINUTE)
        self._limits, self._on_lost = limits, on_lost
        self._late_s: float | None = None
        """The time of the loop at which a request that is coming is late; None while none is."""

    @property
    def is_known(self) -> bool:
        """True if a request on this connection was authenticated."""
        return self._was_known or (self.cycle is not None and "actor" in self.cycle.scope["state"])

    def is_late(self, now_s: float) -> bool:
        """Returns whether the client takes too long to send a request."""
        if self._late_s is None or now_s < self._late_s:
            return False
        if self.flow.read_paused:  # the server takes nothing now
            self._late_s = now_s + self._limits.body_s
            return False
        return True

    def end(self, *, late: bool) -> None:
        """Ends the connection at once, also if the client takes nothing that is sent. A client that is `late` with a
        request is told so."""
        if late and self.scope is not None and (self._is_answered or not self.cycle.response_started):
            self.transport.write(TOO_LATE)
        self.transport.abort()

    @property
    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the first request."""
        super().connection_made(transport)
        self._wire = ResponseWire(transport)
        self._late_s = self.loop.time() + self._limits.head_s

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends what runs for the client."""
        self._wire.lost(exc)
        super().connection_lost(exc)
        self._on_lost()

    def eof_received(self) -> None:
        """Ends the connection of a client that sends no more."""
        self._wire.client_left = True
        super().eof_received()

    def resume_writing(self) -> None:
        """Goes on once the client has taken enough."""
        super().resume_writing()
        self._wire.emptied()

    def data_received(self, data: bytes) -> None:
        """Ends the connection of a client whose head grows beyond `MAX_HEAD`."""
        if self._late_s is None and self._is_answered:
            self._late_s = self.loop.time() + self._limits.head_s
        self._without_body += len(data)
        super().data_received(data)
        if self._without_body > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """Begins a request."""
        self._without_body, self._in_body = 0, False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header; one that follows the body is left out, since the request has been answered by its head."""
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begins the body."""
        self._was_known = self.is_known
        super().on_headers_complete()
        self.scope[SCOPE_KEY] = self._wire  # type: ignore[typeddict-unknown-key]
        self._in_body, self._late_s = True, self.loop.time() + self._limits.body_s

    def on_body(self, body: bytes) -> None:
        """Takes a part of the body."""
        self._without_body = 0
        if self._late_s is not None:
            latest_s = self.loop.time() + self._limits.body_s
            self._late_s = min(latest_s, self._late_s + len(body) / self._limits.body_rate)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends the request; the answer may take as long as it takes."""
        self._late_s = None
        super().on_message_complete()
