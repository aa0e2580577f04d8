"""Asks a token endpoint for tokens, renews them, and revokes them.

Only bearer tokens are taken. An answer is read into `Credentials` at once; a faulty one is refused without a word of
it, because it may hold a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from demiurge.capabilities.oauth.authorization import CodeRequest
from demiurge.capabilities.oauth.challenge import scopes_in
from demiurge.capabilities.oauth.client import OAuthClient
from demiurge.capabilities.oauth.endpoints import endpoint
from demiurge.capabilities.oauth.errors import LoginFailed, RenewalRefused, known_error
from demiurge.capabilities.oauth.exchange import JsonAnswer, OAuthHttp
from demiurge.capabilities.oauth.login import OAuthLogin
from demiurge.errors import InvalidValue
from demiurge.tools.connections.credentials import Credentials, Secret

__all__ = ["exchange_code", "renew", "revoke"]

MAX_SECONDS: Final = 10 * 365 * 24 * 3600
_FINAL: Final = frozenset(
    [
        "invalid_client",
        "invalid_grant",
        "invalid_scope",
        "invalid_target",
        "unauthorized_client",
        "unsupported_grant_type",
    ]
)
"""The errors of a token endpoint that another try does not end."""


async def exchange_code(
    http: OAuthHttp, request: CodeRequest, code: Secret, now_ms: int
) -> tuple[Credentials, tuple[str, ...]]:
    """Returns the tokens for a code, and the granted scopes. Raises LoginFailed (`token_refused`, `token_invalid`,
    `oauth_unavailable`)."""
    fields: dict[str, str | Secret] = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": request.redirect_uri,
        "code_verifier": request.verifier,
        "resource": request.resource,
    }
    host = request.server.token_endpoint.host
    answer = await _ask(http, str(request.server.token_endpoint), request.client, fields)
    if answer.status != 200:
        why = known_error(answer.document.get("error"))
        raise LoginFailed(f"{host} gave no token: {why}. Run the command again.", code="token_refused")
    return _credentials(answer, host, now_ms), _granted(answer.document, request.scopes)


async def renew(http: OAuthHttp, login: OAuthLogin, old: Credentials, now_ms: int) -> tuple[Credentials, OAuthLogin]:
    """Returns new tokens for the refresh token of `old`, and the login as it is then. Raises RenewalRefused if only a
    person can help, else LoginFailed (`oauth_unavailable`, `token_invalid`)."""
    if old.refresh_token is None:
        raise RenewalRefused("The server gave no refresh token.", details={"reason": "no_refresh_token"})
    fields: dict[str, str | Secret] = {
        "grant_type": "refresh_token",
        "refresh_token": old.refresh_token,
        "resource": login.resource,
    }
    host = endpoint(login.token_endpoint, "The token endpoint").host
    answer = await _ask(http, login.token_endpoint, login.client, fields)
    if answer.status != 200:
        error = known_error(answer.document.get("error"))
        if error in _FINAL:
            raise RenewalRefused(f"{host} refused to renew the tokens: {error}.", details={"reason": error})
        message = f"{host} did not renew the tokens: it answered with the status {answer.status}."
        raise LoginFailed(message, code="oauth_unavailable", details={"reason": "status"})
    fresh = old.refreshed_by(_credentials(answer, host, now_ms))
    scopes = _granted(answer.document, login.scopes)
    return fresh, replace(login, scopes=scopes, obtained_at_ms=now_ms, refused="")


async def revoke(http: OAuthHttp, login: OAuthLogin, credentials: Credentials) -> bool:
    """Revokes the tokens at the authorization server (RFC 7009). Returns False if it has no endpoint for that. Raises
    LoginFailed (`oauth_unavailable`)."""
    if login.revocation_endpoint is None:
        return False
    kinds = {"refresh_token": credentials.refresh_token, "access_token": credentials.access_token}
    for kind, token in kinds.items():
        if token is None:
            continue
        answer = await _ask(http, login.revocation_endpoint, login.client, {"token": token, "token_type_hint": kind})
        is_gone = answer.document.get("error") in ("invalid_grant", "unsupported_token_type")
        if answer.status != 200 and not is_gone:
            host = endpoint(login.revocation_endpoint, "The revocation endpoint").host
            message = f"{host} did not revoke the tokens: it answered with the status {answer.status}."
            raise LoginFailed(message, code="oauth_unavailable", details={"reason": "status"})
    return True


async def _ask(http: OAuthHttp, address: str, client: OAuthClient, fields: Mapping[str, str | Secret]) -> JsonAnswer:
    return await http.post_form(
        endpoint(address, "The token endpoint"), {**fields, **client.fields()}, client.headers()
    )


def _credentials(answer: JsonAnswer, host: str, now_ms: int) -> Credentials:
    """Reads the answer of a token endpoint. Raises LoginFailed (`token_invalid`)."""
    found = _read(answer.document, now_ms)
    if isinstance(found, str):
        raise LoginFailed(f"{host} gave {found}.", code="token_invalid")
    return found


def _read(document: Mapping[str, Any], now_ms: int) -> Credentials | str:
    """Returns the credentials in an answer, or what is wrong with it. Raises nothing: a traceback would show the
    document."""
    if str(document.get("token_type")).lower() != "bearer":
        return "a token that is no bearer token, which Demiurge does not use"
    lifetime, refresh_token = _seconds(document.get("expires_in")), document.get("refresh_token") or None
    ends_ms = None if lifetime is None else now_ms + lifetime * 1000
    if not all(str(token).isascii() for token in (document.get("access_token"), refresh_token)):
        return "a token with characters that no token has"
    try:
        return Credentials(document.get("access_token"), refresh_token=refresh_token, expires_at_ms=ends_ms)  # type: ignore[arg-type]
    except InvalidValue:
        return "an answer without a usable token"


def _seconds(value: object) -> int | None:
    """Returns how long a token is valid; some servers write the number as a text. None: the server does not say."""
    try:
        seconds = int(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        return None
    return None if seconds is None else max(0, min(seconds, MAX_SECONDS))


def _granted(document: Mapping[str, Any], asked: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the scopes of an answer; an answer without any grants what was asked (RFC 6749, 5.1)."""
    return scopes_in(document["scope"]) if isinstance(document.get("scope"), str) else asked
