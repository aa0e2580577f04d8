"""`LocalHttp`: HTTP for the tools of a runner without a world, to named hosts only.

A request passes the same rules and the same guard as in a world (`rules`, `guarded`). Nothing is recorded: a secret is
put into a copy of the request when it is sent, and masked in the answer.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from demiurge.capabilities.http.addresses import networks
from demiurge.capabilities.http.guarded import (
    MAX_BODY,
    MAX_REDIRECTS,
    MAX_TIMEOUT_S,
    TIMEOUT_S,
    GuardedHttp,
    GuardedRequest,
    Resolve,
    resolve,
    secret_header,
)
from demiurge.capabilities.http.rules import METHODS, headers_problem, request_problem
from demiurge.capabilities.http.urls import PORTS, host_form, parse_url
from demiurge.capabilities.injection import Injections
from demiurge.errors import DemiurgeError, InvalidValue
from demiurge.tools.capabilities import HttpAnswer, SecretName
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.errors import ToolErrorCode, ToolFailure, ToolUserError

__all__ = ["LocalHttp", "SecretValues"]

SecretValues: TypeAlias = Mapping[str, str] | Callable[[SecretName], str | None]
"""Values by `alias@version` or, for every version, by `alias`; or a function that returns a value or None."""

_NOT_ALLOWED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "header_not_allowed": "A header is not allowed: at most 64 of them, each once, with printable text; those that "
        "say where a request ends and to whom it goes are set by the client.",
        "host_not_allowed": "Requests may go only to these hosts: {hosts}.",
        "invalid_url": "The address is not a plain http or https URL that can be read in one way only.",
        "literal_secret": "A header with credentials takes a SecretName, not the secret itself.",
        "method_not_allowed": "Only these methods are allowed: {methods}.",
        "path_not_allowed": "Only these paths, and those below them, are allowed: {path_prefixes}.",
        "port_not_allowed": "Only these ports are allowed: {ports}.",
        "redirects_exceeded": "At most {max_redirects} redirects are followed.",
        "scheme_not_allowed": "Only these schemes are allowed: {schemes}.",
    }
)
_DENIALS: Final = frozenset({"address_refused", "redirect_refused"})
"""Codes of the guard for a request that went where it may not; every other code of it is a failure."""


class LocalHttp:
    """An `HttpAccess` that may ask `hosts`: complete names or addresses, without wildcards, schemes and ports.

    `schemes`: by default https alone. `ports`: by default those of the schemes. `methods`: by default all seven.
    `path_prefixes`: by default every path; whole segments count. `max_bytes`: of a body, each way, at most 16 MiB.
    `max_redirects`: how many a request may ask to follow, at most 10. `timeout`: seconds for a whole request, at most
    300; a request may ask for less. `internal_networks`: networks such as `10.1.0.0/16` beside the public internet;
    without them private, loopback, link-local and reserved addresses are refused, however they are written and
    wherever a name or a redirect leads. `secrets`: the values of SecretNames; they go only to `hosts`. `tls`: which
    certificates are trusted, by default those of the machine. `resolve`: how a name becomes addresses.

    Raises InvalidValue for an argument that can't be.
    """

    def __init__(
        self,
        hosts: Iterable[str],
        *,
        schemes: Iterable[str] = ("https",),
        ports: Iterable[int] | None = None,
        methods: Iterable[str] | None = None,
        path_prefixes: Iterable[str] | None = None,
        max_bytes: int = MAX_BODY,
        max_redirects: int = MAX_REDIRECTS,
        timeout: float = TIMEOUT_S,
        internal_networks: Iterable[str] = (),
        secrets: SecretValues | None = None,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve = resolve,
    ) -> None:
        named_schemes = _names("schemes", schemes, PORTS)
        self._grant: Mapping[str, Any] = {
            "hosts": tuple(map(_host, _texts("hosts", hosts))),
            "schemes": named_schemes,
            "ports": tuple(PORTS[name] for name in named_schemes) if ports is None else tuple(ports),
            "methods": sorted(METHODS) if methods is None else _names("methods", methods, METHODS),
            "path_prefixes": None if path_prefixes is None else _texts("path_prefixes", path_prefixes),
            "max_body": _at_most("max_bytes", max_bytes, MAX_BODY),
            "max_redirects": _at_most("max_redirects", max_redirects, MAX_REDIRECTS),
            "internal_networks": _texts("internal_networks", internal_networks),
        }
        if not self._grant["hosts"]:
            raise InvalidValue("name at least one host, such as api.example.com", path="hosts")
        try:
            networks(self._grant["internal_networks"])
        except ValueError as error:
            raise InvalidValue(f"{error}; write networks such as 10.1.0.0/16", path="internal_networks") from None
        if not 0 < timeout <= MAX_TIMEOUT_S:
            raise InvalidValue(f"must be more than 0 and at most {MAX_TIMEOUT_S:.0f} seconds", path="timeout")
        self._timeout_s = timeout
        given = {} if secrets is None else secrets
        self._value_of = given if callable(given) else _lookup(given)
        self._web = GuardedHttp(resolve=resolve, tls=tls)

    def __repr__(self) -> str:
        return f"<LocalHttp to {', '.join(self._grant['hosts'])}>"

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str | SecretName] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
        max_redirects: int = 0,
    ) -> HttpAnswer:
        """Sends a request and returns the answer, whatever its status.

        Raises ToolFailure: `policy_denied`, with the reason, for a request that is not allowed or leads to an address
        that is not; `unknown_outcome` if it is not known whether the request was carried out. Raises ToolUserError if
        there is no answer or none that can be taken, and for a secret without a value."""
        headers = headers or {}
        self._check(method.upper(), url, headers, max_redirects)
        injections = Injections()
        seconds = self._timeout_s if timeout_s is None else min(timeout_s, self._timeout_s)
        try:
            sent = {name: self._header(injections, name, value) for name, value in headers.items()}
            request = GuardedRequest.of(method, parse_url(url), sent, body or b"")
            answer = await self._web.send(self._grant, request, redirects=max_redirects, timeout_s=seconds)
        except DemiurgeError as error:
            if error.code in _DENIALS:
                raise ToolFailure(ToolErrorCode.POLICY_DENIED, safe_message=error.message) from None
            if error.code == ToolErrorCode.UNKNOWN_OUTCOME:
                raise ToolFailure(ToolErrorCode.UNKNOWN_OUTCOME, safe_message=error.message) from None
            raise ToolUserError(error.message) from None
        shown: HttpAnswer = injections.masked(HttpAnswer(answer.status, str(answer.url), answer.headers, answer.body))
        return shown

    def _check(self, method: str, url: str, headers: Mapping[str, str | SecretName], max_redirects: int) -> None:
        """Raises ToolFailure (`policy_denied`) for a request that is not allowed."""
        named = [f"{value.alias}@{value.version}" for value in headers.values() if isinstance(value, SecretName)]
        problem = request_problem(self._grant, method, url, max_redirects) or headers_problem(
            {"secrets": named}, headers
        )
        if problem is not None:
            words = {
                name: ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
                for name, value in self._grant.items()
            }
            message = _NOT_ALLOWED[problem].format_map(words)
            raise ToolFailure(ToolErrorCode.POLICY_DENIED, safe_message=message)

    def _header(self, injections: Injections, name: str, value: str | SecretName) -> str:
        """Returns the text of a header as it is sent. Raises DemiurgeError without anything of a secret."""
        if not isinstance(value, SecretName):
            return value
        found = self._value_of(value)
        if not found:
            raise InvalidValue(f"The secret {value.alias}@{value.version} has no value in this program.")
        injections.hide(Secret(found))
        return secret_header(name, found)


def _lookup(values: Mapping[str, str]) -> Callable[[SecretName], str | None]:
    """Returns the function that finds a secret in `values`, as they are when the request is sent."""

    def find(name: SecretName) -> str | None:
        exact = values.get(f"{name.alias}@{name.version}")
        return exact if exact is not None else values.get(name.alias)

    return find


def _texts(what: str, given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidValue(f"is a list of texts: write [{given!r}]", path=what)
    return tuple(given)


def _names(what: str, given: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    spelled = {name.lower(): name for name in known}
    found = _texts(what, given)
    for name in found:
        if name.lower() not in spelled:
            raise InvalidValue(f"{name!r} is none of {', '.join(sorted(known))}", path=what)
    return tuple(spelled[name.lower()] for name in found)


def _host(name: str) -> str:
    try:
        return host_form(f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name)
    except InvalidValue:
        problem = f"{name!r} is no complete host name: write api.example.com, without scheme, port, path and wildcard"
        raise InvalidValue(problem, path="hosts") from None


def _at_most(what: str, value: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise InvalidValue(f"must be a whole number from 0 to {most}", path=what)
    return value
