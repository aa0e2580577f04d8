"""The checks that every request passes before a route: host, origin and size; the headers of every answer; and the
access log, which holds neither queries nor headers nor bodies.

Plain ASGI, so that streams pass through unbuffered.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from demiurge.server.errors import Refused, error_response
from demiurge.server.options import ServeOptions
from demiurge.values.clock import SystemClock

__all__ = ["SAFE_METHODS", "Guard"]

LOG = logging.getLogger(__name__)
_CLOCK = SystemClock()

_PORTS: Final = {"http": 80, "https": 443}

SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
API_HEADERS: Final = (*HEADERS, (b"cache-control", b"no-store"))
"""The headers of every answer, but for those that the answer has itself."""


class Guard:
    """Refuses a request for another host (400), a write from another site (403) and a body that is too large (413)."""

    def __init__(self, app: ASGIApp, options: ServeOptions) -> None:
        self._app, self._hosts, self._max_body = app, options.hosts, options.max_body
        self._scheme = "https" if options.tls else "http"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        status, began_ns = 0, _CLOCK.monotonic_ns()

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = dict(message["headers"])
                always = API_HEADERS if scope["path"].startswith("/api/") else HEADERS
                message["headers"] += [header for header in always if header[0] not in own]
            await send(message)

        try:
            self._check(scope["method"], Headers(scope=scope))
            await self._app(scope, self._limited(receive), send_guarded)
        except Refused as refused:
            if status:
                raise  # the answer has begun: the connection ends
            answer = error_response(refused.status_code, refused.code, refused.message)
            await answer(scope, receive, send_guarded)
        finally:
            if LOG.isEnabledFor(logging.INFO):
                took_ms = (_CLOCK.monotonic_ns() - began_ns) / 1e6
                actor = scope.get("state", {}).get("actor", "-")
                path = quote(scope["path"])  # without the query, which can hold the code of a login
                LOG.info("%s %s %d %.1f ms %s", scope["method"], path, status, took_ms, actor)

    def _check(self, method: str, headers: Headers) -> None:
        hosts = headers.getlist("host")
        host = hosts[0] if len(hosts) == 1 else ""
        if _name(f"//{host}") not in self._hosts:
            raise Refused(400, "bad_host", "This server does not answer under that host name; see --name.")
        origin = headers.get("origin")
        if origin is not None and method not in SAFE_METHODS:
            scheme = headers.get("x-forwarded-proto", self._scheme)  # no page of another site can send this header
            if _site(origin) is None or _site(origin) != _site(f"{scheme}://{host}"):
                raise Refused(403, "bad_origin", "A page of another site may not write here.")
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            raise Refused(400, "bad_length", "Content-Length is no number.")
        if int(length) > self._max_body:
            raise self._too_large()

    def _limited(self, receive: Receive) -> Receive:
        """Counts a body that comes without a length."""
        seen = 0

        async def receive_limited() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max_body:
                raise self._too_large()
            return message

        return receive_limited

    def _too_large(self) -> Refused:
        return Refused(413, "too_large", f"A request body takes at most {self._max_body} bytes.")


@lru_cache(64)
def _name(address: str) -> str:
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018 - raises if it is no number
    except ValueError:
        return ""
    return "" if parts.username is not None else parts.hostname or ""


@lru_cache(64)
def _site(origin: str) -> tuple[str, str, int] | None:
    """Returns scheme, host and port of an origin; None for anything that no page of a server has as its origin."""
    try:
        parts = urlsplit(origin)
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        return None
    is_bare = origin.lower() == f"{parts.scheme}://{parts.netloc}".lower()
    return (parts.scheme, parts.hostname, port) if is_bare and parts.hostname and parts.username is None else None
