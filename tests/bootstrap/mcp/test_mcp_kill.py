"""kill -9 between an event of a server and the manifest that follows from it: the next owner makes it good, once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.bootstrap.child_program import run_program
from tests.bootstrap.mcp.mcp_worlds import catalog, echo, intact, opened

BOTH = ["mcp__echo__act", "mcp__echo__leak"]


async def run(folder: Path, act: str, fault: str = "") -> int:
    return (await run_program("mcp.mcp_child", folder, act, folder.parent / "started", faults=fault)).returncode


async def prepared(folder: Path, *, trusts: bool) -> None:
    async with opened(folder) as world:
        await world.mcp.add(echo(folder.parent / "started"))
        await world.mcp.refresh("echo")
        if trusts:
            await world.mcp.trust("echo", rule="allow")


async def settled(folder: Path) -> list[str]:
    """Opens the world, lets its host run, and returns the servers' tools that a model may see."""
    async with opened(folder) as world:
        await world.settle()
        found = sorted(await catalog(world))
        entries = len(world.manifest_log())
        await intact(world)
    async with opened(folder) as world:
        assert sorted(await catalog(world)) == found
        await world.settle()
        assert len(world.manifest_log()) == entries
    return found


@pytest.mark.parametrize(
    ("act", "fault", "trusts", "then"),
    [
        ("trust", "mcp.trusted=kill", False, BOTH),
        ("untrust", "mcp.untrusted=kill", True, []),
        ("remove", "mcp.removed=kill", True, []),
        ("refresh", "mcp.listed=kill", False, []),
    ],
)
async def test_a_kill_between_event_and_manifest_is_made_good(
    tmp_path: Path, act: str, fault: str, trusts: bool, then: list[str]
) -> None:
    folder = tmp_path / "w"
    if act == "refresh":
        async with opened(folder) as world:
            await world.mcp.add(echo(tmp_path / "started"))
    else:
        await prepared(folder, trusts=trusts)
    assert await run(folder, act, fault) == -signal.SIGKILL
    assert await settled(folder) == then


@pytest.mark.parametrize(("fault", "is_added"), [("mcp.accepted=kill", False), ("mcp.added=kill", True)])
async def test_a_kill_while_a_server_is_added_leaves_it_added_or_not(
    tmp_path: Path, fault: str, is_added: bool
) -> None:
    folder = tmp_path / "w"
    assert await run(folder, "add", fault) == -signal.SIGKILL
    async with opened(folder) as world:
        servers = await world.mcp.list()
        assert [server.is_local for server in servers] == ([True] if is_added else [])
        if not is_added:
            await world.mcp.add(echo(tmp_path / "started"))
        assert (await world.mcp.refresh("echo")).state == "connected"
        await intact(world)


async def test_a_call_that_a_kill_interrupts_is_not_repeated(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    await prepared(folder, trusts=True)
    assert await run(folder, "call", "tool.ran=kill") == -signal.SIGKILL
    async with opened(folder) as world:
        outcome = await world.call("mcp__echo__act", {"word": "x"}, "c1")
        assert outcome.error_code == "unknown_outcome"
        await intact(world)
    assert (tmp_path / "started").read_text().count("acted x") == 1
