"""The connections of a server: how many there may be, and the end of those that are too many or too slow.

Invariant: a client that shows no valid token can't keep others out. A connection is *known* once a request on it was
authenticated. When there are too many of the others, the oldest of them is ended, so that a new one always has its
turn; and a part of all connections is left to known ones.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from demiurge.server.bounded_http import BoundedHttp
from demiurge.server.options import ConnectionLimits

__all__ = ["HttpConnections"]

LOG = logging.getLogger(__name__)

BACKLOG: Final = 2048
PAUSE_S: Final = 1.0
"""How long no connection is accepted after one could not be, for want of a file descriptor, in seconds."""

LOG_S: Final = 60.0

SLOW: Final = "ended, because a request took too long to come"
ANONYMOUS: Final = "without a valid token ended, to make room for new ones"
FULL: Final = "refused, because callers with a valid token hold all there may be"
PAUSED: Final = "delayed for a second, because accepting failed ({}; see LimitNOFILE)"


Make = Callable[[Callable[[], None]], BoundedHttp]
"""Returns the protocol of a new connection; the argument is called when the connection is lost."""


class _Accepted:
    """A connection that was accepted from `address`. `task` makes its transport; with TLS that is a handshake."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.http: BoundedHttp | None = None
        self.task: asyncio.Task[None] | None = None

    def end(self, *, late: bool) -> None:
        if self.task is not None and not self.task.done():
            self.task.cancel()
        elif self.http is not None:
            self.http.end(late=late)


class HttpConnections:
    """Accepts the connections of a server, within `limits`."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._anonymous: dict[_Accepted, None] = {}
        """The connections that are not known, the oldest first."""
        self._at_address = Counter[str]()
        """How many of them there are, by address."""
        self._known: set[_Accepted] = set()
        self._listening: dict[socket.socket, Callable[[], None]] = {}
        self._noted = Counter[str]()
        """The events since the last line of the log, counted."""
        self._next_line_s = 0.0

    def listen(self, wire: socket.socket, make: Make, tls: ssl.SSLContext | None) -> None:
        """Accepts connections at a bound socket. asyncio's own server does not tell of a connection before its TLS
        handshake has ended, and without a file descriptor it tries again 2,000 times at once, and logs each time."""
        wire.setblocking(False)
        wire.listen(BACKLOG)
        self._listening[wire] = partial(self._accept, wire, make, tls)
        self._resume(wire)

    def close(self) -> None:
        """Accepts no more connections, and ends those whose handshake still runs."""
        for wire in self._listening:
            asyncio.get_running_loop().remove_reader(wire)
        self._listening.clear()
        for each in list(self._anonymous):
            if each.task is not None:
                each.task.cancel()
        self._write_line()

    def look(self) -> None:
        """Ends what is too slow, and writes what has been noted to the log, once a minute. To be called each second."""
        now_s = asyncio.get_running_loop().time()
        for each in [*self._anonymous, *self._known]:
            if each.http is not None and each.http.is_late(now_s):
                self._end(each, SLOW)
        if now_s >= self._next_line_s and self._write_line():
            self._next_line_s = now_s + LOG_S

    def _write_line(self) -> bool:
        noted, self._noted = self._noted, Counter()
        if noted:
            LOG.warning("Connections: %s.", "; ".join(f"{n} {what}" for what, n in sorted(noted.items())))
        return bool(noted)

    def _resume(self, wire: socket.socket) -> None:
        if wire in self._listening:
            asyncio.get_running_loop().add_reader(wire, self._listening[wire])

    def _accept(self, listening: socket.socket, make: Make, tls: ssl.SSLContext | None) -> None:
        """Accepts one connection. Requests that run have their turn before the next one."""
        try:
            wire, peer = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            self._pause(listening, error)
            return
        each = _Accepted(str(peer[0]))
        if not self._has_room(each.address):
            self._noted[FULL] += 1
            wire.close()
            return
        self._anonymous[each] = None
        self._at_address[each.address] += 1
        each.task = asyncio.get_running_loop().create_task(self._open(each, wire, make, tls))
        each.task.add_done_callback(partial(self._opened, each, wire))

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(PAUSE_S, self._resume, listening)
        self._noted[PAUSED.format(error.strerror)] += 1
        for _ in range(len(self._anonymous) // 2 + 1):  # one alone would be taken by the next that waits to be accepted
            self._end_oldest()

    def _has_room(self, address: str) -> bool:
        """Makes room for a connection from `address`. Returns False if known connections hold all there may be."""
        limits = self._limits
        if self._at_address[address] >= limits.anonymous_at_address:
            self._end_oldest(address)
        if len(self._anonymous) >= limits.anonymous or self._count >= limits.most:
            self._end_oldest()
        return self._count < limits.most

    @property
    def _count(self) -> int:
        return len(self._anonymous) + len(self._known)

    def _end_oldest(self, address: str | None = None) -> None:
        """Ends the oldest connection that is not known, of `address` if it is given. Notes those that have become
        known on the way."""
        oldest, known = None, []
        for each in self._anonymous:
            if each.http is not None and each.http.is_known:
                known.append(each)
            elif address in (None, each.address):
                oldest = each
                break
        for each in known:
            self._forget(each)
            self._known.add(each)
        if oldest is not None:
            self._end(oldest, ANONYMOUS)

    def _end(self, each: _Accepted, why: str) -> None:
        self._noted[why] += 1
        self._forget(each)
        each.end(late=why is SLOW)

    def _forget(self, each: _Accepted) -> None:
        self._known.discard(each)
        if each in self._anonymous:
            del self._anonymous[each]
            self._at_address[each.address] -= 1
            if not self._at_address[each.address]:
                del self._at_address[each.address]

    async def _open(self, each: _Accepted, wire: socket.socket, make: Make, tls: ssl.SSLContext | None) -> None:
        def made() -> BoundedHttp:
            each.http = make(partial(self._forget, each))
            return each.http

        limit_s = self._limits.head_s if tls is not None else None
        await asyncio.get_running_loop().connect_accepted_socket(
            made, wire, ssl=tls, ssl_handshake_timeout=limit_s, ssl_shutdown_timeout=limit_s
        )

    def _opened(self, each: _Accepted, wire: socket.socket, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is not None:  # its client has gone, or failed the handshake
            self._forget(each)
            if each.http is None:
                wire.close()
