"""A server asks a person half-way, in a world and in both eras of the protocol."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.mcp.mcp_worlds import intact, opened
from tests.mcp.sample_server import SampleServer

from demiurge import World
from demiurge.bootstrap.backend import owner
from demiurge.bootstrap.backend.embedded import Embedded
from demiurge.mcp import McpClients, ServerSettings

BOOK = "mcp__sample__book"
DAY = {"day": "Monday"}
ERAS = ("legacy", "auto")


@pytest.fixture
def server() -> SampleServer:
    return SampleServer()


def connect(monkeypatch: pytest.MonkeyPatch, server: SampleServer, era: str) -> None:
    made = partial(McpClients, in_process={"sample": server.mcp}, protocol=era, start_s=20, stop_s=1)
    monkeypatch.setattr(owner, "McpClients", made)


async def asked(world: World) -> dict[str, Any]:
    """Calls the tool of a server that is trusted. Returns the call that waits for the answer."""
    if not await world.mcp.list():
        await world.mcp.add(ServerSettings("sample", command=("none",)))
        await world.mcp.trust("sample", ["book"], rule="allow")
    assert (await world.call(BOOK, DAY, "b")).status == "awaiting_approval"
    [waiting] = await world.approvals()
    return waiting


@pytest.mark.parametrize("era", ERAS)
async def test_the_call_goes_on_with_the_answer(
    era: str, server: SampleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, server, era)
    async with opened(tmp_path / "w") as world:
        waiting = await asked(world)
        assert (waiting["input"]["server"], waiting["input"]["tool"]) == ("sample", BOOK)
        assert waiting["input"]["questions"][0]["message"] == "Which seat?"
        await world.answer(waiting["id"], content={"seat": "12a"})
        await world.settle()
        done = await world.call(BOOK, DAY, "b")
        assert (done.status, done.ok) == ("done", True)
        assert "Monday: 12a" in done.content
        assert server.calls[-1] == "accept 12a"
        await intact(world)


@pytest.mark.parametrize(("era", "goes_on"), [("legacy", False), ("auto", True)])
async def test_the_wait_survives_a_restart_where_the_server_keeps_its_state(
    era: str, goes_on: bool, server: SampleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, server, era)
    async with opened(tmp_path / "w") as world:
        waiting = await asked(world)
    async with opened(tmp_path / "w") as world:
        if goes_on:
            await world.answer(waiting["id"], content={"seat": "12a"})
        await world.settle()
        done = await world.call(BOOK, DAY, "b")
        assert (done.ok, done.error_code) == ((True, None) if goes_on else (False, "unknown_outcome"))
        assert await world.approvals() == []
        await intact(world)


@pytest.mark.parametrize(
    ("since", "code"),
    [("changed", "quarantined"), ("trusted anew", "approval_expired"), ("rejected", "approval_rejected")],
)
async def test_a_call_that_may_not_go_on_says_that_its_server_may_have_acted_before_it_asked(
    since: str, code: str, server: SampleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, server, "auto")
    async with opened(tmp_path / "w") as world:
        waiting = await asked(world)
        if since == "rejected":
            await world.decide(waiting["id"], approve=False, reason="Too late.")
        else:
            server.mcp._tool_manager._tools["book"].description = "Books a seat, and tells everybody."
            await world.mcp.refresh("sample")
            if since == "trusted anew":
                await world.mcp.trust("sample", ["book"], rule="allow")
            await world.answer(waiting["id"], content={"seat": "12a"})
        await world.settle()
        done = await world.call(BOOK, DAY, "b")
        assert (done.ok, done.error_code) == (False, code)
        assert "The server may have acted before it asked." in done.content
        assert server.calls == ["asked"]
        await intact(world)


async def test_a_connection_that_ends_ends_the_wait(
    server: SampleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, server, "legacy")
    async with opened(tmp_path / "w") as world:
        waiting = await asked(world)
        assert isinstance(world.backend, Embedded)
        clients = world.backend.state.mcp._clients
        assert clients is not None
        await clients.close()
        await world.settle()
        done = await world.call(BOOK, DAY, "b")
        assert done.error_code == "unknown_outcome"
        assert await world.approvals() == []
        [decided] = [record.body for record in world.journal.read() if record.kind == "approval"]
        assert (decided["intent"].hex(), decided["verdict"], decided["by"]) == (waiting["id"], "end", "host")
        await intact(world)


async def test_a_server_hears_that_a_person_ended_the_call(
    server: SampleServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, server, "legacy")
    async with opened(tmp_path / "w") as world:
        waiting = await asked(world)
        assert isinstance(world.backend, Embedded)
        clients = world.backend.state.mcp._clients
        assert clients is not None
        [parked] = [call for each in clients._servers.values() for call in parked_of(each)]
        await world.decide(waiting["id"], approve=False)
        await world.settle()
        await asyncio.wait([parked.task])
        assert parked.task.cancelled()
        assert (await world.call(BOOK, DAY, "b")).error_code == "approval_rejected"


def parked_of(server: Any) -> list[Any]:
    """The calls of a server that wait for a person."""
    return list(server._connection.live._parked.values())
