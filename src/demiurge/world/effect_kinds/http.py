"""`http.request`: its parameters, and which of them a grant of type `http.out` covers.

Two lists of such a grant *add* permissions, so an absent list and an empty one mean the same: `internal_networks` and
`secrets`. The address behind a name and the size of an answer are known only while the request runs; the adapter checks
both by the same grant.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Final

from demiurge.errors import InvalidValue
from demiurge.tools.capabilities import HttpAccess
from demiurge.world.effect_kinds.kind import Capability, EffectFamily, EffectKind, Parameter
from demiurge.world.effect_kinds.types import HASH, NAT, SECRET_OR_TEXT, TEXT, map_of, option, record, ref, set_of
from demiurge.world.effect_kinds.urls import WebUrl, has_dot_segments, host_form, is_inside, parse_url

__all__ = ["HTTP", "MAX_HEADERS", "MAX_HEADER_BYTES", "SAFE_METHODS", "http_problem", "request_problem"]

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
"""Headers that the adapter sets itself: they say where a request ends and to whom it goes."""
_CREDENTIALS = re.compile(r"authorization|cookie2?|.*(api|auth|access)[_-]?(key|token)|.*secret.*")
"""Headers whose values must be named as secrets, because a literal would be journaled."""


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
    if prefixes is not None and (
        has_dot_segments(url.path) or not any(is_inside(url.path, prefix) for prefix in prefixes)
    ):
        return "path_not_allowed"
    return None


def _granted_host(name: str) -> str:
    """Returns the canonical form of a host in a grant; for a malformed one, "", which is no host's form."""
    try:
        return host_form(f"[{name}]" if ":" in name and not name.startswith("[") else name)
    except InvalidValue:
        return ""


def _http_line(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    return request_problem(grant, params["method"].upper(), params["url"], params.get("max_redirects") or 0)


def _http_headers(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    headers = params.get("headers") or {}
    names = [name.lower() for name in headers]
    if len(names) > MAX_HEADERS or len(set(names)) != len(names):
        return "header_not_allowed"
    for name, value in headers.items():
        problem = _header_problem(grant, name, value)
        if problem:
            return problem
    return None


def _header_problem(grant: Mapping[str, Any], name: str, value: Mapping[str, Any]) -> str | None:
    if not _TOKEN.fullmatch(name) or name.lower() in _OWN_HEADERS:
        return "header_not_allowed"
    if value["$tag"] == "secret":
        alias, granted = value["$value"]["alias"], grant.get("secrets") or ()
        covered = f"{alias}@{value['$value']['version']}" in granted or f"{alias}@*" in granted
        return None if covered else "secret_not_allowed"
    if _CREDENTIALS.fullmatch(name.lower()):
        return "literal_secret"
    text = value["$value"]
    return None if len(text) <= MAX_HEADER_BYTES and _VALUE.fullmatch(text) else "header_not_allowed"


HTTP: Final = EffectFamily(
    cap_type="http.out",
    kinds=(
        EffectKind(
            name="http.request",
            params=record(
                method=TEXT,
                url=TEXT,
                headers=option(map_of(TEXT, SECRET_OR_TEXT)),
                body_ref=option(TEXT),
                max_redirects=option(NAT),
                timeout_ms=option(NAT),
            ),
            receipt=record(
                status=NAT,
                url=TEXT,
                headers=map_of(TEXT, TEXT),
                body_ref=option(HASH),
                size=NAT,
                timings=ref("sys/HttpTimings@1"),
            ),
            changes_with=lambda params: params["method"].upper() not in SAFE_METHODS,
        ),
    ),
    schemas={"sys/HttpTimings@1": record(start_ns=NAT, end_ns=NAT)},
    grant=record(
        hosts=option(set_of(TEXT)),
        methods=option(set_of(TEXT)),
        schemes=option(set_of(TEXT)),
        ports=option(set_of(NAT)),
        path_prefixes=option(set_of(TEXT)),
        max_body=option(NAT),
        max_redirects=option(NAT),
        internal_networks=option(set_of(TEXT)),
        secrets=option(set_of(TEXT)),
    ),
    grant_notes={
        "max_body": "bytes, each way",
        "internal_networks": "absent means none",
        "secrets": "absent means none",
    },
    compared={
        "method": Parameter(TEXT),
        "url": Parameter(TEXT),
        "headers": Parameter(map_of(TEXT, SECRET_OR_TEXT), absent=True, null=True),
        "max_redirects": Parameter(NAT, absent=True, null=True),
    },
    checks=(_http_line, _http_headers),
    adapter="demiurge.world.effects.http:HttpRequests",
    restart="performed again with GET, HEAD, OPTIONS or an `Idempotency-Key`; "
    "else `unknown_outcome`, never a second time",
    capability=Capability(
        HttpAccess,
        "demiurge.world.effects.http:WorldHttp",
        "`request(method, url, headers=, body=, timeout_s=, max_redirects=)`; a header may be a "
        "`SecretName(alias, version)`",
    ),
)
