"""One request to one checked address.

A name is resolved once, its addresses are checked, and the connection goes to exactly one of them; the name itself is
only sent to the server (in Host, and in SNI with its certificate). So a name that resolves differently a moment later
leads nowhere new. Redirects are followed only as far as asked, and each hop is checked like a first request. No
proxies, no cookies, no reused connections. If a request fails after the server may have acted on it, the outcome is
`unknown_outcome`, unless the request may be repeated.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any

import httpx

from demiurge.capabilities.http.addresses import networks, refused
from demiurge.capabilities.http.bodies import BodyRefused, read_body
from demiurge.capabilities.http.rules import http_problem, is_repeatable
from demiurge.capabilities.http.urls import WebUrl, joined
from demiurge.errors import DemiurgeError, InvalidValue, Unavailable
from demiurge.values.article import with_article

__all__ = [
    "MAX_BODY",
    "MAX_REDIRECTS",
    "MAX_TIMEOUT_S",
    "TIMEOUT_S",
    "GuardedAnswer",
    "GuardedHttp",
    "GuardedRequest",
    "HttpRefused",
    "Resolve",
    "resolve",
    "secret_header",
]

MAX_BODY = 16 * 1024 * 1024
MAX_REDIRECTS = 10
MAX_ADDRESSES = 4
HEADERS, HEADER_BYTES = 100, 16 * 1024
TIMEOUT_S, MAX_TIMEOUT_S, CONNECT_S = 30.0, 300.0, 10.0

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEPT_ELSEWHERE = frozenset(
    {"accept", "accept-language", "content-language", "content-type", "idempotency-key", "range", "user-agent"}
)
"""Headers that are sent on to another origin: none that identifies the sender."""
_NOT_KEPT = frozenset({"set-cookie", "set-cookie2", "authentication-info", "proxy-authenticate"})
"""Headers of an answer that never get into a receipt: they let their reader act for somebody else."""

_TRUSTS_NONE = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no certificate; for http, which uses none."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a name, best first. Raises OSError."""


class HttpRefused(DemiurgeError):
    """A request is not made, or its answer is not accepted."""

    code = "request_refused"


async def resolve(host: str, port: int) -> Sequence[str]:
    """Resolves a name as the machine does (`Resolve`)."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def secret_header(name: str, secret: str) -> str:
    """Returns the value of the header `name` that sends `secret`: in `authorization`, a secret of one word is a Bearer
    token. Raises Unavailable (`secret_unavailable`) without anything of the secret."""
    if not secret.isascii() or not secret.isprintable():
        raise Unavailable("The secret holds characters that a header can't have.", code="secret_unavailable")
    return f"Bearer {secret}" if name.lower() == "authorization" and " " not in secret else secret


@dataclass(frozen=True, slots=True)
class GuardedRequest:
    """A request as it is sent. Its values may hold secrets, so no representation shows them."""

    method: str
    url: WebUrl
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, method: str, url: WebUrl, headers: Mapping[str, str], body: bytes = b"") -> GuardedRequest:
        """Returns a request with names of headers in lower case, and the headers that every request has."""
        named = {name.lower(): value for name, value in headers.items()}
        return cls(method.upper(), url, {"accept": "*/*", "user-agent": "demiurge", **named}, body)


@dataclass(frozen=True, slots=True)
class GuardedAnswer:
    """An answer of any status. `url` answered; header names are in lower case, and none of them acts for somebody."""

    status: int
    url: WebUrl
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class _Journey:
    """The limits of one performance, and its progress: `sent` is true once a server may have acted on it. With
    `status_only` headers and body of the answer are not read."""

    grant: Mapping[str, Any]
    limit: int
    sent: bool = False
    status_only: bool = False


class GuardedHttp:
    """Sends requests to the addresses that a grant covers (`demiurge.capabilities.http.rules`). The caller has checked
    the request itself with `request_problem` and `headers_problem`; addresses, redirects and answers are checked here.
    `tls` says which certificates https trusts; `resolve` and `connect_s` (seconds) are for tests and unusual networks.
    """

    def __init__(
        self, *, resolve: Resolve = resolve, tls: ssl.SSLContext | None = None, connect_s: float = CONNECT_S
    ) -> None:
        self._resolve, self._tls, self._connect_s = resolve, tls, connect_s

    async def send(
        self,
        grant: Mapping[str, Any],
        request: GuardedRequest,
        *,
        redirects: int | None = None,
        timeout_s: float | None = None,
    ) -> GuardedAnswer:
        """Sends a request and follows at most `redirects` redirects. Raises HttpRefused and BodyRefused with a code:
        `unknown_outcome` if the request may have been carried out and may not be repeated."""
        granted = grant.get("max_body")
        journey = _Journey(grant, MAX_BODY if granted is None else min(granted, MAX_BODY))
        if len(request.body) > journey.limit:
            raise HttpRefused(f"The request's body is larger than {journey.limit} bytes.", code="body_too_large")
        try:
            async with asyncio.timeout(TIMEOUT_S if timeout_s is None else min(timeout_s, MAX_TIMEOUT_S)):
                return await self._follow(journey, request, min(redirects or 0, MAX_REDIRECTS))
        except (TimeoutError, httpx.TimeoutException):
            raise _broken(journey, request, "timeout", "No complete answer came in time.") from None
        except httpx.TransportError:
            message = "The connection broke before the answer was there."
            raise _broken(journey, request, "connection_broken", message) from None

    async def post(
        self, grant: Mapping[str, Any], url: WebUrl, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> int:
        """Sends one POST, to the addresses that `grant` allows, and returns the status of the answer. Redirects are not
        followed. Raises HttpRefused (`timeout`, `connection_broken` and the codes of `http.request`)."""
        journey = _Journey(grant, 0, status_only=True)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._exchange(journey, GuardedRequest("POST", url, headers, body), follows=False)
        except (TimeoutError, httpx.TimeoutException):
            raise HttpRefused(f"{url.host} did not answer in time.", code="timeout") from None
        except httpx.TransportError:
            raise HttpRefused(f"The connection to {url.host} broke.", code="connection_broken") from None
        return answer.status

    async def _follow(self, journey: _Journey, hop: GuardedRequest, redirects: int) -> GuardedAnswer:
        """Returns the last answer. If no redirects are to be followed, a redirect is an answer like any other."""
        for _ in range(redirects + 1):
            answer = await self._exchange(journey, hop, follows=redirects > 0)
            location = answer.headers.get("location")
            if redirects == 0 or answer.status not in _REDIRECTS or location is None:
                return answer
            hop = _next_hop(journey.grant, hop, answer.status, location)
        raise HttpRefused(f"There were more than {redirects} redirects.", code="too_many_redirects")

    async def _exchange(self, journey: _Journey, hop: GuardedRequest, *, follows: bool) -> GuardedAnswer:
        """Sends one request to the first checked address that accepts a connection."""
        addresses = await self.addresses(journey.grant, hop.url)
        for address in addresses:
            try:
                return await self._ask(journey, hop, address, follows=follows)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if _is_about_trust(error):
                    message = f"{hop.url.host} could not prove that it is {hop.url.host}."
                    raise HttpRefused(message, code="tls_failed") from None
        raise HttpRefused(f"No connection to {hop.url.host} could be made.", code="connect_failed")

    async def addresses(self, grant: Mapping[str, Any], url: WebUrl) -> list[str]:
        """Returns the addresses that a request to `url` may go to. The name is resolved once only. Raises HttpRefused
        (`name_not_found`, `address_refused`)."""
        granted = networks(sorted(grant.get("internal_networks") or ()))
        try:
            ip_address(url.host)
            found: Sequence[str] = [url.host]
        except ValueError:
            try:
                found = await self._resolve(url.host, url.port)
            except OSError:
                raise HttpRefused(f"There is no address for {url.host}.", code="name_not_found") from None
        why = {address: refused(address, granted) for address in found}
        allowed = [address for address in found if why[address] is None]
        if not allowed:
            kinds = ", ".join(sorted({kind for kind in why.values() if kind is not None})) or "no"
            raise HttpRefused(f"{url.host} leads to {with_article(kinds)} address.", code="address_refused")
        return allowed[:MAX_ADDRESSES]

    async def _ask(self, journey: _Journey, hop: GuardedRequest, address: str, *, follows: bool) -> GuardedAnswer:
        url = hop.url
        headers = {"host": url.authority, **hop.headers, "accept-encoding": "gzip, deflate", "connection": "close"}
        limits = httpx.Timeout(None, connect=self._connect_s).as_dict()
        extensions: dict[str, Any] = {
            "timeout": limits,
            "sni_hostname": url.host,
            "target": url.target.encode(),  # exactly as it was checked
            "trace": _noting(journey),
        }
        destination = httpx.URL(scheme=url.scheme, host=address, port=url.port)
        request = httpx.Request(hop.method, destination, headers=headers, content=hop.body, extensions=extensions)
        trust = self._trust() if url.scheme == "https" else _TRUSTS_NONE
        async with httpx.AsyncHTTPTransport(verify=trust, trust_env=False) as transport:
            response = await transport.handle_async_request(request)
            try:
                if journey.status_only:
                    return GuardedAnswer(response.status_code, url, {}, b"")
                kept = _kept(response.headers)
                skips = hop.method == "HEAD" or (follows and response.status_code in _REDIRECTS and "location" in kept)
                body = b"" if skips else await _body(journey, response)
            finally:
                await response.aclose()
        return GuardedAnswer(response.status_code, url, kept, body)

    def _trust(self) -> ssl.SSLContext:
        """Returns the TLS context, made when first needed: making it reads every certificate of the machine's
        authorities."""
        if self._tls is None:
            self._tls = httpx.create_ssl_context(trust_env=False)
        return self._tls


def _broken(journey: _Journey, request: GuardedRequest, code: str, message: str) -> HttpRefused:
    if journey.sent and not is_repeatable(request.method, request.headers):
        message, code = f"{message} It is not known whether the request was carried out.", "unknown_outcome"
    return HttpRefused(message, code=code)


def _is_about_trust(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _noting(journey: _Journey) -> Callable[[str, Any], Awaitable[None]]:
    async def note(event: str, _info: Any) -> None:
        if event == "http11.send_request_headers.started":
            journey.sent = True

    return note


async def _body(journey: _Journey, response: httpx.Response) -> bytes:
    length = response.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > journey.limit:
        raise BodyRefused(f"The answer is larger than {journey.limit} bytes.")
    assert isinstance(response.stream, AsyncIterable)
    return await read_body(response.stream, response.headers.get("content-encoding", ""), journey.limit)


def _kept(headers: httpx.Headers) -> dict[str, str]:
    """Returns an answer's headers as a receipt holds them. Raises HttpRefused if there are too many."""
    if len(headers.raw) > HEADERS or sum(len(name) + len(value) for name, value in headers.raw) > HEADER_BYTES:
        raise HttpRefused("The answer's headers are too long.", code="headers_too_large")
    kept: dict[str, str] = {}
    for name, value in headers.multi_items():
        if name.lower() not in _NOT_KEPT:
            kept[name.lower()] = f"{kept[name.lower()]}, {value}" if name.lower() in kept else value
    return kept


def _next_hop(grant: Mapping[str, Any], hop: GuardedRequest, status: int, location: str) -> GuardedRequest:
    """Returns the request that a redirect asks for, under the same grant. Raises HttpRefused."""
    try:
        url = joined(hop.url, location)
    except InvalidValue:
        raise HttpRefused("A redirect leads to no web address.", code="redirect_refused") from None
    if hop.url.scheme == "https" and url.scheme == "http":
        raise HttpRefused("A redirect leads from https to http.", code="redirect_refused")
    following = replace(hop, url=url)
    if (status == 303 and hop.method != "HEAD") or (status in (301, 302) and hop.method == "POST"):
        headers = {name: value for name, value in hop.headers.items() if not name.startswith("content-")}
        following = replace(following, method="GET", body=b"", headers=headers)
    if url.origin != hop.url.origin:
        headers = {name: value for name, value in following.headers.items() if name in _KEPT_ELSEWHERE}
        following = replace(following, headers=headers)
    problem = http_problem(grant, following.method, url)
    if problem is not None:
        raise HttpRefused(f"A redirect leads where the grant does not reach: {problem}.", code="redirect_refused")
    return following
