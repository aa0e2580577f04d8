"""The caller of a request: a token in a header, or the cookie of a browser that has logged in.

Invariant: the caller comes from the token alone, never from a field of the request. A browser attaches its cookie to
every request, also to one that another site caused. So a write that is authenticated by a cookie needs the CSRF header
as well, whose value only a page of this server can read.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import deque
from dataclasses import dataclass, field
from typing import Annotated, Final

from fastapi import Depends, Request

from demiurge.bootstrap import World
from demiurge.bootstrap.tokens import Tokens
from demiurge.server.errors import Refused
from demiurge.server.guard import SAFE_METHODS
from demiurge.server.options import ServeOptions
from demiurge.values.clock import SystemClock, SystemEntropy
from demiurge.world.tokens import Token

__all__ = [
    "CSRF_HEADER",
    "CallerSession",
    "Callers",
    "CurrentSession",
    "CurrentWorld",
    "callers_of",
    "cookie_name",
    "csrf_of",
]

CSRF_HEADER: Final = "x-demiurge-csrf"
CODE_S: Final = 600.0
"""How long a login link is good for, in seconds."""

WINDOW_S: Final = 60.0

_CLOCK, _ENTROPY = SystemClock(), SystemEntropy()


@dataclass(frozen=True, slots=True)
class CallerSession:
    """The token of a request, the token's secret text, and the world as the token's caller sees it."""

    token: Token
    secret: str = field(repr=False)
    world: World


class Callers:
    """Finds the caller of each request to a server. `tokens` are those of the world that is served."""

    def __init__(self, world: World, tokens: Tokens, options: ServeOptions) -> None:
        self.world, self.tokens, self._options = world, tokens, options
        self._codes: dict[bytes, float] = {}
        self._failures: dict[str, deque[float]] = {}

    def new_login_code(self) -> str:
        """Returns a code with which one browser can log in as the user, once, within `CODE_S`."""
        code = _ENTROPY.token(24).hex()
        self._codes[_digest(code)] = _now_s() + CODE_S
        return code

    async def login(self, address: str, *, code: str | None, token: str | None) -> str:
        """Returns the secret for the cookie of a browser at `address` that shows a login code or a token. Raises
        Refused (401; 429 after too many failures)."""
        self._require_patience(address)
        if code is not None:
            good_until = self._codes.pop(_digest(code), 0.0)
            if _now_s() < good_until or await self.tokens.take_login(code):
                return await self.tokens.add_session(self.world.caller)
        elif token is not None and await self.tokens.find(token) is not None:
            return token
        self._failures.setdefault(address, deque()).append(_now_s())
        raise Refused(401, "bad_login", _BAD_LOGIN)

    def _require_patience(self, address: str) -> None:
        now = _now_s()
        for known, failures in list(self._failures.items()):
            while failures and failures[0] < now - WINDOW_S:
                failures.popleft()
            if not failures:
                del self._failures[known]
        if len(self._failures.get(address, ())) >= self._options.login_attempts:
            raise Refused(429, "too_many_logins", "Too many logins failed; wait a minute.")

    async def session(self, request: Request) -> CallerSession:
        """Returns the session of a request. Raises Refused: 401 without a valid token, 403 without the CSRF header."""
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        cookie = request.cookies.get(cookie_name(self._options))
        secret = bearer.strip() if scheme.lower() == "bearer" else cookie
        token = await self.tokens.find(secret) if secret else None
        if token is None or secret is None:
            raise Refused(401, "unauthorized", "A valid token is needed: see `demiurge tokens add`, or log in.")
        if scheme.lower() != "bearer" and request.method not in SAFE_METHODS:
            given = request.headers.get(CSRF_HEADER, "")
            if not hmac.compare_digest(given.encode(), csrf_of(secret).encode()):
                raise Refused(403, "bad_csrf", f"A write with a cookie needs the header {CSRF_HEADER}.")
        request.state.actor = token.caller.actor
        return CallerSession(token, secret, self.world.acting_as(token.caller))

    async def is_good(self, session: CallerSession) -> bool:
        """Returns whether the token of a session that was found earlier is still good."""
        return await self.tokens.find(session.secret) is not None


_BAD_LOGIN: Final = (
    "This login is not valid, or was used before. `demiurge tokens link` makes a new link, and `demiurge tokens add` "
    "makes a token."
)


def cookie_name(options: ServeOptions) -> str:
    """Returns the name of the session cookie: a browser sends the cookies of one host to all of its ports."""
    return f"demiurge_{options.port}"


def csrf_of(secret: str) -> str:
    """Returns the value of the CSRF header for a session."""
    return hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()


def _now_s() -> float:
    return _CLOCK.monotonic_ns() / 1e9


def _digest(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "replace")).digest()


def callers_of(request: Request) -> Callers:
    """Returns the callers of the server that a request came to."""
    callers: Callers = request.app.state.callers
    return callers


async def _session(request: Request) -> CallerSession:
    return await callers_of(request).session(request)


async def _world(request: Request) -> World:
    return (await callers_of(request).session(request)).world


CurrentSession = Annotated[CallerSession, Depends(_session)]
CurrentWorld = Annotated[World, Depends(_world)]
