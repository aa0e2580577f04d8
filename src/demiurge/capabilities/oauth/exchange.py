"""Requests of a login: each to one origin, guarded, at most `SECONDS` long, its answer at most 64 KiB of JSON.

A request that only reads follows redirects within its origin; one with a code, a token or a client's secret follows
none. No answer is quoted in an error or a log.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode

from demiurge.capabilities.http.guarded import GuardedAnswer, GuardedHttp, GuardedRequest
from demiurge.capabilities.http.urls import WebUrl
from demiurge.capabilities.oauth.endpoints import grant_for
from demiurge.capabilities.oauth.errors import LoginFailed
from demiurge.errors import DemiurgeError
from demiurge.tools.connections.credentials import Secret

__all__ = ["JsonAnswer", "OAuthHttp", "basic_header"]

SECONDS: Final = 10.0
"""The time limit of one request."""
REDIRECTS: Final = 3
_JSON: Final = {"accept": "application/json"}


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """The answer of an endpoint: its status, and its JSON object, which is empty if the answer has none."""

    status: int
    document: Mapping[str, Any] = field(repr=False)


class OAuthHttp:
    """Sends the requests of a login through `guarded`; `networks` may be asked beside the public internet. Methods
    raise LoginFailed (`oauth_unavailable`) if there is no answer or none that is taken."""

    def __init__(self, guarded: GuardedHttp, networks: Sequence[str] = ()) -> None:
        self._guarded, self.networks = guarded, tuple(networks)

    async def require_reachable(self, url: WebUrl) -> None:
        """Raises LoginFailed (`oauth_unavailable`) if the host of `url` leads to no address that may be asked."""
        try:
            async with asyncio.timeout(SECONDS):
                await self._guarded.addresses(grant_for(url, self.networks), url)
        except TimeoutError:
            raise _unavailable(url, _REASONS["timeout"], "timeout") from None
        except DemiurgeError as error:
            raise _unavailable(url, _REASONS[error.code], error.code) from None

    async def look(self, method: str, url: WebUrl, body: bytes = b"") -> GuardedAnswer:
        """Sends a request without credentials, and follows no redirect."""
        content = {"content-type": "application/json"} if body else {}
        accepted = {"accept": "application/json, text/event-stream", **content}
        return await self._send(GuardedRequest.of(method, url, accepted, body), 0)

    async def document(self, url: WebUrl) -> Mapping[str, Any] | None:
        """Returns the JSON object at `url`; None if the server has none there (an answer other than 2xx below 500, a
        redirect to another origin, no JSON object)."""
        try:
            answer = await self._send(GuardedRequest.of("GET", url, _JSON), REDIRECTS)
        except LoginFailed as failure:
            if failure.details.get("reason") == "redirect_refused":
                return None
            raise
        if answer.status >= 500 or answer.status == 429:
            raise _unavailable(url, f"answered with the status {answer.status}", "status")
        return _object(answer.body) if answer.status == 200 else None

    async def post_form(
        self, url: WebUrl, fields: Mapping[str, str | Secret], client: Mapping[str, Secret] | None = None
    ) -> JsonAnswer:
        """Posts a form. Values that are secrets, and the headers of `client`, are revealed in the request alone."""
        return await self._post(_form(url, fields, client or {}))

    async def post_json(self, url: WebUrl, document: Mapping[str, Any]) -> JsonAnswer:
        headers = {**_JSON, "content-type": "application/json"}
        return await self._post(GuardedRequest.of("POST", url, headers, json.dumps(document).encode()))

    async def _post(self, request: GuardedRequest) -> JsonAnswer:
        answer = await self._send(request, 0)
        if 300 <= answer.status < 400:
            raise _unavailable(request.url, "answered with a redirect, which is not followed", "redirect_refused")
        return JsonAnswer(answer.status, _object(answer.body) or {})

    async def _send(self, request: GuardedRequest, redirects: int) -> GuardedAnswer:
        grant = grant_for(request.url, self.networks)
        try:
            return await self._guarded.send(grant, request, redirects=redirects, timeout_s=SECONDS)
        except DemiurgeError as error:
            reason = _REASONS.get(error.code, "did not answer as it should")
            raise _unavailable(request.url, reason, error.code) from None


_REASONS: Final[Mapping[str, str]] = {
    "address_refused": "leads to an address outside the public internet; --internal-network allows a network",
    "connect_failed": "accepts no connection",
    "name_not_found": "has no address",
    "redirect_refused": "redirects to another address, which is not followed",
    "response_too_large": "answered with more than 64 KiB",
    "timeout": f"did not answer within {SECONDS:.0f} seconds",
    "tls_failed": "could not prove with a certificate who it is",
    "too_many_redirects": "redirects too often",
    "unknown_outcome": f"broke off, or gave no complete answer within {SECONDS:.0f} seconds",
}


def basic_header(client_id: str, secret: Secret) -> Secret:
    """Returns the header Authorization of a client with a secret (RFC 6749, 2.3.1)."""
    pair = f"{quote(client_id, safe='')}:{quote(secret.reveal(), safe='')}"
    return Secret(f"Basic {b64encode(pair.encode()).decode()}")


def _form(url: WebUrl, fields: Mapping[str, str | Secret], client: Mapping[str, Secret]) -> GuardedRequest:
    """Returns a request whose secrets no variable of another function shows."""
    body = urlencode({name: _text(value) for name, value in fields.items()}).encode()
    headers = {**_JSON, "content-type": "application/x-www-form-urlencoded"}
    return GuardedRequest.of("POST", url, {**headers, **{name: text.reveal() for name, text in client.items()}}, body)


def _text(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value


def _object(body: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _unavailable(url: WebUrl, what: str, reason: str) -> LoginFailed:
    return LoginFailed(f"{url.host} {what}.", code="oauth_unavailable", details={"reason": reason})
