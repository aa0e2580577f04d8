"""Which connection is lent to which MCP server, and what a person is told about scopes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.login_server import LoginServer, browse, serving_logins

from demiurge.bootstrap.backend.token_lender import WorldTokenLender
from demiurge.bootstrap.secrets import open_vault
from demiurge.capabilities.http.guarded import GuardedHttp
from demiurge.capabilities.oauth.flow import LoginRequest, log_in
from demiurge.errors import DemiurgeError
from demiurge.tools import Credentials
from demiurge.values.clock import FixedClock, SystemEntropy
from demiurge.world.connection_credentials import ConnectionCredentials
from demiurge.world.connection_tokens import ConnectionTokens

NOW_MS = 1_000_000_000_000
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


class World:
    """The connections of a world: c-1 by a login, c-2 by a given token."""

    def __init__(self, folder: Path) -> None:
        self.states: dict[str, Mapping[str, Any]] = {"c-1": STATE, "c-2": STATE}
        self.clock = FixedClock(NOW_MS * 1_000_000)
        stored = ConnectionCredentials(open_vault({"HOME": str(folder)}), "world_1")
        self.tokens = ConnectionTokens(stored, GuardedHttp(), self.clock, SystemEntropy())
        self.lender = WorldTokenLender(self.read, self.tokens, self.clock)

    async def read(self, connection_id: str) -> Mapping[str, Any] | None:
        return self.states.get(connection_id)


@pytest.fixture
async def world(tmp_path: Path, server: LoginServer) -> World:
    made = World(tmp_path)
    login = await log_in(GuardedHttp(), LoginRequest(server.resource), browse, made.clock, SystemEntropy())
    made.tokens.stored.put("c-1", STATE, login.credentials, SystemEntropy(), login.login)
    made.tokens.stored.put("c-2", STATE, Credentials("given", expires_at_ms=NOW_MS + 1), SystemEntropy())
    return made


async def test_a_connection_is_lent_to_the_server_that_its_tokens_are_for(world: World, server: LoginServer) -> None:
    first = await world.lender.lend("c-1", server.resource)
    assert first.access_token.reveal() == "canary-ACCESS-1"
    assert (await world.lender.lend("c-1", f"{server.resource}/sub?x=1", first)).access_token.reveal() == (
        "canary-ACCESS-2"
    )
    assert (await world.lender.lend("c-2", "https://anywhere.example/mcp")).access_token.reveal() == "given"


@pytest.mark.parametrize(
    ("connection_id", "state", "path", "said"),
    [
        ("c-3", {}, "/mcp", "There is no connection c-3"),
        ("c-1", {"revoked": {"by": "user"}}, "/mcp", "was revoked"),
        ("c-1", {"expires_at_ms": NOW_MS}, "/mcp", "has expired"),
        ("c-1", {"tools": ["another"]}, "/mcp", "those of another connection"),
        ("c-1", {}, "/mcp2", "another server than this one"),
        ("c-1", {}, "/", "another server than this one"),
    ],
)
async def test_a_connection_is_lent_to_nobody_else(
    world: World, server: LoginServer, connection_id: str, state: dict[str, Any], path: str, said: str
) -> None:
    world.states["c-1"] = {**STATE, **state}
    with pytest.raises(DemiurgeError) as told:
        await world.lender.lend(connection_id, server.url + path)
    assert said in told.value.message


async def test_a_given_token_ends(world: World) -> None:
    world.clock.advance(1_000_000)
    with pytest.raises(DemiurgeError, match="has expired"):
        await world.lender.lend("c-2", "https://anywhere.example/mcp")


@pytest.mark.parametrize(
    ("challenge", "wanted"),
    [
        ("", None),
        ('Bearer error="invalid_token", scope="a"', None),
        ('Bearer error="insufficient_scope", scope="files:write a/b"', ("files:write", "a/b")),
        ('Bearer error="insufficient_scope"', ()),
        ('Bearer error="insufficient_scope", scope="$(reboot) `id` ;ls --help"', ()),
    ],
)
async def test_missing_scopes_are_noted_for_the_next_login(
    world: World, challenge: str, wanted: tuple[str, ...] | None
) -> None:
    for _ in range(2):
        assert await world.lender.note_refusal("c-1", challenge) == wanted
    assert await world.lender.note_refusal("c-2", challenge) == wanted
    login = world.tokens.stored.get("c-1", STATE).login
    assert login is not None
    assert login.wanted == (wanted or ())
