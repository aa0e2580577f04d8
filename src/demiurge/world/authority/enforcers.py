"""What each type of cap checks: pure functions of a grant's parameters and an effect's.

An absent list in a grant restricts nothing and an empty one allows nothing. Two lists of `http.out` *add* something, so
absent and empty are the same there: `internal_networks` and `secrets`; and so they are for the `aliases` of `vault`,
because the vault is the user's and serves other worlds as well. What can only be known while an effect runs (the
size of an answer, where a name leads) its adapter checks by the same grant. Grants of an older manifest lack newer
fields, so every field is asked for, never taken.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.world.authority.urls import WebUrl, has_dot_segments, host_form, is_inside, parse_url
from demiurge.world.manifest import EffectType

__all__ = ["ENFORCERS", "SAFE_METHODS", "Check", "changes", "http_problem"]

Check = Callable[[Mapping[str, Any], str, Mapping[str, Any]], str | None]
"""(grant params, effect kind, effect params) -> deny code or None."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS = SAFE_METHODS | {"POST", "PUT", "PATCH", "DELETE"}

MAX_HEADERS = 64
MAX_HEADER_BYTES = 8192
INLINE_BYTES = 64 * 1024
"""Most bytes that an effect's parameters or its receipt carry themselves; what is larger goes by address."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_VALUE = re.compile(r"[\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?|")
_OWN_HEADERS = frozenset(
    (
        *("accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "te", "trailer"),
        *("proxy-authorization", "proxy-connection", "transfer-encoding", "upgrade"),
    )
)
"""The adapter's own: they say where a request ends and whom it is for."""
_CREDENTIALS = re.compile(r"authorization|cookie2?|.*(api|auth|access)[_-]?(key|token)|.*secret.*")
"""Headers whose values are named as secrets, because a literal would be journaled."""


def changes(effect: EffectType, params: Mapping[str, Any] | None = None) -> bool:
    """Whether this performance changes what others see, without `params` whether each one does; a `read_only` tool may
    not ask for it."""
    if effect.kind == "http.request":
        return params is not None and params["method"].upper() not in SAFE_METHODS
    return effect.changes


def _in_list(
    field: str, param: str, code: str, grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]
) -> str | None:
    allowed = grant.get(field)
    return code if allowed is not None and params.get(param) not in allowed else None


def _at_most(
    field: str, param: str, code: str, grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]
) -> str | None:
    limit = grant.get(field)
    return code if limit is not None and params[param] > limit else None


def _literal_key(_grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    """A key is named as a secret: written out it would be journaled with the intent."""
    key = params.get("api_key")
    return "literal_secret" if key is not None and key["$tag"] == "literal" else None


# -- workspaces, cells, blobs ------------------------------------------------------------------------------------------

_WORKSPACE_OPS = {
    "read_bytes": "read",
    "read_ref": "read",
    "annotations_get": "read",
    "write_bytes": "write",
    "remove": "write",
    "annotations_set": "write",
    "commit": "write",
}


def _workspace_op(grant: Mapping[str, Any], kind: str, _params: Mapping[str, Any]) -> str | None:
    name = kind.partition(".")[2]
    ops = grant.get("ops")
    return "op_not_allowed" if ops is not None and _WORKSPACE_OPS.get(name, name) not in ops else None


def _workspace_path(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    prefixes = grant.get("path_prefixes")
    if prefixes is None or "path" not in params:
        return None
    inside = any(is_inside(params["path"], prefix) for prefix in prefixes)
    return None if inside else "path_not_allowed"


def _module(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    modules = grant.get("modules")
    if modules is None or params.get("module") in (None, *modules):
        return None
    return "module_not_allowed"


def _blob(grant: Mapping[str, Any], kind: str, params: Mapping[str, Any]) -> str | None:
    ops = grant.get("ops")
    if ops is not None and kind.partition(".")[2] not in ops:
        return "op_not_allowed"
    content = params.get("content")
    size = len(content["$value"]) if content is not None and content["$tag"] == "bytes" else 0
    limit = grant.get("max_bytes")
    return "too_large" if size > INLINE_BYTES or (limit is not None and size > limit) else None


def _vault_alias(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    return None if params["alias"] in (grant.get("aliases") or ()) else "alias_not_allowed"


# -- the web -----------------------------------------------------------------------------------------------------------


def http_problem(grant: Mapping[str, Any], method: str, url: WebUrl) -> str | None:
    """Why `grant` does not cover this request line; each hop of a redirect is asked about again."""
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
    """The form of a host that a grant names; of a malformed one, a form that no host has."""
    try:
        return host_form(f"[{name}]" if ":" in name else name)
    except InvalidValue:
        return ""


def _http_line(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    try:
        for network in grant.get("internal_networks") or ():
            ipaddress.ip_network(network)
    except ValueError:
        return "cap_params_invalid"
    try:
        url = parse_url(params["url"])
    except InvalidValue as error:
        return error.code
    limit = grant.get("max_redirects")
    if limit is not None and (params.get("max_redirects") or 0) > limit:
        return "redirects_exceeded"
    return http_problem(grant, params["method"].upper(), url)


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


ENFORCERS: Mapping[str, tuple[Check, ...]] = {
    "llm.basic": (
        partial(_in_list, "providers", "provider", "provider_not_allowed"),
        partial(_in_list, "models", "model", "model_not_allowed"),
        partial(_at_most, "max_tokens", "max_tokens", "max_tokens_exceeded"),
        _literal_key,
    ),
    "tool": (partial(_in_list, "tools", "tool", "tool_not_allowed"),),
    "workspace": (
        partial(_in_list, "workspaces", "workspace", "workspace_not_allowed"),
        _workspace_op,
        _workspace_path,
    ),
    "query": (_module,),
    "blob": (_blob,),
    "http.out": (_http_line, _http_headers),
    "vault": (_vault_alias,),
}
