"""A client for the scenarios `auth/*` of the protocol's conformance suite, made of the code that worlds use.

It stands for a person who adds a connection by a login, lets a tool be called, and follows each command that is
printed. `conformance_client` runs it.

The scenario `auth/2025-03-26-oauth-endpoint-fallback`, of the protocol's first revision, fails on purpose: its server
publishes no metadata, so nothing says that it checks PKCE. The extensions (client credentials, DPoP, enterprise
authorization, workload identity) are not there.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from typing import Any

from tests.login_server import browse

from demiurge.bootstrap.backend.token_lender import WorldTokenLender
from demiurge.bootstrap.secrets import open_vault
from demiurge.capabilities.http.guarded import GuardedHttp
from demiurge.capabilities.oauth.flow import LoginRequest, log_in
from demiurge.errors import DemiurgeError
from demiurge.mcp import McpClients, ServerSettings
from demiurge.mcp.oauth import auth_of
from demiurge.tools import Secret, ToolContext, ToolEffect
from demiurge.values.clock import SystemClock, SystemEntropy
from demiurge.world.connection_credentials import ConnectionCredentials
from demiurge.world.connection_tokens import ConnectionTokens

DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The address of the client metadata document that the suite knows."""
MOST_LOGINS = 3
STATE: dict[str, Any] = {
    "provider": "conformance",
    "credential_type": "oauth2",
    "tenant": "",
    "scopes": [],
    "tools": None,
    "expires_at_ms": None,
    "revoked": None,
}


class Person:
    """A person with one connection. `given`: what the suite says of a client that was registered by hand."""

    def __init__(self, url: str, home: str, given: dict[str, Any]) -> None:
        self._url, self._given = url, given
        stored = ConnectionCredentials(open_vault({"HOME": home}), "world_1")
        self._tokens = ConnectionTokens(stored, GuardedHttp(), SystemClock(), SystemEntropy())
        self._settings = ServerSettings("conformance", "http", url=url, connection_id="c-1")
        self._clients = McpClients(auth_of=auth_of(WorldTokenLender(self._read, self._tokens, SystemClock())), stop_s=1)

    async def run(self) -> None:
        """Logs in and calls every tool; logs in again as often as a printed command says so."""
        try:
            await self._log_in()
            for _ in range(MOST_LOGINS):
                told = await self._use()
                if not told:
                    return
                print(told, file=sys.stderr)
                await self._log_in()
                await self._clients.stop("conformance")
            raise SystemExit("The server asks for more and more logins.")
        finally:
            await self._clients.close()

    async def _use(self) -> str:
        """Calls every tool. Returns the sentence with the command that a person has to run, "" if there is none."""
        try:
            listing = await self._clients.list_tools(self._settings)
            for tool in listing.definitions:
                await self._clients.call(self._settings, tool, {}, ToolContext(), ToolEffect.READ_ONLY)
        except DemiurgeError as error:
            told = self._clients.problem("conformance") or error.message
            if "demiurge connections login" not in told:
                raise
            return told
        return ""

    async def _log_in(self) -> None:
        stored, secret = self._tokens.stored, self._given.get("client_secret")
        login = stored.get("c-1", STATE).login if stored.ids() else None
        scopes = (*login.scopes, *login.wanted) if login is not None else ()
        wanted = LoginRequest(
            self._url,
            tuple(dict.fromkeys(scopes)),
            self._given.get("client_id", DOCUMENT),
            Secret(secret) if secret else None,
        )
        made = await log_in(GuardedHttp(), wanted, browse, SystemClock(), SystemEntropy(), timeout_s=10)
        stored.put("c-1", STATE, made.credentials, SystemEntropy(), made.login)

    async def _read(self, _connection_id: str) -> dict[str, Any]:
        return STATE


def main() -> None:
    """Plays the scenario that the suite names in the environment."""
    with tempfile.TemporaryDirectory() as home:
        context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
        asyncio.run(Person(sys.argv[-1], home, context).run())
