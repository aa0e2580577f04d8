"""`World.connections` by a login: added, used with renewed tokens, logged in again, revoked; and what a kill leaves."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.canaries.search import bytes_below, find_values
from tests.login_server import LoginServer, browse, serving_logins

from demiurge import AuthCapability, ToolContext, ToolEffect, ToolPolicy, World, tool
from demiurge.bootstrap.secrets import open_vault
from demiurge.capabilities.oauth.errors import LoginFailed
from demiurge.errors import Conflict, InvalidValue, NotFound, UsageError
from demiurge.tools import Credentials, Secret
from demiurge.values.caller import Caller

ROOT = Path(__file__).parents[2]
AGENT = Caller("user:eve", roles=("agent", "approver", "chief"))

lent: list[str] = []


@tool(effect=ToolEffect.READ_ONLY, requires_connection=True)
def my_issues(context: ToolContext) -> list[str]:
    """Lists the user's issues."""
    auth = context.resources.get(AuthCapability)
    assert auth is not None
    lent.append(auth.get_access_token())
    return ["The door squeaks."]


@pytest.fixture(autouse=True)
def _nothing_lent() -> None:
    lent.clear()


@pytest.fixture
def server() -> Iterator[LoginServer]:
    with serving_logins() as running:
        yield running


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


def open_world(path: Path, environment: dict[str, str]) -> World:
    return World.open(path, [my_issues], ToolPolicy(("my_issues",)), environment=environment)


async def test_a_connection_by_a_login_is_used_with_renewed_tokens(
    tmp_path: Path, environment: dict[str, str], server: LoginServer
) -> None:
    server.lifetime_s = 0
    async with open_world(tmp_path / "w", environment) as world:
        made = await world.connections.add_by_login(server.resource, browse, scopes=["read"], tools=["my_issues"])
        [one] = await world.connections.list()
        assert (one.id, one.provider, one.state, one.tools) == (made, "127.0.0.1", "usable", ("my_issues",))
        assert (one.scopes, one.expires_at_ms) == (("read",), None)
        server.lifetime_s = 3600
        for _ in range(2):
            assert (await world.call("my_issues", "{}", connection_id=made)).ok
        assert lent == ["canary-ACCESS-2", "canary-ACCESS-2"]
        await world.replay()
        assert world.backend.keep.verify().problem is None
        said = [repr(record) for record in world.journal.read()]
    assert find_values(server.secrets(), *said, *bytes_below(tmp_path)) == []


async def test_a_refused_renewal_is_answered_and_a_login_mends_it(
    tmp_path: Path, environment: dict[str, str], server: LoginServer
) -> None:
    server.lifetime_s = 0
    async with open_world(tmp_path / "w", environment) as world:
        made = await world.connections.add_by_login(server.resource, browse, scopes=["read"])
        server.refresh_tokens.clear()
        outcome = await world.call("my_issues", "{}", connection_id=made)
        assert (outcome.error_code, lent) == ("connection_unavailable", [])
        assert f"`demiurge connections login {made}`" in str(outcome.message)
        [one] = await world.connections.list()
        assert one.state == "login_needed"
        server.lifetime_s = 3600
        assert await world.connections.log_in(made, browse, scopes=["write", "read"]) == ("read", "write")
        [one] = await world.connections.list()
        assert (one.state, one.scopes) == ("usable", ("read", "write"))
        assert (await world.call("my_issues", "{}", connection_id=made)).ok
        assert [asked.form["scope"] for asked in server.asked("/authorize")] == ["read", "read write"]


async def test_a_login_keeps_the_client_that_the_user_gave(
    tmp_path: Path, environment: dict[str, str], server: LoginServer
) -> None:
    async with open_world(tmp_path / "w", environment) as world:
        made = await world.connections.add_by_login(
            server.resource, browse, client_id="mine", client_secret=Secret("canary-SECRET"), provider="tracker"
        )
        await world.connections.log_in(made, browse)
        assert [asked.form["client_id"] for asked in server.asked("/authorize")] == ["mine", "mine"]
        heads = {asked.headers["authorization"] for asked in server.asked("/token")}
        assert len(heads) == 1
        [one] = await world.connections.list()
        assert one.provider == "tracker"
        with serving_logins() as other:
            server.resource_metadata = {"authorization_servers": [other.url]}
            with pytest.raises(LoginFailed, match="another authorization server"):
                await world.connections.log_in(made, browse)
            assert other.asked("/token") == other.asked("/authorize") == []
    assert find_values(server.secrets(), *bytes_below(tmp_path)) == []


async def test_a_revocation_reaches_the_authorization_server(
    tmp_path: Path, environment: dict[str, str], server: LoginServer
) -> None:
    async with open_world(tmp_path / "w", environment) as world:
        first, second, third = [await world.connections.add_by_login(server.resource, browse) for _ in range(3)]
        done = await world.connections.revoke(first)
        assert (done.at_server, done.problem) == (True, "")
        assert "canary-ACCESS-1" not in server.access_tokens
        server.answers["/revoke"] = (500, {}, b"")
        done = await world.connections.revoke(second)
        assert (done.at_server, "did not revoke" in done.problem) == (False, True)
        with pytest.raises(Conflict):
            await world.connections.log_in(second, browse)
        given = await world.connections.add("tracker", Credentials("given"))
        assert await world.connections.revoke(given) == (False, "")
        assert [one.state for one in await world.connections.list()] == ["revoked", "revoked", "usable", "revoked"]
    vault = open_vault(environment)
    assert vault is not None
    assert [name.rpartition("/")[2] for name, _ in vault.names()] == [third]


async def test_a_login_is_refused_where_it_cannot_be(
    tmp_path: Path, environment: dict[str, str], server: LoginServer
) -> None:
    async with open_world(tmp_path / "w", environment) as world:
        eve = world.acting_as(AGENT)
        given = await world.connections.add("tracker", Credentials("given"))
        made = await world.connections.add_by_login(server.resource, browse)
        asked = len(server.seen)
        errors: list[tuple[Any, type[Exception]]] = [
            (eve.connections.add_by_login(server.resource, browse), UsageError),
            (eve.connections.log_in(made, browse), UsageError),
            (world.connections.add_by_login(server.resource, browse, tools=["no tool!"]), InvalidValue),
            (world.connections.add_by_login("http://tracker.example", browse), LoginFailed),
            (world.connections.log_in(given, browse), InvalidValue),
            (world.connections.log_in("conn_1", browse), NotFound),
        ]
        for act, kind in errors:
            with pytest.raises(kind):
                await act
        assert len(server.seen) == asked
        await world.fork(tmp_path / "fork")
        server.resource_metadata = {"resource": server.url}
        with pytest.raises(LoginFailed, match="another resource"):
            await world.connections.log_in(made, browse)
    async with open_world(tmp_path / "fork", environment) as fork:
        with pytest.raises(NotFound):
            await fork.connections.log_in(made, browse)


async def child(folder: str, home: str, url: str) -> None:
    async with open_world(Path(folder), {"HOME": home}) as world:
        print(await world.connections.add_by_login(url, browse))


@pytest.mark.parametrize(("point", "entries"), [("oauth.issued", 0), ("connection.sealed", 1), ("connection.added", 1)])
async def test_a_kill_during_a_login_leaves_no_token_outside_of_the_vault(
    tmp_path: Path, environment: dict[str, str], server: LoginServer, point: str, entries: int
) -> None:
    folder, home = tmp_path / "w", environment["HOME"]
    code = "import asyncio, sys; from tests.bootstrap.test_logins import child; asyncio.run(child(*sys.argv[1:]))"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, str(folder), home, server.resource),
        env={
            "HOME": home,
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            "DEMIURGE_FAULTS": f"{point}=kill",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert (process.returncode, server.issued) == (-signal.SIGKILL, 1)
    assert find_values(server.secrets(), said, *bytes_below(tmp_path)) == []
    vault = open_vault(environment)
    assert vault is not None
    assert len(vault.names()) == entries
    async with open_world(folder, environment) as world:
        states = [one.state for one in await world.connections.list()]
        assert states == (["usable"] if point == "connection.added" else [])
