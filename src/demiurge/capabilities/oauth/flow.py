"""One login, from a protected address to its tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from demiurge.capabilities.http.guarded import GuardedHttp
from demiurge.capabilities.oauth.authorization import CodeRequest, new_state
from demiurge.capabilities.oauth.client import choose_client
from demiurge.capabilities.oauth.discovery import Discovered, discover
from demiurge.capabilities.oauth.endpoints import allowed_networks, endpoint
from demiurge.capabilities.oauth.errors import LoginFailed
from demiurge.capabilities.oauth.exchange import OAuthHttp
from demiurge.capabilities.oauth.login import OAuthLogin
from demiurge.capabilities.oauth.loopback import LoopbackRedirect
from demiurge.capabilities.oauth.tokens import exchange_code
from demiurge.tools.connections.credentials import Credentials, Secret
from demiurge.values.clock import Clock, Entropy

__all__ = ["LOGIN_SECONDS", "LoginRequest", "LoginResult", "ShowLink", "log_in"]

LOGIN_SECONDS: Final = 300.0
"""How long a person has for the login in the browser."""

ShowLink = Callable[[str, str], Awaitable[None]]
"""Shows a person the link of a login: the host of the authorization server, which gets the answer of the login, and the
address for the browser. An authorization server may send a person to another host to log in. If that one does not
belong to it, the answer gives it the person's account there, so the person has to see both."""

_OFFLINE: Final = "offline_access"
_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """A wanted login. `url`: a protected address, such as that of a server of the Model Context Protocol. `scopes`:
    what to ask for, empty: what the server asks for. `client_id`: the address of a client metadata document, or an id
    that the server's operator gave out; `client_secret` belongs to such an id. `networks` may be asked beside the
    public internet. `issuer`: the only authorization server that may be used, None: whichever the address names."""

    url: str
    scopes: tuple[str, ...] = ()
    client_id: str | None = None
    client_secret: Secret | None = field(default=None, repr=False)
    networks: tuple[str, ...] = ()
    issuer: str | None = None


class LoginResult(NamedTuple):
    """The tokens of a login, and what is kept to renew them."""

    login: OAuthLogin
    credentials: Credentials


async def log_in(
    guarded: GuardedHttp,
    wanted: LoginRequest,
    show: ShowLink,
    clock: Clock,
    entropy: Entropy,
    timeout_s: float = LOGIN_SECONDS,
) -> LoginResult:
    """Logs in: finds the authorization server, has a person log in there, and takes the tokens. Stores nothing. Raises
    LoginFailed."""
    url = endpoint(wanted.url, "The address", code="address_invalid")
    http = OAuthHttp(guarded, allowed_networks(url, wanted.networks))
    found = await discover(http, url)
    server, scopes = found.server, _scopes(found, wanted.scopes)
    if wanted.issuer is not None and server.issuer != wanted.issuer:
        why = "It does not know the client's id that was given. Add a connection with an id for it."
        raise LoginFailed(f"{url.host} now names another authorization server. {why}", code="metadata_invalid")
    await http.require_reachable(server.authorization_endpoint)
    state = new_state(entropy)
    async with LoopbackRedirect(state) as redirect:
        client = await choose_client(http, server, redirect.uri, scopes, wanted.client_id, wanted.client_secret)
        request = CodeRequest.draw(server, client, redirect.uri, found.resource.identifier, scopes, state, entropy)
        await show(endpoint(server.issuer, "The issuer").host, request.url)
        code = request.code(await redirect.query(timeout_s))
    now_ms = clock.now_ns() // _MS
    credentials, granted = await exchange_code(http, request, code, now_ms)
    login = OAuthLogin(
        url=wanted.url,
        resource=found.resource.identifier,
        issuer=server.issuer,
        token_endpoint=str(server.token_endpoint),
        revocation_endpoint=None if server.revocation_endpoint is None else str(server.revocation_endpoint),
        client=client,
        client_id=wanted.client_id,
        scopes=granted,
        networks=wanted.networks,
        obtained_at_ms=now_ms,
    )
    return LoginResult(login, credentials)


def _scopes(found: Discovered, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the scopes to ask for: those that the user wants, else those of the challenge, else those of the
    resource. A server that gives refresh tokens for `offline_access` is asked for it too."""
    scopes = wanted or found.challenged or found.resource.scopes
    return (*scopes, _OFFLINE) if scopes and _OFFLINE in found.server.scopes and _OFFLINE not in scopes else scopes
