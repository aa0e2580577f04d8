"""`World.connections`: credentials in the user's vault, terms in the world, by a user alone, also from a process that
joined; and what is left when a process is killed in between."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.canaries.search import bytes_below, find_values, tap_socket

from demiurge import AuthCapability, IdempotencyConfig, ToolContext, ToolEffect, ToolPolicy, World, tool
from demiurge.bootstrap.backend.socket import socket_path
from demiurge.bootstrap.connections import Connections
from demiurge.bootstrap.secrets import open_vault
from demiurge.errors import Conflict, InvalidValue, NotFound, Unavailable, UsageError
from demiurge.tools import Credentials
from demiurge.values.caller import Caller

TOKEN = "canary/token+0123456789=%"
ROOT = Path(__file__).parents[2]
AGENT = Caller("user:eve", roles=("agent", "approver", "chief"))

lent: list[str] = []


@tool(effect=ToolEffect.STATE_CHANGE, requires_connection=True)
def my_issues(context: ToolContext) -> list[str]:
    """Lists the user's issues."""
    auth = context.resources.get(AuthCapability)
    assert auth is not None
    lent.append(auth.get_access_token())
    return ["The door squeaks."]


POLICY = ToolPolicy(("my_issues",))
ASKING = ToolPolicy(("my_issues",), require_approval_for_tools=("my_issues",))


@pytest.fixture(autouse=True)
def _nothing_lent() -> None:
    lent.clear()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


def open_world(path: Path, environment: dict[str, str], policy: ToolPolicy = POLICY, **more: Any) -> World:
    return World.open(path, [my_issues], policy, environment=environment, **more)


def vault_names(environment: dict[str, str]) -> list[str]:
    vault = open_vault(environment)
    return [alias for alias, _ in vault.names()] if vault is not None else []


async def test_a_connection_is_added_listed_used_and_revoked(tmp_path: Path, environment: dict[str, str]) -> None:
    async with open_world(tmp_path / "w", environment) as world:
        made = await world.connections.add("tracker", Credentials(TOKEN), tools=["my_issues"], scopes=["issues"])
        [one] = await world.connections.list()
        assert (one.id, one.provider, one.state, one.tools, one.scopes) == (
            made,
            "tracker",
            "usable",
            ("my_issues",),
            ("issues",),
        )
        assert (one.added_by, one.used_by, one.revoked_by) == ("user", {}, None)
        outcome = await world.call("my_issues", "{}", connection_id=made)
        assert (outcome.ok, lent) == (True, [TOKEN])
        await world.connections.use(made)
        await world.connections.use(made, "other", tool="my_issues")
        [one] = await world.connections.list()
        assert one.used_by == {"main": (), "other": ("my_issues",)}
        assert await world.connections.of_chat("other") == {"my_issues": made}
        assert await world.connections.of_chat("third") == {}
        await world.connections.revoke(made, "lost")
        await world.connections.revoke(made, "again")
        [one] = await world.connections.list()
        assert (one.state, one.revoked_by, one.reason) == ("revoked", "user", "lost")
        assert vault_names(environment) == []
        with pytest.raises(Conflict, match="was revoked"):
            await world.connections.use(made)
        with pytest.raises(Conflict, match="was revoked"):
            await world.call("my_issues", "{}", connection_id=made)
        assert (await world.call("my_issues", "{}")).error_code == "connection_unavailable"
        await world.replay()
        assert world.backend.keep.verify().problem is None
    assert lent == [TOKEN]


async def test_an_invalid_connection_is_refused_and_leaves_nothing(tmp_path: Path, environment: dict[str, str]) -> None:
    async with open_world(tmp_path / "w", environment) as world:
        for wrong in (
            {"provider": ""},
            {"provider": "line\nend"},
            {"provider": "p", "credential_type": ""},
            {"provider": "p", "scopes": ["\x1b"]},
            {"provider": "p", "tenant": "\n"},
            {"provider": "p", "tools": ["no tool!"]},
        ):
            with pytest.raises(InvalidValue):
                await world.connections.add(**{"credentials": Credentials(TOKEN), **wrong})  # type: ignore[arg-type]
        assert vault_names(environment) == []
        assert await world.connections.list() == []
        for act in (world.connections.use("conn_1"), world.connections.revoke("conn_1")):
            with pytest.raises(NotFound) as told:
                await act
            assert told.value.code == "connection_not_found"
        with pytest.raises(InvalidValue):
            await world.backend.run.choose_connection("no unit", None, None)


async def test_only_a_user_adds_revokes_and_chooses(tmp_path: Path, environment: dict[str, str]) -> None:
    async with open_world(tmp_path / "w", environment) as world:
        made = await world.connections.add("tracker", Credentials(TOKEN))
        eve = world.acting_as(AGENT)
        for act in (
            eve.connections.add("mail", Credentials(TOKEN)),
            eve.connections.revoke(made),
            eve.connections.use(made),
            eve.call("my_issues", "{}", connection_id=made),
        ):
            with pytest.raises(UsageError) as told:
                await act
            assert told.value.code == "role_missing"
        await eve.submit("sys/ConnectionRevoke@1", {"connection_id": made, "reason": ""})
        assert [(one.id, one.state) for one in await eve.connections.list()] == [(made, "usable")]
        assert len(vault_names(environment)) == 1


async def test_a_connection_is_for_the_calls_of_its_tenant(tmp_path: Path, environment: dict[str, str]) -> None:
    async with open_world(tmp_path / "w", environment) as world:
        for tenant, ok in (("acme", True), ("other", False)):
            ada = world.acting_as(Caller("user:ada", tenant=tenant, roles=("user",)))
            made = await ada.connections.add("tracker", Credentials(TOKEN), tenant="acme")
            outcome = await ada.call("my_issues", "{}", connection_id=made)
            assert (outcome.ok, outcome.error_code) == (ok, None if ok else "connection_unavailable")


async def test_a_person_sees_which_connection_a_call_would_use(tmp_path: Path, environment: dict[str, str]) -> None:
    async with open_world(tmp_path / "w", environment, ASKING) as world:
        made = await world.connections.add("tracker", Credentials(TOKEN))
        outcome = await world.call("my_issues", "{}", "c1", connection_id=made)
        assert outcome.status == "awaiting_approval"
        [asked] = await world.approvals()
        assert asked["connection"] == {"id": made, "provider": "tracker"}
        await world.connections.revoke(made)
        await world.decide(asked["id"], approve=True)
        await world.settle()
        outcome = await world.call("my_issues", "{}", "c1")
        assert (outcome.error_code, lent) == ("connection_unavailable", [])


async def test_a_doubt_of_a_call_with_a_connection_is_found_in_the_ledger_and_settled(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    ran: list[int] = []

    @tool(
        effect=ToolEffect.EXTERNAL_SIDE_EFFECT, requires_connection=True, idempotency=IdempotencyConfig(scope="global")
    )
    def close_issue(number: int, context: ToolContext) -> str:
        """Closes an issue."""
        ran.append(number)
        if len(ran) == 2:
            raise SystemExit
        return "closed"

    policy = ToolPolicy(("close_issue",))
    async with World.open(tmp_path / "w", [close_issue], policy, environment=environment) as world:
        ada, bob = [await world.connections.add("tracker", Credentials(TOKEN)) for _ in range(2)]
        assert (await world.call("close_issue", '{"number": 7}', "c1", connection_id=ada)).ok
        outcome = await world.call("close_issue", '{"number": 7}', "c2", connection_id=bob)
        assert outcome.error_code == "unknown_outcome"
        [doubt] = await world.doubts()
        assert (doubt["tool"], doubt["ledger"]) == ("close_issue", "in_doubt")
        await world.settle_doubt(doubt["id"], done=True, reason="it is closed", result="closed")
        assert await world.doubts() == []
        again = await world.call("close_issue", '{"number": 7}', "c3", connection_id=bob)
        assert (again.ok, again.replayed, ran) == (True, True, [7, 7])


async def run_child(name: str, folder: Path, home: str, fault: str = "") -> tuple[int | None, bytes]:
    """Runs a function of this module in a process of its own; what it said."""
    code = (
        f"import asyncio, sys; from tests.bootstrap import test_connections as t; asyncio.run(t.{name}(*sys.argv[1:]))"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, str(folder), home),
        env={
            "HOME": home,
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            "DEMIURGE_FAULTS": fault,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said


async def guest(folder: str, home: str) -> None:
    async with open_world(Path(folder), {"HOME": home}) as world:
        assert not world.owned
        made = await world.connections.add("tracker", Credentials(TOKEN, username="ada"))
        outcome = await world.call("my_issues", "{}", connection_id=made)
        assert outcome.ok, outcome
        assert [one.id for one in await world.connections.list()] == [made]
        with pytest.raises(UsageError):
            await world.acting_as(AGENT).connections.revoke(made)
        await world.connections.revoke(made)
        print(made)


async def test_a_process_that_joined_adds_a_connection_and_the_token_is_not_on_the_socket(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    folder = tmp_path / "w"
    async with open_world(folder, environment) as owner:
        with tap_socket(socket_path(folder)) as heard:
            status, said = await run_child("guest", folder, environment["HOME"])
        assert (status, lent) == (0, [TOKEN]), said
        [one] = await owner.connections.list()
        assert (one.state, one.id) == ("revoked", said.decode().strip())
    assert find_values([TOKEN], *heard) == []
    assert one.id.encode() in b"".join(heard)
    assert find_values([TOKEN], said, *bytes_below(folder), *bytes_below(Path(environment["HOME"]))) == []


async def test_a_fork_has_the_connections_and_none_of_their_credentials(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    async with open_world(tmp_path / "w", environment) as world:
        made = await world.connections.add("tracker", Credentials(TOKEN))
        await world.fork(tmp_path / "fork")
    async with open_world(tmp_path / "fork", environment) as fork:
        assert [one.state for one in await fork.connections.list()] == ["no_credentials"]
        outcome = await fork.call("my_issues", "{}", connection_id=made)
        assert (outcome.error_code, lent) == ("connection_unavailable", [])


async def test_without_a_vault_no_connection_is_added(tmp_path: Path) -> None:
    async with open_world(tmp_path / "w", {}) as world:
        with pytest.raises(Unavailable, match="no home folder"):
            await world.connections.add("tracker", Credentials(TOKEN))
        assert await world.connections.list() == []


async def test_expired_credentials_end_their_connection(tmp_path: Path, environment: dict[str, str]) -> None:
    async with open_world(tmp_path / "w", environment) as world:
        made = await world.connections.add("tracker", Credentials(TOKEN, expires_at_ms=1), expires_at_ms=10**15)
        [one] = await world.connections.list()
        assert (one.state, one.expires_at_ms) == ("expired", 1)
        assert (await world.call("my_issues", "{}", connection_id=made)).error_code == "connection_unavailable"
    assert lent == []


async def test_the_same_request_twice_adds_one_connection(tmp_path: Path, environment: dict[str, str]) -> None:
    """As when the owner goes before it has answered, and the next one is asked again."""
    async with open_world(tmp_path / "w", environment) as world:
        terms: dict[str, Any] = {
            "provider": "tracker",
            "credential_type": "oauth2",
            "tenant": "",
            "scopes": [],
            "tools": ["b", "a"],
            "expires_at_ms": None,
        }
        for _ in range(2):
            await world.backend.run.add_connection("conn_1", terms)
        with pytest.raises(Conflict):
            await world.backend.run.add_connection("conn_1", {**terms, "tools": None})
        assert [one.tools for one in await world.connections.list()] == [("a", "b")]


async def child(folder: str, home: str) -> None:
    """The process that is killed: it adds a connection, uses it and revokes it. A second run continues where the first
    one stopped."""
    async with open_world(Path(folder), {"HOME": home}) as world:
        listed = await world.connections.list()
        made = listed[0].id if listed else await world.connections.add("tracker", Credentials(TOKEN))
        if not listed or listed[0].state == "usable":
            outcome = await world.call("my_issues", "{}", "c1", connection_id=made)
            print("called", outcome.ok, outcome.error_code)
        await world.connections.revoke(made)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "point",
    [
        "connection.sealed=kill",
        "connection.added=kill",
        "connection.revoked=kill",
        "effect.attempted=kill",
        "effect.performed=kill",
    ],
)
async def test_a_kill_leaves_no_connection_without_credentials_and_no_token_in_the_world(
    tmp_path: Path, environment: dict[str, str], point: str
) -> None:
    folder, home = tmp_path / "w", environment["HOME"]
    said = b""
    for fault, status in ((point, -signal.SIGKILL), ("", 0)):
        ended, out = await run_child("child", folder, home, fault)
        said += out
        assert ended == status, said
    assert find_values([TOKEN], said, *bytes_below(folder), *bytes_below(Path(home))) == []
    async with open_world(folder, environment) as world:
        [one] = await world.connections.list()
        assert one.state == "revoked"
        orphans = [name for name in vault_names(environment) if name.endswith(one.id)]
        assert orphans == []
        receipts = [record.body for record in world.journal.read() if record.kind == "receipt"]
        assert all(receipt["connection"]["id"] == one.id for receipt in receipts if "connection" in receipt)
        await world.replay()
        assert world.backend.keep.verify().problem is None


def test_nothing_of_it_shows_credentials(tmp_path: Path) -> None:
    backend = World.open(tmp_path / "w", environment={}).backend
    assert TOKEN not in repr(Connections(backend, {"TOKEN": TOKEN})) + repr(Credentials(TOKEN))
