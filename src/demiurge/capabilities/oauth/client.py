"""How Demiurge is known at an authorization server: by the address of a document about it (CIMD), by an id that its
operator gave out, or, only if the server offers nothing else, by registering itself (RFC 7591)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from demiurge.capabilities.oauth.endpoints import endpoint
from demiurge.capabilities.oauth.errors import LoginFailed, known_error
from demiurge.capabilities.oauth.exchange import OAuthHttp, basic_header
from demiurge.capabilities.oauth.metadata import AUTH_METHODS, AuthorizationServer
from demiurge.tools.connections.credentials import MAX_SECRET_CHARACTERS, Secret

__all__ = ["OAuthClient", "choose_client", "is_document_id"]

NAME: Final = "Demiurge"
MAX_ID: Final = 2048


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A client of an authorization server. `auth_method`: how it authenticates there, one of `AUTH_METHODS`."""

    id: str
    secret: Secret | None = None
    auth_method: str = "none"

    def fields(self) -> dict[str, str | Secret]:
        """Returns the fields that name the client in a form."""
        if self.secret is not None and self.auth_method == "client_secret_post":
            return {"client_id": self.id, "client_secret": self.secret}
        return {} if self.auth_method == "client_secret_basic" else {"client_id": self.id}

    def headers(self) -> dict[str, Secret]:
        """Returns the headers that authenticate the client."""
        if self.secret is not None and self.auth_method == "client_secret_basic":
            return {"authorization": basic_header(self.id, self.secret)}
        return {}


async def choose_client(
    http: OAuthHttp,
    server: AuthorizationServer,
    redirect_uri: str,
    scopes: tuple[str, ...],
    client_id: str | None = None,
    secret: Secret | None = None,
) -> OAuthClient:
    """Returns the client for a login at `server`, and registers it there if need be. Raises LoginFailed
    (`client_id_missing`, `registration_failed`, `oauth_unavailable`)."""
    if client_id is not None and not _is_id(client_id):
        raise LoginFailed(f"A client's id is 1 to {MAX_ID} printable characters.", code="client_id_missing")
    is_document = client_id is not None and is_document_id(client_id)
    if client_id is not None and not is_document:
        return OAuthClient(client_id, secret, _method(server, secret))
    if client_id is not None and server.takes_metadata_documents:
        endpoint(client_id, "The client's id", code="client_id_missing")
        return OAuthClient(client_id)
    if server.registration_endpoint is not None:
        return await _register(http, server, redirect_uri, scopes)
    host = server.token_endpoint.host
    if is_document:
        how = f"{host} takes no client metadata documents: register Demiurge there and give its id with --client-id ID."
    elif server.takes_metadata_documents:
        how = f"{host} needs a client metadata document: give its address with --client-id https://..."
    else:
        how = f"{host} registers no clients by itself: register Demiurge there and give its id with --client-id ID."
    raise LoginFailed(how, code="client_id_missing")


def is_document_id(client_id: str) -> bool:
    """Returns whether a client's id is the address of a document about it, which every authorization server can read.
    Any other id is known to one of them only."""
    return client_id.startswith("https://")


async def _register(
    http: OAuthHttp, server: AuthorizationServer, redirect_uri: str, scopes: tuple[str, ...]
) -> OAuthClient:
    assert server.registration_endpoint is not None
    asked: dict[str, Any] = {
        "client_name": NAME,
        "application_type": "native",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none"
        if server.auth_methods is None
        else next(iter(server.auth_methods), "none"),
    }
    if scopes:
        asked["scope"] = " ".join(scopes)
    answer = await http.post_json(server.registration_endpoint, asked)
    host = server.registration_endpoint.host
    if answer.status not in (200, 201):
        why = known_error(answer.document.get("error"))
        how = "Register Demiurge there by hand and give its id with --client-id ID."
        raise LoginFailed(f"{host} did not register Demiurge ({why}). {how}", code="registration_failed")
    client = _registered(answer.document, asked["token_endpoint_auth_method"])
    if client is None:
        raise LoginFailed(
            f"{host} registered Demiurge in a way that it cannot use. Register it there by hand and give its id with "
            "--client-id ID.",
            code="registration_failed",
        )
    return client


def _registered(document: Mapping[str, Any], asked: str) -> OAuthClient | None:
    """Returns the client in the answer to a registration; None if it cannot be used."""
    client_id, method = document.get("client_id"), document.get("token_endpoint_auth_method") or asked
    secret = document.get("client_secret")
    if not _is_id(client_id) or method not in AUTH_METHODS:
        return None
    if method == "none":
        return OAuthClient(str(client_id))
    is_usable = isinstance(secret, str) and 0 < len(secret) <= MAX_SECRET_CHARACTERS and secret.isprintable()
    return OAuthClient(str(client_id), Secret(str(secret)), method) if is_usable else None


def _method(server: AuthorizationServer, secret: Secret | None) -> str:
    """Returns how a client that was registered by hand authenticates."""
    if secret is None:
        return "none"
    offered = server.auth_methods or ()
    only_post = "client_secret_post" in offered and "client_secret_basic" not in offered
    return "client_secret_post" if only_post else "client_secret_basic"


def _is_id(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= MAX_ID and text.isascii() and text.isprintable()
