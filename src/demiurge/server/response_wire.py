"""The connection of a response, for a route that has to know whether the client was given what the route wrote.

ASGI does not tell: `send` returns when the bytes are in a buffer of this process, and also when the client has gone.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.types import Scope

__all__ = ["SCOPE_KEY", "ResponseWire", "wire_of"]

SCOPE_KEY: Final = "demiurge.response_wire"

LOOK_S: Final = 0.01
"""How often an encrypted wire is looked at that a slow client has not emptied, in seconds."""

_TURNS: Final = 3
"""The turns of the loop after which a transport whose write failed has said so to its protocol."""


class ResponseWire:
    """The sending side of a connection. `client_left`: the client ended the connection, or it broke."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._emptied: asyncio.Future[bool] | None = None
        self.client_left = False

    @property
    def is_open(self) -> bool:
        """Returns whether bytes that are written now can reach the client."""
        return not self.client_left and not self._transport.is_closing()

    async def has_taken_all(self) -> bool:
        """Waits until the operating system has taken all bytes that were written. Returns False if the client left
        before that; it may have a part of them then."""
        if self._transport.get_write_buffer_size():
            self._emptied = asyncio.get_running_loop().create_future()
            self._transport.set_write_buffer_limits(high=0)  # so `emptied` is called
            try:
                return await self._emptied and await self._has_encrypted_all()
            finally:
                self._transport.set_write_buffer_limits()
        if not await self._has_encrypted_all():
            return False
        if self._transport.is_closing():  # by the server, after its last answer; or because the write failed
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            return not self.client_left
        return True

    def emptied(self) -> None:
        """Notes that the operating system has taken the bytes of the buffer."""
        if self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(not self.client_left)

    def lost(self, error: Exception | None) -> None:
        """Notes that the connection ended; with an `error`, it broke."""
        self.client_left = self.client_left or error is not None
        if self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(False)

    def break_off(self) -> None:
        """Ends the connection in the middle of the response, so that the client does not take it for a whole one."""
        self.client_left = True
        self._transport.abort()

    async def _has_encrypted_all(self) -> bool:
        """Waits until the operating system has taken what is encrypted already. Returns False as `has_taken_all`."""
        tls: Any = getattr(self._transport, "_ssl_protocol", None)  # asyncio gives no other way to it
        while tls is not None and tls._transport is not None and tls._transport.get_write_buffer_size():
            await asyncio.sleep(LOOK_S)
            if self.client_left:
                return False
        return True


def wire_of(scope: Scope) -> ResponseWire | None:
    """Returns the wire of the response to a request; None if the server is not ours (`serving`)."""
    found: ResponseWire | None = scope.get(SCOPE_KEY)
    return found
