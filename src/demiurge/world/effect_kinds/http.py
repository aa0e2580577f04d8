"""`http.request`: its parameters and its grant, of type `http.out`; `demiurge.capabilities.http.rules` says which
requests a grant covers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from demiurge.capabilities.http.rules import SAFE_METHODS, headers_problem, request_problem
from demiurge.tools.capabilities import HttpAccess, SecretName
from demiurge.world.effect_kinds.kind import Capability, EffectFamily, EffectKind, Parameter
from demiurge.world.effect_kinds.types import HASH, NAT, SECRET_OR_TEXT, TEXT, map_of, option, record, ref, set_of

__all__ = ["HTTP", "header"]


def _line_problem(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    return request_problem(grant, params["method"].upper(), params["url"], params.get("max_redirects") or 0)


def _headers_problem(grant: Mapping[str, Any], _kind: str, params: Mapping[str, Any]) -> str | None:
    return headers_problem(grant, {name: header(value) for name, value in (params.get("headers") or {}).items()})


def header(value: Mapping[str, Any]) -> str | SecretName:
    """Returns a header of an intent as a handler gives it."""
    if value["$tag"] == "secret":
        return SecretName(value["$value"]["alias"], value["$value"]["version"])
    text: str = value["$value"]
    return text


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
    checks=(_line_problem, _headers_problem),
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
