"""`OAuthLogin`: all that is needed to renew and to revoke the tokens of a login, and to log in again.

It is sealed together with the tokens, so nobody can have a refresh token sent to another address by changing a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from demiurge.capabilities.oauth.client import OAuthClient
from demiurge.tools.connections.credentials import Secret

__all__ = ["OAuthLogin"]


@dataclass(frozen=True, slots=True)
class OAuthLogin:
    """A login at an authorization server. `resource`: the address that the tokens are for. `scopes`: those that were
    granted. `client_id`: the id that the user gave, None: Demiurge registered itself. `networks`: those that requests
    may go to beside the public internet. `obtained_at_ms`: when the tokens were issued, in milliseconds since 1970.
    `refused`: the code with which the server refused to renew them; then a person has to log in again. `wanted`: the
    scopes that a protected server asked for and the tokens lack."""

    url: str
    resource: str
    issuer: str
    token_endpoint: str
    revocation_endpoint: str | None
    client: OAuthClient = field(repr=False)
    client_id: str | None
    scopes: tuple[str, ...]
    networks: tuple[str, ...]
    obtained_at_ms: int
    refused: str = ""
    wanted: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns all fields; the client's secret is among them, so the result belongs into a sealed value alone."""
        secret = self.client.secret
        client = {"id": self.client.id, "auth_method": self.client.auth_method}
        if secret is not None:
            client["secret"] = secret.reveal()
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "client"}
        return {**plain, "client": client}

    @classmethod
    def of_json(cls, node: Mapping[str, Any]) -> OAuthLogin:
        """The inverse of `to_json`. Raises KeyError, TypeError."""
        given, secret = node["client"], node["client"].get("secret")
        client = OAuthClient(given["id"], None if secret is None else Secret(secret), given["auth_method"])
        lists = {name: tuple(node[name]) for name in ("scopes", "networks", "wanted")}
        return cls(**{**node, **lists, "client": client})
