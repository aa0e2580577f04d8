"""Log lines of a server during a call reach people who may see the call, and the client that made it, and no model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from tests.bootstrap.mcp.asking_server import WRITE, AskingServer, trusted
from tests.bootstrap.mcp.mcp_worlds import intact, opened
from tests.mcp.gateway.conftest import AGENT, ERAS, VIEWER
from tests.mcp.gateway.test_sampling import client_of

from demiurge import World
from demiurge.values.caller import Caller

LINES = [("info", "began\x1b[31m\nred"), ("debug", "detail"), ("error", {"code": 7})]


@pytest.fixture(params=["legacy", "auto"])
def server_era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def heard(world: World, mode: str, level: str | None) -> list[tuple[str, Any]]:
    """Returns the log lines of a call that a client of the gateway is sent: level and text."""
    lines: list[tuple[str, Any]] = []

    async def on_log(params: Any) -> None:
        lines.append((params.level, params.data))

    wants = {"log_level": level} if mode == "auto" else {}
    async with client_of(world, AGENT, mode, logging_callback=on_log, **wants) as client:
        if mode == "legacy" and level is not None:
            wanted = types.SetLevelRequestParams(level=level)  # type: ignore[arg-type]
            await client.session.send_request(types.SetLevelRequest(params=wanted), types.EmptyResult)
        await client.call_tool(WRITE, {})
    return lines


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_gets_the_lines_that_it_wants(
    mode: str, server_era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = AskingServer([], logs=LINES)
    server.connect(monkeypatch, server_era)
    async with opened(tmp_path / "w") as world:
        await trusted(world)
        assert await heard(world, mode, None) == []
        assert await heard(world, mode, "error") == [("error", '{"code": 7}')]
        lines = await heard(world, mode, "debug")
        assert [level for level, _ in lines if level != "debug"] == ["info", "error"]
        assert lines[0] == ("info", "began<U+001B>[31m red")
        journal = "".join(str(record.body) for record in world.journal.read())
        assert "detail" not in journal
        await intact(world)


async def test_a_flood_is_cut(server_era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = AskingServer([], logs=[("info", "x" * 5000)] * 300)
    server.connect(monkeypatch, server_era)
    async with opened(tmp_path / "w") as world:
        await trusted(world)
        lines = await heard(world, "legacy", "debug")
        assert len(lines) == 200
        assert lines[0] == ("info", f"{'x' * 999}…")
        assert lines[-1] == ("notice", "Further lines of this call's log are left out.")


@pytest.mark.parametrize(("caller", "sees"), [(AGENT, True), (VIEWER, False)])
async def test_only_those_who_see_the_call_see_its_log(
    caller: Caller, sees: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = AskingServer([], logs=[("info", "began")])
    server.connect(monkeypatch, "auto")
    async with opened(tmp_path / "w") as world:
        await trusted(world)
        shown: list[str] = []
        ended = asyncio.Event()

        async def watch() -> None:
            async for frame in world.acting_as(caller).backend.run.watch(None):
                shown.append(frame["type"])
                if frame["type"] == "closed":
                    ended.set()

        watching = asyncio.create_task(watch())
        await world.call(WRITE, {}, "c")
        await ended.wait()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert ("tool_log" in shown) == sees
