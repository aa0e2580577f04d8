"""The two documents that say where to log in: a resource's (RFC 9728) and an authorization server's (RFC 8414).

A document counts only if it is about what was asked: a resource's document names that resource, a server's document
its own issuer. A server without PKCE by S256 is refused, because a stolen code would be as good as a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from demiurge.capabilities.http.urls import WebUrl
from demiurge.capabilities.oauth.challenge import scopes_in
from demiurge.capabilities.oauth.endpoints import covers, endpoint, named_endpoint
from demiurge.capabilities.oauth.errors import LoginFailed

__all__ = ["AuthorizationServer", "ProtectedResource", "read_resource", "read_server"]

AUTH_METHODS: Final = ("none", "client_secret_post", "client_secret_basic")
"""How Demiurge can authenticate at a token endpoint, best first for a client without a secret."""


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """A protected address. `identifier`: its name as the server writes it; `servers`: the issuers of its tokens."""

    identifier: str
    servers: tuple[str, ...]
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """A server that issues tokens, as its metadata describes it. `auth_methods`: those of `AUTH_METHODS` that its token
    endpoint takes, None if it does not say. `takes_metadata_documents`: a client's id may be the address of a document
    about it. `names_itself`: it sends `iss` with each redirect (RFC 9207)."""

    issuer: str
    authorization_endpoint: WebUrl
    token_endpoint: WebUrl
    registration_endpoint: WebUrl | None
    revocation_endpoint: WebUrl | None
    scopes: tuple[str, ...]
    auth_methods: tuple[str, ...] | None
    takes_metadata_documents: bool
    names_itself: bool


def read_resource(document: Mapping[str, Any], url: WebUrl) -> ProtectedResource:
    """Reads the metadata of the protected address `url`. Raises LoginFailed (`metadata_invalid`)."""
    identifier, servers = document.get("resource"), document.get("authorization_servers")
    if not covers(endpoint(identifier, "The resource that the server's metadata names"), url):
        raise _invalid(f"The metadata of {url.host} is about another resource than {url}.")
    if not isinstance(servers, list) or not servers or not all(isinstance(server, str) for server in servers):
        raise _invalid(f"The metadata of {url.host} names no authorization server.")
    return ProtectedResource(str(identifier), tuple(servers), _scopes(document))


def read_server(
    document: Mapping[str, Any], issuers: tuple[str, ...], networks: Sequence[str] = ()
) -> AuthorizationServer:
    """Reads the metadata of an authorization server that was asked for under one of `issuers`. Its addresses may be in
    `networks` beside the public internet. Raises LoginFailed
    (`metadata_invalid`, `pkce_missing`)."""
    issuer, host = document.get("issuer"), endpoint(issuers[0], "The issuer").host
    if issuer not in issuers:
        raise _invalid(f"The metadata of the authorization server {host} is that of another issuer.")
    if "S256" not in (_listed(document, "code_challenge_methods_supported") or ()):
        why = "Its operator has to add that. A token from elsewhere can be added with `demiurge connections add`."
        raise LoginFailed(f"The authorization server {host} does not offer PKCE with S256. {why}", code="pkce_missing")
    if "code" not in (_listed(document, "response_types_supported") or ("code",)):
        raise _invalid(f"The authorization server {host} issues no authorization codes.")
    methods = _listed(document, "token_endpoint_auth_methods_supported")
    return AuthorizationServer(
        issuer=str(issuer),
        authorization_endpoint=_named(document, "authorization_endpoint", networks),
        token_endpoint=_named(document, "token_endpoint", networks),
        registration_endpoint=_optional(document, "registration_endpoint", networks),
        revocation_endpoint=_optional(document, "revocation_endpoint", networks),
        scopes=_scopes(document),
        auth_methods=None if methods is None else tuple(method for method in AUTH_METHODS if method in methods),
        takes_metadata_documents=document.get("client_id_metadata_document_supported") is True,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _listed(document: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Returns the texts in a list of the document; None if there is no such list."""
    listed = document.get(name)
    return tuple(text for text in listed if isinstance(text, str)) if isinstance(listed, list) else None


def _scopes(document: Mapping[str, Any]) -> tuple[str, ...]:
    return scopes_in(" ".join(_listed(document, "scopes_supported") or ()))


def _named(document: Mapping[str, Any], name: str, networks: Sequence[str]) -> WebUrl:
    return named_endpoint(document.get(name), f"The {name.replace('_', ' ')}", networks)


def _optional(document: Mapping[str, Any], name: str, networks: Sequence[str]) -> WebUrl | None:
    return None if document.get(name) in (None, "") else _named(document, name, networks)


def _invalid(message: str) -> LoginFailed:
    return LoginFailed(message, code="metadata_invalid")
