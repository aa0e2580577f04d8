"""Calls of an MCP server with a connection's tokens: renewed, refused, and recorded nowhere if it repeats them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.canaries.search import find_values, spellings_of
from tests.login_server import LoginServer, Seen, browse, serving_logins
from tests.mcp.protected_server import WHOAMI, protect

from demiurge.bootstrap.backend.token_lender import WorldTokenLender
from demiurge.bootstrap.secrets import open_vault
from demiurge.capabilities.http.guarded import GuardedHttp
from demiurge.capabilities.oauth.flow import LoginRequest, log_in
from demiurge.errors import Unavailable
from demiurge.mcp import McpClients, ServerSettings, ToolDefinition
from demiurge.mcp.oauth import auth_of
from demiurge.tools import ToolContext, ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.values.clock import SystemClock, SystemEntropy
from demiurge.world.connection_credentials import ConnectionCredentials
from demiurge.world.connection_tokens import ConnectionTokens

PINNED = ToolDefinition.of_json(WHOAMI)
STATE: dict[str, Any] = {
    "provider": "tracker",
    "credential_type": "oauth2",
    "tenant": "",
    "scopes": [],
    "tools": None,
    "expires_at_ms": None,
    "revoked": None,
}


@pytest.fixture
def server() -> Iterator[LoginServer]:
    with serving_logins() as running:
        yield running


@pytest.fixture
async def clients(server: LoginServer, tmp_path: Path) -> AsyncIterator[McpClients]:
    """Clients of a world with the connection c-1, which was made by a login a moment ago."""
    login = await log_in(GuardedHttp(), LoginRequest(server.resource), browse, SystemClock(), SystemEntropy())
    stored = ConnectionCredentials(open_vault({"HOME": str(tmp_path)}), "world_1")
    stored.put("c-1", STATE, login.credentials, SystemEntropy(), login.login)
    tokens = ConnectionTokens(stored, GuardedHttp(), SystemClock(), SystemEntropy())

    async def read(connection_id: str) -> dict[str, Any] | None:
        return STATE if connection_id == "c-1" else None

    made = McpClients(auth_of=auth_of(WorldTokenLender(read, tokens, SystemClock())), stop_s=1)
    yield made
    await made.close()


def settings(server: LoginServer, connection_id: str = "c-1") -> ServerSettings:
    return ServerSettings("tracker", "http", url=server.resource, connection_id=connection_id)


async def call(clients: McpClients, server: LoginServer, effect: ToolEffect = ToolEffect.EXTERNAL_SIDE_EFFECT) -> Any:
    return await clients.call(settings(server), PINNED, {"number": 1}, ToolContext(), effect)


async def failed(clients: McpClients, server: LoginServer) -> ToolFailure:
    with pytest.raises(ToolFailure) as told:
        await call(clients, server)
    return told.value


async def test_a_call_carries_the_token_and_renews_it_once(clients: McpClients, server: LoginServer) -> None:
    asked = protect(server)
    assert "ada" in str((await call(clients, server)).message)
    server.access_tokens.clear()
    assert "ada" in str((await call(clients, server)).message)
    assert asked.count("tools/call") == 2
    assert [seen.form["grant_type"] for seen in server.asked("/token")] == ["authorization_code", "refresh_token"]


async def test_an_error_of_the_server_after_a_renewal_is_no_refusal(clients: McpClients, server: LoginServer) -> None:
    protect(server)
    answer = server.answers["/mcp"]

    def unknown(seen: Seen) -> Any:
        made = answer(seen) if seen.form.get("method") != "tools/call" else server._resource(seen)
        if seen.form.get("method") == "tools/call" and made[0] == 200:
            return {"jsonrpc": "2.0", "id": seen.form["id"], "error": {"code": -32603, "message": "half done"}}
        return made

    server.answers["/mcp"] = unknown
    await clients.list_tools(settings(server))
    server.access_tokens.clear()
    assert "half done" in str((await call(clients, server)).message)


async def test_a_login_that_was_ended_is_told_with_the_command(clients: McpClients, server: LoginServer) -> None:
    protect(server)
    await call(clients, server)
    server.access_tokens.clear()
    server.refresh_tokens.clear()
    error = await failed(clients, server)
    assert error.error_code is ToolErrorCode.UNAVAILABLE
    assert "`demiurge connections login c-1`" in error.message
    assert "`demiurge connections login c-1`" in clients.problem("tracker")


async def test_a_connection_that_cannot_be_lent_is_told_when_the_server_is_reached(
    clients: McpClients, server: LoginServer
) -> None:
    protect(server)
    with pytest.raises(Unavailable, match="There is no connection c-9"):
        await clients.list_tools(settings(server, "c-9"))
    assert server.asked("/mcp")[-1].headers.get("authorization") is None


async def test_a_redirect_takes_the_token_to_no_path_that_it_is_not_for(
    clients: McpClients, server: LoginServer
) -> None:
    asked = protect(server)
    server.answers["/mcp/below"] = server.answers["/mcp"]
    server.answers["/mcp"] = (307, {"location": "/mcp/below"}, b"")
    assert "ada" in str((await call(clients, server)).message)
    await clients.close()
    assert asked
    del server.answers["/mcp/below"]
    server.answers["/mcp"] = (307, {"location": "/elsewhere"}, b"")
    assert "another server" in (await failed(clients, server)).message
    assert server.asked("/elsewhere") == []


async def test_a_missing_scope_is_told_to_people_alone(clients: McpClients, server: LoginServer) -> None:
    protect(server)
    await clients.list_tools(settings(server))
    wanted = {"www-authenticate": 'Bearer error="insufficient_scope", scope="do-as-i-say"'}
    server.answers["/mcp"] = (403, wanted, b"")
    error = await failed(clients, server)
    assert error.error_code is ToolErrorCode.UNAVAILABLE
    assert "do-as-i-say" not in error.message
    assert "lacks a scope" in error.message
    assert "do-as-i-say" in clients.problem("tracker")


@pytest.mark.parametrize("spelling", sorted(spellings_of("x")))
async def test_a_token_that_a_server_says_back_gets_nowhere(
    clients: McpClients, server: LoginServer, spelling: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    protect(server, lambda seen: "you are " + spellings_of(seen.headers["authorization"][7:])[spelling])
    error = await failed(clients, server)
    assert error.error_code is ToolErrorCode.REDACTION_FAILED
    assert find_values(server.secrets(), str(error), repr(error), error.message) == []


async def test_a_token_in_a_long_answer_gets_nowhere(clients: McpClients, server: LoginServer) -> None:
    protect(server, lambda seen: "x" * 100_000 + seen.headers["authorization"])
    assert (await failed(clients, server)).error_code is ToolErrorCode.REDACTION_FAILED


async def test_a_token_in_a_listing_gets_nowhere(clients: McpClients, server: LoginServer) -> None:
    protect(server)
    answer = server.answers["/mcp"]

    def listing(seen: Seen) -> Any:
        made = answer(seen)
        if seen.form.get("method") != "tools/list" or made[0] != 200:
            return made
        tool = {**WHOAMI, "description": seen.headers["authorization"]}
        return {"jsonrpc": "2.0", "id": seen.form["id"], "result": {"tools": [tool]}}

    server.answers["/mcp"] = listing
    with pytest.raises(Unavailable) as told:
        await clients.list_tools(settings(server))
    assert find_values(server.secrets(), str(told.value), clients.problem("tracker")) == []
