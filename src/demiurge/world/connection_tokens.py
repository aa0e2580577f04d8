"""`ConnectionTokens`: the credentials of a world's connections, renewed where that is needed and possible.

Invariant: new tokens are in the vault before anybody uses them, and one renewal of a connection runs at a time, in all
processes of a user. Whoever waited finds the new tokens in the vault and asks no server. A renewal runs to its end in a
thread, also if the call that needed it is cancelled: a server that changes refresh tokens has spent the old one.

If the server refuses, the entry in the vault says so, and a person has to log in again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from demiurge import faults
from demiurge.capabilities.http.guarded import GuardedHttp
from demiurge.capabilities.oauth.endpoints import allowed_networks, endpoint
from demiurge.capabilities.oauth.errors import LoginFailed, RenewalRefused
from demiurge.capabilities.oauth.exchange import OAuthHttp
from demiurge.capabilities.oauth.login import OAuthLogin
from demiurge.capabilities.oauth.tokens import renew, revoke
from demiurge.errors import DemiurgeError, Unavailable
from demiurge.tools.connections.credentials import Credentials
from demiurge.tools.execution.worker import to_the_end
from demiurge.values.clock import Clock, Entropy
from demiurge.world.connection_credentials import ConnectionCredentials, StoredCredentials

__all__ = ["ConnectionTokens", "login_command", "oauth_http"]

MARGIN_MS: Final = 60_000
"""How long before its end a token is renewed; for a short-lived token, a quarter of its life."""
LOCK_SECONDS: Final = 25.0
"""How long one renewal waits for another: longer than the other may take."""


class ConnectionTokens:
    """The tokens of one world's connections. `stored`: where they lie."""

    def __init__(self, stored: ConnectionCredentials, guarded: GuardedHttp, clock: Clock, entropy: Entropy) -> None:
        self.stored, self._guarded, self._clock, self._entropy = stored, guarded, clock, entropy

    async def current(
        self, connection_id: str, state: Mapping[str, Any], refused: Credentials | None = None
    ) -> Credentials:
        """Returns the credentials of a connection, renewed if they end soon or are those that a server has `refused`.
        Credentials that have ended and cannot be renewed by their nature are returned as they are.

        Raises Unavailable: `login_needed`, with the command, or `connection_unavailable` if the authorization server
        can't be asked now; NotFound and Damaged, as `ConnectionCredentials.get`."""
        stored = await asyncio.to_thread(self.stored.get, connection_id, state)
        if not self._is_due(stored, refused):
            return stored.credentials
        work = partial(self._renewed, connection_id, state, refused)
        return await to_the_end(work)

    async def want(self, connection_id: str, state: Mapping[str, Any], scopes: tuple[str, ...]) -> None:
        """Notes that the tokens of a connection lack these scopes, for the next login. Raises Unavailable, and what
        `ConnectionCredentials.get` raises."""
        await to_the_end(partial(self._want, connection_id, state, scopes))

    async def resource(self, connection_id: str, state: Mapping[str, Any]) -> str | None:
        """Returns the address that the tokens of a connection are for; None for a token that a person gave, which says
        nothing of that. Raises what `ConnectionCredentials.get` raises."""
        login = (await asyncio.to_thread(self.stored.get, connection_id, state)).login
        return None if login is None else login.resource

    async def replace(
        self, connection_id: str, state: Mapping[str, Any], credentials: Credentials, login: OAuthLogin
    ) -> None:
        """Stores the tokens of a new login in place of the old ones; durable on return. Raises Unavailable and
        NotFound."""
        await to_the_end(partial(self._replace, connection_id, state, credentials, login))

    async def end(self, connection_id: str, state: Mapping[str, Any]) -> bool:
        """Revokes the tokens of a connection at its authorization server, and removes them from the vault whatever the
        server says. Returns False if the connection has no login there, or the server no way to revoke. Raises
        LoginFailed, and what `ConnectionCredentials.get` raises; the vault has no tokens then either."""
        return await to_the_end(partial(self._end, connection_id, state))

    def _want(self, connection_id: str, state: Mapping[str, Any], scopes: tuple[str, ...]) -> None:
        with self.stored.lock(connection_id, LOCK_SECONDS):
            stored = self.stored.get(connection_id, state)
            if stored.login is not None and stored.login.wanted != scopes:
                wanting = replace(stored.login, wanted=scopes)
                self.stored.put(connection_id, state, stored.credentials, self._entropy, wanting)

    def _replace(
        self, connection_id: str, state: Mapping[str, Any], credentials: Credentials, login: OAuthLogin
    ) -> None:
        with self.stored.lock(connection_id, LOCK_SECONDS):
            self.stored.get(connection_id, state)
            self.stored.put(connection_id, state, credentials, self._entropy, login)

    def _end(self, connection_id: str, state: Mapping[str, Any]) -> bool:
        with self.stored.lock(connection_id, LOCK_SECONDS):
            try:
                stored = self.stored.get(connection_id, state)
                if stored.login is None:
                    return False
                http = oauth_http(self._guarded, stored.login)
                return asyncio.run(revoke(http, stored.login, stored.credentials))
            finally:
                self.stored.discard(connection_id)

    def _renewed(self, connection_id: str, state: Mapping[str, Any], refused: Credentials | None) -> Credentials:
        """Renews the tokens if nobody else has meanwhile, and returns them. Runs in a thread."""
        with self.stored.lock(connection_id, LOCK_SECONDS):
            stored = self.stored.get(connection_id, state)
            if not self._is_due(stored, refused):
                return stored.credentials
            assert stored.login is not None
            if stored.login.refused and self._is_usable(stored, refused):
                return stored.credentials
            if stored.login.refused:
                raise _needs_login(connection_id, stored.login)
            try:
                return self._ask(connection_id, state, stored, stored.login)
            except RenewalRefused as problem:
                is_usable = self._is_usable(stored, refused)
                if is_usable and stored.credentials.refresh_token is None:
                    return stored.credentials
                ended = replace(stored.login, refused=str(problem.details["reason"]))
                self.stored.put(connection_id, state, stored.credentials.to_send(), self._entropy, ended)
                if is_usable:
                    return stored.credentials
                raise _needs_login(connection_id, ended) from None
            except LoginFailed as problem:
                if self._is_usable(stored, refused):
                    return stored.credentials
                message = f"The connection {connection_id} could not be renewed: {problem.message} Try again later."
                raise Unavailable(message, code="connection_unavailable") from None

    def _ask(
        self, connection_id: str, state: Mapping[str, Any], stored: StoredCredentials, login: OAuthLogin
    ) -> Credentials:
        """Asks the authorization server for new tokens and stores them."""
        asked = renew(oauth_http(self._guarded, login), login, stored.credentials, self._now_ms())
        fresh, renewed = asyncio.run(asked)
        faults.point("oauth.renewed")
        self.stored.put(connection_id, state, fresh, self._entropy, renewed)
        return fresh

    def _is_due(self, stored: StoredCredentials, refused: Credentials | None) -> bool:
        """Returns whether tokens have to be renewed: they end soon, or are the refused ones, or a person is needed."""
        if stored.login is None:
            return False
        if stored.login.refused or _is_same(stored.credentials, refused):
            return True
        ends_ms = stored.credentials.expires_at_ms
        if ends_ms is None:
            return False
        margin_ms = min(MARGIN_MS, (ends_ms - stored.login.obtained_at_ms) // 4)
        return self._now_ms() >= ends_ms - margin_ms

    def is_over(self, stored: StoredCredentials) -> bool:
        """Returns whether only a new login of a person helps: the server refused to renew the tokens, or they have
        ended and cannot be renewed."""
        if stored.login is None:
            return False
        has_ended = not self._is_usable(stored, None)
        return bool(stored.login.refused) or (has_ended and stored.credentials.refresh_token is None)

    def _is_usable(self, stored: StoredCredentials, refused: Credentials | None) -> bool:
        ends_ms = stored.credentials.expires_at_ms
        return not _is_same(stored.credentials, refused) and (ends_ms is None or self._now_ms() < ends_ms)

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000


def oauth_http(guarded: GuardedHttp, login: OAuthLogin) -> OAuthHttp:
    """Returns what sends the requests of a login that was made before."""
    return OAuthHttp(guarded, allowed_networks(endpoint(login.url, "The address"), login.networks))


def login_command(connection_id: str) -> str:
    """Returns the command with which a person logs in again."""
    return f"demiurge connections login {connection_id}"


def _needs_login(connection_id: str, login: OAuthLogin) -> DemiurgeError:
    why = "has ended" if login.refused == "no_refresh_token" else f"was ended by its server ({login.refused})"
    message = f"The login of the connection {connection_id} {why}: run `{login_command(connection_id)}`."
    return Unavailable(message, code="login_needed")


def _is_same(credentials: Credentials, refused: Credentials | None) -> bool:
    return refused is not None and credentials.access_token.reveal() == refused.access_token.reveal()
