"""`http.request`: the adapter, and the capability of a running tool. The request goes through
`demiurge.capabilities.http.guarded`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.capabilities.http.guarded import GuardedHttp, GuardedRequest, secret_header
from demiurge.capabilities.http.rules import is_repeatable
from demiurge.capabilities.http.urls import parse_url
from demiurge.errors import DemiurgeError
from demiurge.tools.capabilities import HttpAnswer, SecretName
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.values.clock import Clock
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.effect_kinds.http import HTTP
from demiurge.world.effects.asking import ask
from demiurge.world.effects.binding import WorldParts
from demiurge.world.effects.blob import resolve_input_blob
from demiurge.world.manifest import ALLOWED_HOSTS, Manifest, hosts_of
from demiurge.world.secrets import Secrets
from demiurge.world.state import OpenIntent

__all__ = ["HttpRequests", "WorldHttp"]

NO_HOSTS = (
    "No tool may make HTTP requests in this world. Whoever runs it names the hosts that tools may ask: --allow-host "
    'HOST at the command line, or World.open(http=["HOST"]).'
)


class HttpRequests:
    """The adapter of `http.request`."""

    kinds = HTTP.names

    def __init__(self, secrets: Secrets, clock: Clock, web: GuardedHttp | None = None) -> None:
        self._secrets, self._clock, self._web = secrets, clock, web or GuardedHttp()

    @classmethod
    def bind(cls, parts: WorldParts) -> HttpRequests:
        return cls(parts.secrets, parts.clock)

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        """Returns "retry" for a read, and for a request with an `Idempotency-Key`; "in_doubt" for any other."""
        repeatable = is_repeatable(intent.params["method"].upper(), intent.params["headers"] or ())
        return "retry" if repeatable else "in_doubt"

    async def perform(self, call: EffectCall) -> Result:
        params, started = call.intent.params, self._clock.now_ns()
        asked_ms = params["timeout_ms"]
        try:
            answer = await self._web.send(
                call.grant,
                await self._request(call),
                redirects=params["max_redirects"],
                timeout_s=None if asked_ms is None else asked_ms / 1000,
            )
        except DemiurgeError as error:
            return failed(error.code, error.message)
        body = call.injections.masked_bytes(answer.body)
        return succeeded(
            status=answer.status,
            url=str(answer.url),
            headers=answer.headers,
            body_ref=await call.put_blob(body) if body else None,
            size=len(body),
            timings={"start_ns": started, "end_ns": self._clock.now_ns()},
        )

    async def _request(self, call: EffectCall) -> GuardedRequest:
        """Returns the request as it was asked for, with its secrets and its body. Raises DemiurgeError."""
        params = call.intent.params
        headers = {name: self._header(call, name, value) for name, value in (params["headers"] or {}).items()}
        body = b""
        if params["body_ref"] is not None:
            body = call.get_blob(await resolve_input_blob(call, params["body_ref"]))
        return GuardedRequest.of(params["method"], parse_url(params["url"]), headers, body)

    def _header(self, call: EffectCall, name: str, value: Mapping[str, Any]) -> str:
        if value["$tag"] == "literal":
            text: str = value["$value"]
            return text
        return secret_header(name, self._secrets.inject(call, value))


class WorldHttp:
    """The `HttpAccess` capability of a running tool."""

    def __init__(self, call: EffectCall) -> None:
        self._call = call

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
        try:
            found = await ask(
                self._call,
                "http.request",
                method=method,
                url=url,
                headers={name: _header(value) for name, value in headers.items()} if headers else None,
                body_ref=await self._call.put_blob(body) if body is not None else None,
                max_redirects=max_redirects,
                timeout_ms=round(timeout_s * 1000) if timeout_s is not None else None,
            )
        except ToolFailure as refused:
            raise _explained(refused, self._call.manifest) from None
        answer = self._call.get_blob(found["body_ref"]) if found["body_ref"] else b""
        return HttpAnswer(found["status"], found["url"], found["headers"], answer)


def _explained(refused: ToolFailure, manifest: Manifest) -> ToolFailure:
    """Returns the refusal with what to do, if the hosts that are allowed decide it."""
    grants = [grant for grant in manifest.grants.values() if grant.cap_type == HTTP.cap_type]
    if refused.error_code is not ToolErrorCode.POLICY_DENIED:
        return refused
    if not grants:
        return ToolFailure(refused.error_code, safe_message=NO_HOSTS)
    if [grant.name for grant in grants] == [ALLOWED_HOSTS] and refused.message.endswith("host_not_allowed"):
        told = f"Requests may go only to these hosts, by https: {', '.join(hosts_of(grants[0]))}."
        return ToolFailure(refused.error_code, safe_message=told)
    return refused


def _header(value: str | SecretName) -> dict[str, Any]:
    if isinstance(value, SecretName):
        return {"$tag": "secret", "$value": {"alias": value.alias, "version": value.version}}
    return {"$tag": "literal", "$value": value}
