"""An MCP server of a world behind a login: called with renewed tokens, under the limits of its connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.canaries.search import bytes_below, find_values
from tests.login_server import LoginServer, Seen, browse, serving_logins
from tests.mcp.protected_server import protect

from demiurge import World
from demiurge.errors import Unavailable
from demiurge.mcp import ServerSettings

TOOL = "mcp__tracker__whoami"


@pytest.fixture
def server() -> Iterator[LoginServer]:
    with serving_logins() as running:
        protect(running)
        yield running


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World.open(tmp_path / "w", environment={"HOME": str(tmp_path / "home")}) as opened:
        yield opened


async def add_server(world: World, server: LoginServer, connection_id: str) -> None:
    """Adds the server with a connection, and trusts its tool."""
    await world.mcp.add(ServerSettings("tracker", "http", url=server.resource, connection_id=connection_id))
    await world.mcp.trust("tracker", rule="allow")


async def test_a_server_is_listed_and_called_with_the_tokens_of_its_connection(
    world: World, server: LoginServer, tmp_path: Path
) -> None:
    made = await world.connections.add_by_login(server.resource, browse)
    await add_server(world, server, made)
    server.access_tokens.clear()
    outcome = await world.call(TOOL, '{"number": 1}')
    assert (outcome.ok, "ada" in str(outcome.content)) == (True, True), outcome
    *_, receipt = [record.body for record in world.journal.read() if record.kind == "receipt"]
    assert (receipt["connection"]["id"], receipt["connection"]["lent"]) == (made, True)
    said = [repr(record) for record in world.journal.read()]
    assert find_values(server.secrets(), *said, *bytes_below(tmp_path)) == []
    await world.replay()
    assert world.backend.keep.verify().problem is None


async def test_a_revoked_connection_ends_the_use_of_its_server(world: World, server: LoginServer) -> None:
    made = await world.connections.add_by_login(server.resource, browse)
    await add_server(world, server, made)
    assert (await world.connections.revoke(made)).at_server
    asked = len(server.asked("/mcp"))
    assert (await world.call(TOOL, "{}")).error_code == "connection_unavailable"
    assert len(server.asked("/mcp")) == asked


async def test_a_connection_for_other_tools_is_not_lent_to_a_servers_tool(world: World, server: LoginServer) -> None:
    made = await world.connections.add_by_login(server.resource, browse, tools=["another"])
    await add_server(world, server, made)
    assert (await world.call(TOOL, "{}")).error_code == "policy_denied"


async def test_a_login_that_was_ended_is_told_by_server_and_call(world: World, server: LoginServer) -> None:
    made = await world.connections.add_by_login(server.resource, browse)
    await add_server(world, server, made)
    command = f"`demiurge connections login {made}`"
    server.access_tokens.clear()
    server.refresh_tokens.clear()
    outcome = await world.call(TOOL, "{}")
    assert (outcome.ok, command in str(outcome.message)) == (False, True), outcome
    with pytest.raises(Unavailable):
        await world.mcp.refresh("tracker")
    assert command in str((await world.mcp.show("tracker")).problem)
    await world.connections.log_in(made, browse)
    assert (await world.call(TOOL, "{}")).ok


async def test_a_missing_scope_is_noted_and_asked_for_at_the_next_login(world: World, server: LoginServer) -> None:
    made = await world.connections.add_by_login(server.resource, browse, scopes=["read"])
    await add_server(world, server, made)
    answer = server.answers["/mcp"]

    def lacking(seen: Seen) -> Any:
        if seen.form.get("method") == "tools/call" and seen.headers["authorization"].endswith("ACCESS-1"):
            return 403, {"www-authenticate": 'Bearer error="insufficient_scope", scope="obey-me write"'}, b""
        return answer(seen)

    server.answers["/mcp"] = lacking
    outcome = await world.call(TOOL, "{}")
    assert f"lacks a scope for this: `demiurge connections login {made}`" in str(outcome.message), outcome
    assert "obey-me" not in str(outcome), "a model reads no word of the server"
    [one] = await world.connections.list()
    assert (one.state, one.scopes, one.wanted_scopes) == ("usable", ("read",), ("obey-me", "write"))
    assert await world.connections.log_in(made, browse) == ("read", "obey-me", "write")
    assert (await world.call(TOOL, "{}")).ok
    [one] = await world.connections.list()
    assert one.wanted_scopes == ()
    assert await world.connections.log_in(made, browse, scopes=["own"]) == ("read", "obey-me", "write", "own")


async def test_a_server_redirects_its_token_nowhere(world: World, server: LoginServer) -> None:
    made = await world.connections.add_by_login(server.resource, browse)
    await add_server(world, server, made)
    with serving_logins() as other:
        protect(other)
        other.access_tokens |= server.access_tokens
        server.answers["/mcp"] = (307, {"location": other.resource}, b"")
        assert not (await world.call(TOOL, "{}")).ok
        assert find_values(server.secrets(), repr(other.seen)) == []
