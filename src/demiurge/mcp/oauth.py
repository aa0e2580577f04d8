"""The authorization of requests to MCP servers by a connection: its token goes with each request to the server's own
origin, and nowhere else.

Settings, handlers and contexts hold the connection's id alone. A token is asked for at each request, so a revocation
counts at once. If a server refuses it, it is renewed and the request is sent again, once: a server that answers 401 has
not taken the request. Importing this module imports httpx2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Final, Protocol

import httpx2

from demiurge.errors import DemiurgeError, InvalidValue, Unavailable
from demiurge.mcp.flow import current_note
from demiurge.mcp.settings import ServerSettings
from demiurge.tools.connections.credentials import Credentials
from demiurge.tools.connections.leak import LeakWatch

__all__ = ["ConnectionAuth", "TokenLender", "auth_of"]

_REMEMBERED: Final = 4
"""How many of the tokens that a server was sent last are looked for in its messages."""


class TokenLender(Protocol):
    """Lends the credentials of connections."""

    async def lend(self, connection_id: str, url: str, refused: Credentials | None = None) -> Credentials:
        """Returns the credentials of a connection for requests to `url`; other ones than those that were `refused`, if
        there are any. Raises DemiurgeError with a message for people."""

    async def note_refusal(self, connection_id: str, challenge: str) -> tuple[str, ...] | None:
        """Returns the scopes that a server asks for in an answer 403 with this WWW-Authenticate, as far as a person can
        read them; the next login asks for them. None: more scopes would not help. Raises DemiurgeError."""


def auth_of(lender: TokenLender) -> Callable[[ServerSettings], ConnectionAuth | None]:
    """Returns the argument `auth_of` of `McpClients`: servers whose settings name a connection get its token."""

    def auth(settings: ServerSettings) -> ConnectionAuth | None:
        if settings.connection_id is None or settings.url is None:
            return None
        return ConnectionAuth(lender, settings.connection_id, settings.url)

    return auth


class ConnectionAuth(httpx2.Auth):
    """The authorization of one server by one connection. `problem`: why the server could not be asked last, or refused
    to answer, as a sentence for people; "" if it did neither. `public_problem`: the same without a word of the server,
    for a model too. Raises InvalidValue for an address to which no token may go."""

    def __init__(self, lender: TokenLender, connection_id: str, url: str) -> None:
        self._lender, self._connection_id = lender, connection_id
        self._origin = _origin(httpx2.URL(url))
        self._sent: deque[LeakWatch] = deque(maxlen=_REMEMBERED)
        self._headers = {"authorization"}
        self.problem = self.public_problem = ""
        if not _is_safe(httpx2.URL(url)):
            raise InvalidValue("A token goes to https addresses alone (http is for this machine).", path="url")

    def __repr__(self) -> str:
        return f"<authorization by the connection {self._connection_id}>"

    def leaks(self, text: str) -> bool:
        """Returns whether a token that was sent lately is in a text of the server."""
        return any(watch.finds(text) for watch in self._sent)

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Sends the request with the token, if it goes to the server. Raises Unavailable if there is no token; then
        nothing was sent."""
        if _origin(request.url) != self._origin:
            self._strip(request)
            yield request
            return
        credentials = await self._lend(request)
        self._authorize(request, credentials)
        response = yield request
        if response.status_code == 401 and _origin(response.url) == self._origin:
            fresh = await self._other_than(request, credentials)
            if fresh is None:
                return
            await response.aread()
            self._authorize(request, fresh)
            response = yield request
        await self._judge(response)

    async def _lend(self, request: httpx2.Request, refused: Credentials | None = None) -> Credentials:
        """Returns the credentials for a request. Its address may be another one of the server, after a redirect."""
        try:
            return await self._lender.lend(self._connection_id, str(request.url), refused)
        except DemiurgeError as error:
            self._tell(error.message)
            raise Unavailable(error.message, code=error.code) from None

    async def _other_than(self, request: httpx2.Request, refused: Credentials) -> Credentials | None:
        """Returns renewed credentials; None if there are none, and `problem` says why."""
        try:
            fresh = await self._lend(request, refused)
        except Unavailable:
            return None
        if fresh.access_token.reveal() == refused.access_token.reveal():
            self._tell(f"The server refused the token of the connection {self._connection_id}: add another one.")
            return None
        return fresh

    def _authorize(self, request: httpx2.Request, credentials: Credentials) -> None:
        self._headers |= set(credentials.headers())
        self._strip(request)
        request.headers.update(credentials.headers())
        if not self.leaks(credentials.access_token.reveal()):
            self._sent.append(LeakWatch([credentials.access_token]))

    def _strip(self, request: httpx2.Request) -> None:
        """Removes earlier credentials, which a redirected request may still have."""
        for name in self._headers:
            request.headers.pop(name, None)

    async def _judge(self, response: httpx2.Response) -> None:
        """Sets `problem` by the last answer."""
        if response.status_code == 403:
            await self._note_denial(response.headers.get("www-authenticate", ""))
        elif response.status_code == 401:
            self._tell(f"The server refused the renewed token of the connection {self._connection_id}.")
        else:
            self._tell("")

    async def _note_denial(self, challenge: str) -> None:
        name = self._connection_id
        try:
            scopes = await self._lender.note_refusal(name, challenge)
        except DemiurgeError as error:
            return self._tell(error.message)
        if scopes is None:
            return self._tell(f"The server does not allow this to the connection {name}.")
        how = f"`demiurge connections login {name}` asks for more."
        lacks = f"The connection {name} lacks a scope for this: {how}"
        named = f"The connection {name} lacks these scopes: {', '.join(scopes)}. {how}" if scopes else lacks
        return self._tell(named, lacks)

    def _tell(self, problem: str, public: str | None = None) -> None:
        self.problem, self.public_problem = problem, problem if public is None else public
        if problem and (note := current_note()) is not None:
            note.problem = self.public_problem


def _origin(url: httpx2.URL) -> tuple[str, str, int]:
    return url.scheme, url.host.lower(), url.port or {"http": 80, "https": 443}.get(url.scheme, 0)


def _is_safe(url: httpx2.URL) -> bool:
    return url.scheme == "https" or (url.scheme == "http" and url.host in ("localhost", "127.0.0.1", "::1"))
