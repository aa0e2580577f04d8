"""Finds the authorization server of a protected address.

The address is asked without credentials; its challenge names the scopes, and the resource's metadata (RFC 9728). Else
that metadata is looked for at its well-known places, below the path first. It names the authorization server, whose own
metadata is looked for in the order of the Model Context Protocol's revision 2026-07-28. An address without metadata, as
in that protocol's revision 2025-03-26, is taken for its own authorization server.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from demiurge.capabilities.http.urls import WebUrl
from demiurge.capabilities.oauth.challenge import Challenge, read_challenge
from demiurge.capabilities.oauth.endpoints import named_endpoint, origin_of
from demiurge.capabilities.oauth.errors import LoginFailed
from demiurge.capabilities.oauth.exchange import OAuthHttp
from demiurge.capabilities.oauth.metadata import AuthorizationServer, ProtectedResource, read_resource, read_server

__all__ = ["Discovered", "discover"]

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_SERVER: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"

_PING: Final = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
"""A request that a server without protection answers without doing anything."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """A protected address, its authorization server, and the scopes that its challenge asks for."""

    resource: ProtectedResource
    server: AuthorizationServer
    challenged: tuple[str, ...]


async def discover(http: OAuthHttp, url: WebUrl) -> Discovered:
    """Finds the authorization server of `url`. Raises LoginFailed (`not_protected`, `metadata_invalid`, `pkce_missing`,
    `oauth_unavailable`)."""
    challenge = await _challenge(http, url)
    resource = await _resource(http, url, challenge)
    if resource is not None:
        server = await _server(http, resource.servers[0])
    else:
        origin = origin_of(url)
        found = await http.document(_at(url, _SERVER))
        if found is None:
            what = "a login" if challenge is None else "where to log in"
            raise LoginFailed(
                f"{url.host} does not say that it needs {what}. Check the address, or add its token with "
                "`demiurge connections add`.",
                code="not_protected",
            )
        server = read_server(found, (origin, f"{origin}/"), http.networks)
        resource = ProtectedResource(str(url), (server.issuer,), ())
    return Discovered(resource, server, challenge.scopes if challenge is not None else ())


async def _challenge(http: OAuthHttp, url: WebUrl) -> Challenge | None:
    """Returns the challenge of `url` for a request without credentials."""
    for method, body in (("GET", b""), ("POST", _PING)):
        try:
            answer = await http.look(method, url, body)
        except LoginFailed as failure:
            if failure.details.get("reason") in _SAYS_NOTHING:
                continue
            raise
        challenge = read_challenge(answer.headers.get("www-authenticate", "")) if answer.status in (401, 403) else None
        if challenge is not None:
            return challenge
    return None


_SAYS_NOTHING: Final = frozenset({"timeout", "response_too_large", "unknown_outcome", "bad_encoding"})
"""Why a request has no answer though its address is right: an open stream of events, for one."""


async def _resource(http: OAuthHttp, url: WebUrl, challenge: Challenge | None) -> ProtectedResource | None:
    places = [_at(url, _RESOURCE)]
    if url.path != "/":
        places.insert(0, _at(url, _RESOURCE + url.path))
    if challenge is not None and challenge.resource_metadata:
        place = named_endpoint(challenge.resource_metadata, "The address of the resource's metadata", http.networks)
        places.insert(0, place)
    for place in places:
        document = await http.document(place)
        if document is not None:
            return read_resource(document, url)
    return None


async def _server(http: OAuthHttp, issuer: str) -> AuthorizationServer:
    url = named_endpoint(issuer, "The issuer that the resource's metadata names", http.networks)
    path = url.path.rstrip("/")
    places = [_at(url, _SERVER + path), _at(url, _OPENID + path)]
    if path:
        places.append(_at(url, path + _OPENID))
    for place in places:
        document = await http.document(place)
        if document is not None:
            return read_server(document, (issuer,), http.networks)
    message = f"The authorization server {url.host} publishes no metadata, so it is not known how to log in there."
    raise LoginFailed(message, code="metadata_invalid")


def _at(url: WebUrl, path: str) -> WebUrl:
    return url._replace(path=path, target=path)
