"""Which requests a grant covers: the same rules for a world's grants and for `LocalHttp`.

A grant is a mapping with any of `hosts`, `methods`, `schemes`, `ports`, `path_prefixes`, `origins`, `max_body`,
`max_redirects`, `internal_networks`, `secrets`. A field that is absent does not limit. Two lists *add* permissions, so
an absent list and an empty one mean the same: `internal_networks` and `secrets`. The address behind a name and the size
of an answer are known only while the request runs; `demiurge.capabilities.http.guarded` checks both by the same grant.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

from demiurge.capabilities.http.urls import WebUrl, has_dot_segments, host_form, is_inside, parse_url
from demiurge.errors import InvalidValue
from demiurge.tools.capabilities import SecretName

__all__ = [
    "MAX_HEADERS",
    "MAX_HEADER_BYTES",
    "METHODS",
    "SAFE_METHODS",
    "headers_problem",
    "http_problem",
    "is_repeatable",
    "request_problem",
]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS = SAFE_METHODS | {"POST", "PUT", "PATCH", "DELETE"}

MAX_HEADERS = 64
MAX_HEADER_BYTES = 8192

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_VALUE = re.compile(r"[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?|")
_OWN_HEADERS = frozenset(
    (
        *("accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer"),
        *("proxy-authorization", "proxy-connection", "transfer-encoding", "upgrade"),
    )
)
"""Headers that are set for each request: they say where it ends and to whom it goes."""
_CREDENTIALS = re.compile(r"authorization|cookie2?|.*(api|auth|access)[_-]?(key|token)|.*secret.*")
"""Headers whose values must be named as secrets, because a literal would be recorded."""


def is_repeatable(method: str, header_names: Iterable[str]) -> bool:
    """Returns whether a request may be sent twice: it only reads, or it has an `Idempotency-Key`."""
    return method in SAFE_METHODS or "idempotency-key" in {name.lower() for name in header_names}


def request_problem(grant: Mapping[str, Any], method: str, text: str, max_redirects: int = 0) -> str | None:
    """Returns why `grant` does not cover a request to the URL in `text`, or why it cannot be read, else None."""
    try:
        for network in grant.get("internal_networks") or ():
            ipaddress.ip_network(network)
    except ValueError:
        return "cap_params_invalid"
    try:
        url = parse_url(text)
    except InvalidValue as error:
        return error.code
    limit = grant.get("max_redirects")
    if limit is not None and max_redirects > limit:
        return "redirects_exceeded"
    return http_problem(grant, method, url)


def http_problem(grant: Mapping[str, Any], method: str, url: WebUrl) -> str | None:
    """Returns why `grant` does not cover this request line, else None. It is asked again for each hop of a redirect."""
    methods, hosts, prefixes = grant.get("methods"), grant.get("hosts"), grant.get("path_prefixes")
    if method not in METHODS or (methods is not None and method not in {name.upper() for name in methods}):
        return "method_not_allowed"
    schemes, ports = grant.get("schemes"), grant.get("ports")
    if schemes is not None and url.scheme not in {name.lower() for name in schemes}:
        return "scheme_not_allowed"
    if ports is not None and url.port not in ports:
        return "port_not_allowed"
    if hosts is not None and url.host not in {_granted_host(name) for name in hosts}:
        return "host_not_allowed"
    origins = grant.get("origins")
    if origins is not None and f"{url.scheme}://{url.authority}" not in origins:
        return "host_not_allowed"
    if prefixes is not None and (
        has_dot_segments(url.path) or not any(is_inside(url.path, prefix) for prefix in prefixes)
    ):
        return "path_not_allowed"
    return None


def headers_problem(grant: Mapping[str, Any], headers: Mapping[str, str | SecretName]) -> str | None:
    """Returns why `grant` does not cover a request with these headers, else None."""
    names = [name.lower() for name in headers]
    if len(names) > MAX_HEADERS or len(set(names)) != len(names):
        return "header_not_allowed"
    for name, value in headers.items():
        problem = _header_problem(grant, name, value)
        if problem:
            return problem
    return None


def _granted_host(name: str) -> str:
    """Returns the canonical form of a host in a grant; for a malformed one, "", which is no host's form."""
    try:
        return host_form(f"[{name}]" if ":" in name and not name.startswith("[") else name)
    except InvalidValue:
        return ""


def _header_problem(grant: Mapping[str, Any], name: str, value: str | SecretName) -> str | None:
    if not _TOKEN.fullmatch(name) or name.lower() in _OWN_HEADERS:
        return "header_not_allowed"
    if isinstance(value, SecretName):
        granted = grant.get("secrets") or ()
        covered = f"{value.alias}@{value.version}" in granted or f"{value.alias}@*" in granted
        return None if covered else "secret_not_allowed"
    if _CREDENTIALS.fullmatch(name.lower()):
        return "literal_secret"
    return None if len(value) <= MAX_HEADER_BYTES and _VALUE.fullmatch(value) else "header_not_allowed"
