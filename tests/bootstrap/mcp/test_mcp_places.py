"""The servers of a world in other processes, places and forks: pins go along, trust to start a program does not."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.bootstrap.mcp.mcp_worlds import SHOP, Shop, catalog, echo, intact, opened
from tests.bootstrap.test_hand_over import definitions
from tests.bootstrap.world_process import KINDS, OTHER
from tests.bootstrap.world_processes import world_process

from demiurge import ToolPolicy
from demiurge.errors import Conflict, UsageError
from demiurge.mcp import ServerSettings
from demiurge.values.caller import Caller

PRICE, ORDER = "mcp__shop__price", "mcp__shop__order"
ACT = "mcp__echo__act"
BOTH = ["mcp__echo__act", "mcp__echo__leak"]


async def trusted(folder: Path) -> None:
    """Makes a world with the server `echo`, whose tools may run at once."""
    async with opened(folder) as world:
        await world.mcp.add(echo(folder.parent / "started"))
        await world.mcp.trust("echo", rule="allow")


async def test_a_world_opens_shows_replays_and_verifies_with_its_server_down(tmp_path: Path) -> None:
    folder, started = tmp_path / "w", tmp_path / "started"
    await trusted(folder)
    async with opened(folder) as world:
        assert (await world.call(ACT, {"word": "a"}, "c1")).ok
    started.unlink()
    for read_only in (True, False):
        async with opened(folder, read_only=read_only) as world:
            assert sorted(await catalog(world)) == BOTH
            view = await world.mcp.show("echo")
            assert (view.state, {tool.state for tool in view.tools}) == ("idle", {"trusted"})
            await intact(world)
    assert not started.exists()
    program = (tmp_path / "program").write_text("")
    assert program == 0
    async with opened(folder) as world:
        await world.mcp.remove("echo")
        await world.mcp.add(ServerSettings("echo", command=("no-such-program-here",)))
        assert await catalog(world) == {}
        await intact(world)


async def test_a_call_of_a_server_that_is_down_is_answered_unavailable(tmp_path: Path, shop: Shop) -> None:
    async with opened(tmp_path / "w") as world:
        await world.mcp.add(SHOP)
        await world.mcp.trust("shop", rule="allow")
    shop.connect(monkeypatch=(patch := pytest.MonkeyPatch()), shop=None)
    try:
        async with opened(tmp_path / "w") as world:
            assert sorted(await catalog(world)) == [ORDER, PRICE]
            refused = await world.call(ORDER, {"part": "bolt"})
            assert refused.error_code == "unavailable"
            assert (await world.mcp.show("shop")).state == "failed"
            await intact(world)
    finally:
        patch.undo()
    assert shop.calls == []


async def test_a_world_from_elsewhere_starts_nothing_before_it_is_adopted(tmp_path: Path) -> None:
    folder, copy, started = tmp_path / "w", tmp_path / "copy", tmp_path / "started"
    await trusted(folder)
    shutil.copytree(folder, copy)
    before = started.read_text()
    home = tmp_path / "home of another"
    home.mkdir()
    for place, user in ((copy, tmp_path), (folder, home)):
        async with opened(place, user) as world:
            assert sorted(await catalog(world)) == BOTH
            assert [(server.state, server.is_local) for server in await world.mcp.list()] == [("not_adopted", False)]
            await world.settle()
            [notice] = [notice for notice in (await world.info())["notices"] if "echo" in notice]
            assert "demiurge mcp show echo" in notice
            refused = await world.call(ACT, {"word": "b"})
            assert refused.error_code == "unavailable"
            assert "demiurge mcp show echo" in refused.message
            assert "demiurge mcp adopt echo" in refused.message
            with pytest.raises(Conflict, match="demiurge mcp adopt echo") as not_here:
                await world.mcp.refresh("echo")
            assert not_here.value.code == "not_adopted"
    assert started.read_text() == before
    async with opened(copy) as world:
        await world.settle()
        assert (await world.mcp.adopt("echo")).is_local
        assert not [notice for notice in (await world.info())["notices"] if "echo" in notice]
        assert (await world.call(ACT, {"word": "c"})).ok
    assert started.read_text() == f"{before}started\nacted c\n"


async def test_a_changed_command_needs_the_user_again(tmp_path: Path) -> None:
    folder, started = tmp_path / "w", tmp_path / "started"
    await trusted(folder)
    before = started.read_text()
    async with opened(folder, tmp_path / "nobody") as world:  # somebody who has the files, and not the user's notes
        await world.mcp.remove("echo")
        await world.mcp.add(ServerSettings("echo", command=("/bin/sh", "-c", f"echo evil >> {started}")))
    async with opened(folder) as world:
        assert [server.is_local for server in await world.mcp.list()] == [False]
        with pytest.raises(Conflict, match="not started"):
            await world.mcp.refresh("echo")
    assert started.read_text() == before


async def test_a_caller_over_http_starts_no_program_here(tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with opened(tmp_path / "w") as world:
        remote = world.acting_as(Caller("user:ada", roles=("user",), transport="http"))
        assert not (await remote.mcp.add(echo(started))).is_local
        with pytest.raises(UsageError, match="of the machine") as refused:
            await remote.mcp.adopt("echo")
        assert refused.value.code == "not_here"
        with pytest.raises(Conflict):
            await remote.mcp.refresh("echo")
        assert not started.exists()
        assert (await world.mcp.adopt("echo")).is_local
        assert (await remote.mcp.refresh("echo")).state == "connected"


async def test_a_fork_has_the_pins_and_starts_nothing(tmp_path: Path) -> None:
    folder, started = tmp_path / "w", tmp_path / "started"
    await trusted(folder)
    async with opened(folder) as world:
        fork = await world.fork(tmp_path / "fork")
        before = started.read_text()
    async with opened(Path(fork)) as world:
        assert sorted(await catalog(world)) == BOTH
        assert (await world.call(ACT, {"word": "d"})).error_code == "unavailable"
        assert started.read_text() == before
        await world.mcp.untrust("echo")
        await intact(world)
    async with opened(folder) as world:
        assert sorted(await catalog(world)) == BOTH


async def test_a_joined_process_has_the_servers_and_takes_them_over(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    await trusted(folder)
    with world_process(folder, "looking") as process:
        async with opened(folder) as world:
            assert world.joined
            assert sorted(await catalog(world)) == BOTH
            assert (await world.call(ACT, {"word": "e"})).ok
            assert [tool.state for tool in (await world.mcp.show("echo")).tools] == ["trusted", "trusted"]
            await world.mcp.untrust("echo", ["leak"])
            assert not await world.refresh_tools()
            assert sorted(await catalog(world)) == [ACT]
            await asyncio.to_thread(process.leave)
            assert (await world.call(ACT, {"word": "f"})).ok
            assert world.owned
            assert sorted(await catalog(world)) == [ACT]
            await intact(world)
    assert (tmp_path / "started").read_text().split("\n").count("acted f") == 1


async def test_a_successor_keeps_the_policy_that_the_user_named(tmp_path: Path, shop: Shop) -> None:
    """Tools that wait for a person because of `mcp trust --ask` are not written into the policy of the user."""
    policy = ToolPolicy(allowed_tools=(PRICE, ORDER))
    async with opened(tmp_path / "w", policy=policy) as world:
        await world.mcp.add(SHOP)
        await world.mcp.trust("shop", ["order"])
        entries = len(world.manifest_log())
        assert world.manifest()["tool_policy"]["require_approval_for_tools"] == [ORDER]
    async with opened(tmp_path / "w", policy=policy) as world:
        assert (await world.call(ORDER, {"part": "bolt"})).status == "awaiting_approval"
        assert len(world.manifest_log()) == entries
        await world.mcp.trust("shop", ["order"], rule="allow")
        assert world.manifest()["tool_policy"]["require_approval_for_tools"] == []


async def test_processes_that_name_their_tools_agree_whatever_servers_the_world_has(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    await trusted(folder)
    named = {name: KINDS["notes"][name] for name in ("tools", "policy", "reducers")}
    with world_process(folder, "notes") as process:
        async with opened(folder, **named) as world:
            assert world.joined
            assert [spec["name"] for spec in world.manifest()["toolset"] if spec["name"] in BOTH] == BOTH
            assert not await world.refresh_tools()
            before = world.manifest()
            await asyncio.to_thread(process.leave)
            await world.settle()
            assert world.owned
            assert (world.manifest()["toolset"], world.manifest()["tool_policy"]) == (
                before["toolset"],
                before["tool_policy"],
            )
            await intact(world)


async def test_a_world_that_is_handed_over_keeps_its_servers(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    await trusted(folder)
    other = definitions(tmp_path / "other", OTHER)
    with world_process(folder, "looking") as process:
        process.ask("create", chat="main")
        async with opened(folder, reducers=KINDS["notes"]["reducers"]) as world:
            assert world.joined
            await world.set_manifest(other)
            assert world.owned
            assert sorted(await catalog(world)) == BOTH
            assert (await world.call(ACT, {"word": "g"})).ok
            await world.mcp.untrust("echo", ["leak"])
            assert sorted(await catalog(world)) == [ACT]
            assert ACT in process.ask("seen")["catalog"]
            await intact(world)
