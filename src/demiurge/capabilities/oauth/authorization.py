"""The address that a browser is sent to for a login, and the check of the redirect that comes back.

Invariant: a code is taken only from a redirect with the state of this login, and not from another authorization server
than the one that was asked (RFC 9207). The verifier (PKCE) and the state live in this process alone, for one login.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import urlencode

from demiurge.capabilities.oauth.client import OAuthClient
from demiurge.capabilities.oauth.errors import LoginFailed, known_error
from demiurge.capabilities.oauth.metadata import AuthorizationServer
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import Entropy

__all__ = ["CodeRequest", "new_state"]


@dataclass(frozen=True, slots=True)
class CodeRequest:
    """One request for an authorization code; made by `draw`."""

    server: AuthorizationServer
    client: OAuthClient
    redirect_uri: str
    resource: str
    scopes: tuple[str, ...]
    state: str = field(repr=False)
    verifier: Secret = field(repr=False)

    @classmethod
    def draw(
        cls,
        server: AuthorizationServer,
        client: OAuthClient,
        redirect_uri: str,
        resource: str,
        scopes: tuple[str, ...],
        state: str,
        entropy: Entropy,
    ) -> CodeRequest:
        """Returns a request with a fresh verifier. `state`: a fresh one (`new_state`)."""
        return cls(server, client, redirect_uri, resource, scopes, state, Secret(_text(entropy.token(48))))

    @property
    def url(self) -> str:
        """The address for the browser."""
        fields = {
            "response_type": "code",
            "client_id": self.client.id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": _text(sha256(self.verifier.reveal().encode()).digest()),
            "code_challenge_method": "S256",
            "resource": self.resource,
        }
        if self.scopes:
            fields["scope"] = " ".join(self.scopes)
        if "offline_access" in self.scopes:
            fields["prompt"] = "consent"
        start = str(self.server.authorization_endpoint)
        return f"{start}{'&' if '?' in start else '?'}{urlencode(fields)}"

    def code(self, query: Mapping[str, str]) -> Secret:
        """Returns the code in the query of a redirect. Raises LoginFailed (`redirect_invalid`, `login_refused`)."""
        host = self.server.token_endpoint.host
        if not hmac.compare_digest(query.get("state", "").encode(), self.state.encode()):
            raise _invalid("The redirect does not belong to this login (its state is another one).")
        issuer = query.get("iss")
        if issuer is None and self.server.names_itself:
            raise _invalid(f"{host} says that it names itself in each redirect, and did not.")
        if issuer is not None and issuer != self.server.issuer:
            raise _invalid("The redirect comes from another authorization server than the one that was asked.")
        if "error" in query:
            why = known_error(query["error"])
            raise LoginFailed(f"The login at {host} was refused: {why}. Run the command again.", code="login_refused")
        if not query.get("code"):
            raise _invalid(f"The redirect of {host} has no code.")
        return Secret(query["code"])


def new_state(entropy: Entropy) -> str:
    """Returns a state for one login. Only the authorization server that is asked gets to know it."""
    return _text(entropy.token(32))


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _invalid(message: str) -> LoginFailed:
    return LoginFailed(f"{message} Nothing was sent. Run the command again.", code="redirect_invalid")
