"""`world.mcp.scan`: the definitions that are trusted, and those that the servers listed last. Nothing is started."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from demiurge import World
from demiurge.errors import NotFound, UsageError
from demiurge.mcp import ServerSettings
from demiurge.models.scripted import ScriptedModel
from demiurge.values.caller import Caller

SERVER = Path(__file__).parents[1] / "mcp" / "malicious_server.py"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    environment = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    async with World.open(tmp_path / "world", model=ScriptedModel([]), environment=environment) as opened:
        yield opened


def settings(name: str, behaviour: str, counter: Path) -> ServerSettings:
    return ServerSettings(name, command=(sys.executable, str(SERVER), behaviour, str(counter)))


async def test_definitions_are_looked_at_once_they_are_listed(world: World, tmp_path: Path) -> None:
    await world.mcp.add(settings("shop", "changes_after_trust", tmp_path / "counter"))
    scan = await world.mcp.scan()
    assert (scan.servers, scan.tools, scan.unlisted, scan.findings) == (("shop",), 0, ("shop",), ())
    await world.mcp.trust("shop")
    assert (await world.mcp.scan()).tools == 1
    await world.mcp.refresh("shop")
    scan = await world.mcp.scan("shop")
    assert (scan.tools, scan.unlisted) == (2, ()), "the trusted definition and the one in quarantine"
    codes = {finding.code for finding in scan.findings if finding.severity == "high"}
    assert {"terminal_escape", "bidi_control", "hidden_text"} <= codes
    assert not (tmp_path / "counter").exists()


async def test_names_are_compared_with_all_servers(world: World, tmp_path: Path) -> None:
    await world.mcp.add(settings("shop", "well_behaved", tmp_path / "counter"))
    await world.mcp.add(settings("other", "well_behaved", tmp_path / "counter"))
    for name in ("shop", "other"):
        await world.mcp.refresh(name)
    scan = await world.mcp.scan("other")
    assert scan.servers == ("other",)
    assert {(finding.server, finding.code) for finding in scan.findings} == {("other", "same_name")}


async def test_a_server_that_is_not_there_and_a_caller_who_may_not(world: World) -> None:
    with pytest.raises(NotFound):
        await world.mcp.scan("shop")
    with pytest.raises(UsageError) as raised:
        await world.acting_as(Caller("bot", roles=("agent",))).mcp.scan()
    assert raised.value.code == "role_missing"
