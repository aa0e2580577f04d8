"""The secrets of MCP servers: they reach the server, and no record, file, log, frame or view of the world."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.mcp.mcp_worlds import echo, intact, opened
from tests.canaries.search import bytes_below, find_values, tap_socket

from demiurge.bootstrap.backend.connection import OwnerConnection
from demiurge.bootstrap.backend.remote import Remote
from demiurge.bootstrap.backend.socket import socket_path
from demiurge.bootstrap.secrets import open_vault
from demiurge.errors import Unavailable
from demiurge.mcp import ServerSettings
from demiurge.tools.capabilities import SecretName
from demiurge.tools.connections.credentials import Secret
from demiurge.values.clock import SystemEntropy

TOKEN = "canary-token-0123456789-abcdef"
VARIABLE = "canary-variable-9876543210-fedcba"
LEAK = "mcp__echo__leak"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerSettings:
    """A server with a secret of the vault, and one of the environment, in its environment."""
    monkeypatch.setenv("SHOP_API_KEY", VARIABLE)
    return echo(tmp_path / "started", env={"TOKEN": SecretName("shop/token", 1), "KEY": "${SHOP_API_KEY}"})


def put_token(home: Path) -> None:
    vault = open_vault({"HOME": str(home)})
    assert vault is not None
    vault.put("shop/token", 1, Secret(TOKEN), SystemEntropy())


async def test_a_secret_reaches_its_server_and_nothing_else(
    tmp_path: Path, settings: ServerSettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    put_token(tmp_path)
    folder, frames, shown = tmp_path / "w", list[Any](), list[Any]()
    async with opened(folder) as world:
        await world.mcp.add(settings)
        await world.mcp.trust("echo", ["leak"], rule="allow", public=["text", "content"])

        async def watch() -> None:
            async with aclosing(world.watch()) as running:
                async for frame in running:
                    frames.append(frame)

        watching = asyncio.create_task(watch())
        for name in ("TOKEN", "KEY"):
            answer = await world.call(LEAK, {"name": name})
            assert answer.ok
            assert f"{name} is [secret]" in answer.content
            shown.append(answer)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        with tap_socket(socket_path(folder)) as sent:
            joined = Remote(OwnerConnection(socket_path(folder), no_successor))
            shown += [await joined.read.mcp_servers(), await joined.read.mcp_server("echo"), await joined.read.info()]
            shown += await asyncio.to_thread(joined.read.records, None, 0, 1000)
            await joined.close()
        await intact(world)
    files = [*bytes_below(folder), *bytes_below(tmp_path / ".config")]
    assert find_values([TOKEN, VARIABLE], *files, *sent, caplog.text, repr(frames), repr(shown)) == []
    assert frames
    assert sent


def no_successor() -> Any:
    raise Unavailable("Nobody takes over.")


async def test_a_missing_secret_is_named_and_starts_nothing(tmp_path: Path, settings: ServerSettings) -> None:
    async with opened(tmp_path / "w") as world:
        await world.mcp.add(settings)
        with pytest.raises(Unavailable, match=r"The secret shop/token@1 has no value: run `demiurge secrets set"):
            await world.mcp.refresh("echo")
        assert not (tmp_path / "started").exists()
        put_token(tmp_path)
        assert (await world.mcp.refresh("echo")).state == "connected"
