"""The addresses of a login: https, or http on this machine alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final

from demiurge.capabilities.http.addresses import networks as parse_networks
from demiurge.capabilities.http.addresses import refused
from demiurge.capabilities.http.urls import WebUrl, is_inside, parse_url
from demiurge.capabilities.oauth.errors import LoginFailed
from demiurge.errors import InvalidValue
from demiurge.values.article import with_article

__all__ = ["allowed_networks", "covers", "endpoint", "grant_for", "is_loopback", "named_endpoint", "origin_of"]

LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
MAX_ANSWER: Final = 64 * 1024
"""The maximum size of a server's answer, in bytes."""


def endpoint(text: object, name: str, *, code: str = "metadata_invalid") -> WebUrl:
    """Parses the address `name`. Raises LoginFailed (`code`) for what is no https address; http is accepted for this
    machine (127.0.0.1, ::1, localhost)."""
    try:
        url = parse_url(text) if isinstance(text, str) else None
    except InvalidValue:
        url = None
    if url is None or "#" in str(text) or (url.scheme != "https" and not is_loopback(url)):
        raise LoginFailed(f"{name} is no https address (http is for this machine alone).", code=code)
    return url


def named_endpoint(text: object, name: str, networks: Sequence[str]) -> WebUrl:
    """Parses the address `name` in a server's metadata: `endpoint`, but outside `networks` it may not be an address of
    this machine or of a private network. So no server has a browser or this program ask them. Raises LoginFailed
    (`metadata_invalid`)."""
    url = endpoint(text, name)
    host = "127.0.0.1" if _is_localhost(url.host) else url.host
    try:
        kind = refused(host, parse_networks(networks))
    except ValueError:  # a name, which is resolved before it is asked
        return url
    if kind is not None:
        raise LoginFailed(f"{name} is {with_article(kind)} address, which is not allowed.", code="metadata_invalid")
    return url


def is_loopback(url: WebUrl) -> bool:
    """Returns whether an address names this machine."""
    try:
        return ip_address(url.host).is_loopback
    except ValueError:
        return url.host == "localhost"


def _is_localhost(host: str) -> bool:
    """Returns whether browsers take a name for this machine (RFC 6761, 6.3)."""
    return host == "localhost" or host.endswith(".localhost")


def origin_of(url: WebUrl) -> str:
    """Returns an address without path and query: `https://api.example.com`."""
    return f"{url.scheme}://{url.authority}"


def covers(resource: WebUrl, url: WebUrl) -> bool:
    """Returns whether tokens for `resource` may be sent to `url`: the same origin, and the same path or one below."""
    return url.origin == resource.origin and is_inside(url.path, resource.path.rstrip("/") or "/")


def grant_for(url: WebUrl, networks: Sequence[str]) -> Mapping[str, Any]:
    """Returns the grant of one request to `url`: its origin alone, the public internet and `networks`."""
    return {"origins": [origin_of(url)], "internal_networks": list(networks), "max_body": MAX_ANSWER}


def allowed_networks(url: WebUrl, networks: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the networks that the requests of a login at `url` may go to: this machine's own, if `url` names it."""
    return (*networks, *LOOPBACK) if is_loopback(url) else networks
