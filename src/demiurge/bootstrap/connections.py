"""`Connections`: the connections of a world, to list, add, revoke and choose, and to log in for.

Invariant: this process stores credentials in the user's vault before the world hears of the connection, and they never
travel over a socket. So a process that is killed in between leaves an entry in the vault that nothing uses, and never a
connection without an entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

from demiurge import faults
from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.backend.calls import Backend
from demiurge.bootstrap.backend.world_connections import WorldConnection
from demiurge.bootstrap.secrets import open_vault
from demiurge.capabilities.http.guarded import GuardedHttp
from demiurge.capabilities.oauth.client import is_document_id
from demiurge.capabilities.oauth.endpoints import endpoint
from demiurge.capabilities.oauth.errors import LoginFailed
from demiurge.capabilities.oauth.flow import LOGIN_SECONDS, LoginRequest, LoginResult, ShowLink, log_in
from demiurge.capabilities.oauth.login import OAuthLogin
from demiurge.errors import Conflict, DemiurgeError, InvalidValue, NotFound, UsageError
from demiurge.tools.connections.credentials import Credentials, Secret
from demiurge.tools.ids import checked_id
from demiurge.values.clock import SystemClock, SystemEntropy, new_id
from demiurge.values.durations import checked_duration
from demiurge.world.connection_credentials import ConnectionCredentials
from demiurge.world.connection_tokens import ConnectionTokens
from demiurge.world.connections import CHOICE
from demiurge.world.unit import Unit

__all__ = ["Connections", "Revocation"]

NOT_ADDED: Final = (Conflict, InvalidValue, NotFound, UsageError)
"""The errors after which the world has no such connection; after another error it may have one."""


class Revocation(NamedTuple):
    """The fate of a revoked connection's tokens at the server that issued them. `problem`: why they may still be valid
    there, for a person; empty if they are revoked there or nothing is known of such a server."""

    at_server: bool
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Connections:
    """Made by `World.connections`. Only a caller with the role `user` adds, revokes, chooses and logs in (UsageError,
    `role_missing`). Methods raise Unavailable."""

    backend: Backend = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)

    async def add(
        self,
        provider: str,
        credentials: Credentials,
        *,
        tools: Iterable[str] | None = None,
        scopes: Iterable[str] = (),
        credential_type: str = "oauth2",
        tenant: str | None = None,
        expires_at_ms: int | None = None,
    ) -> str:
        """Adds a connection and returns its id. None of a chat's calls use it before it is chosen (`use`).

        `tools`: those that may use it, None: every tool that needs a connection. `scopes` are the provider's words, for
        people to read. `tenant`: the one whose calls may use it, by default the caller's. `expires_at_ms`: when it
        ends, if not when the credentials do. Names are 1 to 256 bytes of printable text. Raises InvalidValue.
        """
        ends = [end for end in (expires_at_ms, credentials.expires_at_ms) if end is not None]
        terms = self._terms(provider, scopes, tools, tenant, min(ends, default=None), credential_type)
        return await self._added(terms, credentials)

    async def add_by_login(
        self,
        url: str,
        show: ShowLink,
        *,
        scopes: Iterable[str] = (),
        client_id: str | None = None,
        client_secret: Secret | None = None,
        networks: Iterable[str] = (),
        provider: str | None = None,
        tools: Iterable[str] | None = None,
        tenant: str | None = None,
        expires_at_ms: int | None = None,
        timeout_s: float = LOGIN_SECONDS,
    ) -> str:
        """Has a person log in at the authorization server of the protected address `url` (OAuth 2.1), adds a connection
        with the tokens, which are renewed from then on, and returns its id.

        `show` is called with the authorization server's host and the link for the person's browser (`ShowLink`).
        `scopes`, `client_id`, `client_secret` and `networks`: see `LoginRequest`. `provider`: the connection's name, by
        default the host of `url`. `timeout_s`: how long the person has. The other arguments are those of `add`. Raises
        LoginFailed, InvalidValue.
        """
        self._require_user()
        wanted = LoginRequest(url, tuple(scopes), client_id, client_secret, tuple(networks))
        name = endpoint(url, "The address", code="address_invalid").host if provider is None else provider
        limits = None if tools is None else sorted({checked_id(tool) for tool in tools})
        made = await self._logged_in(wanted, show, timeout_s)
        terms = self._terms(name, made.login.scopes, limits, tenant, expires_at_ms)
        return await self._added(terms, made.credentials, made.login)

    async def log_in(
        self,
        connection_id: str,
        show: ShowLink,
        *,
        scopes: Iterable[str] = (),
        timeout_s: float = LOGIN_SECONDS,
    ) -> tuple[str, ...]:
        """Has a person log in again for a connection that was added by a login, and returns the granted scopes. What
        the connection may be used for does not change. `scopes` are asked for beside the granted ones; without any
        those that its server asked for (`WorldConnection.wanted_scopes`).

        Raises LoginFailed, NotFound (`connection_not_found`, `no_credentials`), Conflict (`revoked`), and InvalidValue
        for a connection whose token was given."""
        self._require_user()
        tokens, one = await self._tokens(), await self._named(connection_id)
        if one.state == "revoked":
            raise Conflict(f"The connection {connection_id} was revoked: add another one.", code="revoked")
        before = (await asyncio.to_thread(tokens.stored.get, connection_id, _state(one))).login
        if before is None:
            message = f"The connection {connection_id} has a token that was given: add another one by a login."
            raise InvalidValue(message, code="no_login")
        is_bound = before.client_id is not None and not is_document_id(before.client_id)
        wanted = LoginRequest(
            before.url,
            tuple(dict.fromkeys((*before.scopes, *(tuple(scopes) or before.wanted)))),
            before.client_id,
            before.client.secret if is_bound else None,
            before.networks,
            before.issuer if is_bound else None,
        )
        made = await self._logged_in(wanted, show, timeout_s)
        if made.login.resource != before.resource:
            message = "The address now stands for another resource: add a connection for it, and revoke this one."
            raise LoginFailed(message, code="metadata_invalid")
        await tokens.replace(connection_id, _state(one), made.credentials, made.login)
        return made.login.scopes

    async def list(self) -> list[WorldConnection]:
        """Every connection, oldest first, the revoked ones too."""
        tokens = await self._tokens()
        found = await self.backend.read.connections()
        return await asyncio.to_thread(lambda: [_here(one, tokens) for one in found])

    async def revoke(self, connection_id: str, reason: str = "") -> Revocation:
        """Ends a connection for good and removes its credentials from the vault. A running call keeps the credentials
        that it was given. Every other call is refused, also one that waits for a person now. Tokens of a login are
        revoked at their authorization server too, if it can. A repeated revocation changes nothing. Raises NotFound."""
        await self.backend.run.revoke_connection(connection_id, reason)
        faults.point("connection.revoked")
        tokens = await self._tokens()
        if connection_id not in await asyncio.to_thread(tokens.stored.ids):
            return Revocation(at_server=False)
        try:
            return Revocation(await tokens.end(connection_id, _state(await self._named(connection_id))))
        except DemiurgeError as error:
            await asyncio.to_thread(tokens.stored.discard, connection_id)
            return Revocation(at_server=False, problem=error.message)

    async def use(self, connection_id: str | None, chat: str = "main", *, tool: str | None = None) -> None:
        """Chooses the connection for the calls of a chat, or with `tool` for the calls of that tool, which takes
        precedence; None: no connection. A call that waits for a person was proposed for the former choice, and expires.
        Raises NotFound (`connection_not_found`), Conflict (`revoked`)."""
        name = checked_id(tool) if tool is not None else None
        await self.backend.run.choose_connection(str(Unit(CHAT, chat)), name, connection_id)

    async def of_chat(self, chat: str = "main") -> Mapping[str, str]:
        """Returns the connections that are chosen for a chat, by tool; under "" the one for all other tools."""
        state = await self.backend.read.state(CHOICE, str(Unit(CHAT, chat)))
        return dict(state["chosen"]) if state is not None else {}

    def _terms(
        self,
        provider: str,
        scopes: Iterable[str],
        tools: Iterable[str] | None,
        tenant: str | None,
        expires_at_ms: int | None,
        credential_type: str = "oauth2",
    ) -> dict[str, Any]:
        return {
            "provider": provider,
            "credential_type": credential_type,
            "tenant": self.backend.caller.tenant if tenant is None else tenant,
            "scopes": list(scopes),
            "tools": None if tools is None else sorted({checked_id(tool) for tool in tools}),
            "expires_at_ms": expires_at_ms,
        }

    async def _added(self, terms: dict[str, Any], credentials: Credentials, login: OAuthLogin | None = None) -> str:
        connection_id, stored = new_id("conn", SystemEntropy()), (await self._tokens()).stored
        await asyncio.to_thread(stored.put, connection_id, terms, credentials, SystemEntropy(), login)
        faults.point("connection.sealed")
        try:
            await self.backend.run.add_connection(connection_id, terms)
        except NOT_ADDED:
            await asyncio.to_thread(stored.discard, connection_id)
            raise
        faults.point("connection.added")
        return connection_id

    async def _logged_in(self, wanted: LoginRequest, show: ShowLink, timeout_s: float) -> LoginResult:
        longest_s = checked_duration(timeout_s, "timeout_s")
        made = await log_in(GuardedHttp(), wanted, show, SystemClock(), SystemEntropy(), longest_s)
        faults.point("oauth.issued")
        return made

    async def _named(self, connection_id: str) -> WorldConnection:
        for one in await self.backend.read.connections():
            if one.id == connection_id:
                return one
        raise NotFound(
            f"There is no connection {connection_id}; `demiurge connections ls` lists those of this world.",
            code="connection_not_found",
        )

    async def _tokens(self) -> ConnectionTokens:
        world_id = (await self.backend.read.info())["world_id"]
        stored = ConnectionCredentials(open_vault(self.environment), world_id)
        return ConnectionTokens(stored, GuardedHttp(), SystemClock(), SystemEntropy())

    def _require_user(self) -> None:
        if not self.backend.caller.has("user"):
            raise UsageError("Only a caller with the role user logs in for a connection.", code="role_missing")


def _here(one: WorldConnection, tokens: ConnectionTokens) -> WorldConnection:
    """Returns a connection as it stands with this user's vault. An entry that cannot be opened is reported when it is
    used."""
    if one.state != "usable":
        return one
    if one.id not in tokens.stored.ids():
        return replace(one, state="no_credentials")
    try:
        stored = tokens.stored.get(one.id, _state(one))
    except DemiurgeError:
        return one
    if stored.login is None:
        return one
    state: Literal["login_needed", "usable"] = "login_needed" if tokens.is_over(stored) else "usable"
    return replace(one, scopes=stored.login.scopes, wanted_scopes=stored.login.wanted, state=state)


def _state(one: WorldConnection) -> Mapping[str, Any]:
    """Returns the terms of a connection, as its unit's state has them."""
    names = ("provider", "credential_type", "tenant", "scopes", "tools", "expires_at_ms")
    return {name: getattr(one, name) for name in names}
