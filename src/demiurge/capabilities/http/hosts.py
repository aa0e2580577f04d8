"""Lists of permitted hosts, as a user writes them: complete names such as `api.example.com` or `host:8443`."""

from __future__ import annotations

from collections.abc import Iterable

from demiurge.capabilities.http.addresses import refused
from demiurge.capabilities.http.urls import parse_url
from demiurge.errors import InvalidValue
from demiurge.values.article import with_article

__all__ = ["checked_hosts", "origin_of"]

_ADVICE = (
    ("://", "has a scheme: write the host alone; requests go by https"),
    ("*", "has a wildcard: name each host"),
    ("@", "has a user name: write the host alone"),
    ("/", "has a path: write the host alone"),
    ("?", "has a query: write the host alone"),
    ("#", "has a fragment: write the host alone"),
)


def checked_hosts(hosts: Iterable[str]) -> tuple[str, ...]:
    """Returns the hosts in one form, each once, in order: in ASCII, in lower case, without a final dot, with a port
    only if it is not 443. Raises InvalidValue (`bad_host`) that says which host is wrong and what to write."""
    if isinstance(hosts, str | bytes):
        raise _bad("The hosts are a text: write a list such as ['api.example.com']")
    if not isinstance(hosts, Iterable):
        raise _bad(f"The hosts are {hosts!r}, and no list: write one such as ['api.example.com']")
    return tuple(sorted({_checked(host) for host in hosts}))


def origin_of(host: str) -> str:
    """Returns the origin of a host in the form of `checked_hosts`, such as `https://api.example.com`."""
    return f"https://{host}"


def _checked(host: object) -> str:
    if not isinstance(host, str):
        raise _bad(f"The host {host!r} is no text: write one such as 'api.example.com'")
    for mark, advice in _ADVICE:
        if mark in host:
            raise _bad(f"The host {host!r} {advice}")
    try:
        url = parse_url(origin_of(f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host))
    except InvalidValue as error:
        raise _bad(f"The host {host!r} {error.message}: write one such as 'api.example.com' or 'host:8443'") from None
    if (kind := _not_public(url.host)) is not None:
        raise _bad(
            f"The host {host!r} is {kind}, not of the public internet: a grant in a manifest of your own reaches it, "
            "with internal_networks"
        )
    return url.authority


def _not_public(host: str) -> str | None:
    if host == "localhost" or host.endswith(".localhost"):
        return "this machine"
    try:
        found = refused(host, ())
    except ValueError:  # a name: its addresses are checked at each request
        return None
    return with_article(f"{found} address") if found is not None else None


def _bad(message: str) -> InvalidValue:
    return InvalidValue(f"{message}.", code="bad_host")
