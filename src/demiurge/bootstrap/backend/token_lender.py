"""Lends the tokens of a world's connections to its clients of MCP servers (`demiurge.mcp.oauth.TokenLender`)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from demiurge.capabilities.oauth.challenge import read_challenge
from demiurge.capabilities.oauth.endpoints import covers, endpoint
from demiurge.errors import Unavailable
from demiurge.tools.connections.credentials import Credentials
from demiurge.values.clock import Clock
from demiurge.world.connection_tokens import ConnectionTokens

__all__ = ["WorldTokenLender"]

MAX_NAMED: Final = 8
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
"""Scopes that a person can read without being misled."""


class WorldTokenLender:
    """The lender of one world. `read`: returns the state of a connection's unit, None if there is no such unit."""

    def __init__(
        self, read: Callable[[str], Awaitable[Mapping[str, Any] | None]], tokens: ConnectionTokens, clock: Clock
    ) -> None:
        self._read, self._tokens, self._clock = read, tokens, clock

    async def lend(self, connection_id: str, url: str, refused: Credentials | None = None) -> Credentials:
        """Returns the credentials of a connection that is in force, for requests to `url`. Tokens of a login go only to
        the resource that they are for. Raises Unavailable (`connection_unavailable`, `login_needed`), NotFound,
        Damaged."""
        state = await self._read(connection_id)
        if state is None:
            raise _unavailable(f"There is no connection {connection_id} in this world.")
        if state["revoked"] is not None:
            raise _unavailable(f"The connection {connection_id} was revoked: add another one.")
        if self._is_over(state["expires_at_ms"]):
            raise _unavailable(f"The connection {connection_id} has expired: add another one.")
        resource = await self._tokens.resource(connection_id, state)
        if resource is not None and not covers(endpoint(resource, "The resource"), endpoint(url, "The server")):
            raise _unavailable(f"The connection {connection_id} was made for another server than this one.")
        credentials = await self._tokens.current(connection_id, state, refused)
        if self._is_over(credentials.expires_at_ms):
            raise _unavailable(f"The token of the connection {connection_id} has expired: add another one.")
        return credentials

    async def note_refusal(self, connection_id: str, challenge: str) -> tuple[str, ...] | None:
        """Notes the scopes that a server asks for in an answer 403 with this WWW-Authenticate, so that the next login
        asks for them, and returns those with a plain name. None: more scopes would not help. Raises as `lend`."""
        found = read_challenge(challenge)
        if found is None or found.error != "insufficient_scope":
            return None
        named = tuple(scope for scope in found.scopes if _PLAIN.fullmatch(scope))[:MAX_NAMED]
        state = await self._read(connection_id)
        if state is not None and named:
            await self._tokens.want(connection_id, state, named)
        return named

    def _is_over(self, ends_ms: int | None) -> bool:
        return ends_ms is not None and self._clock.now_ns() // 1_000_000 >= ends_ms


def _unavailable(message: str) -> Unavailable:
    return Unavailable(message, code="connection_unavailable")
