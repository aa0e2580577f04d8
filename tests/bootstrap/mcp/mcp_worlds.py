"""Worlds with an MCP server in this process, whose tools a test changes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

from demiurge import World
from demiurge.bootstrap.backend import owner
from demiurge.mcp import Limits, McpClients, ServerSettings

__all__ = ["READS", "SHOP", "Shop", "catalog", "echo", "intact", "opened"]

SHOP = ServerSettings("shop", command=("shop-server",), limits=Limits(refresh_s=0))
"""The settings of the server; its command does not exist, so only `connect` starts it."""

READS = ToolAnnotations(read_only_hint=True)


class Shop:
    """A server with a tool that reads and one that acts. `calls`: what its tools did."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.mcp = MCPServer("shop", version="1")
        self.put("price", "The price of a part.", READS)
        self.put("order", "Order a part.")

    def put(self, name: str, description: str, annotations: ToolAnnotations | None = None) -> None:
        """Lists a tool; one with this name is replaced."""

        def work(part: str) -> str:
            self.calls.append(f"{name} {part}")
            return f"{name} of {part}"

        if any(tool.name == name for tool in self.mcp._tool_manager.list_tools()):
            self.mcp.remove_tool(name)
        self.mcp.add_tool(work, name, description=description, annotations=annotations, structured_output=False)

    def drop(self, name: str) -> None:
        """Lists a tool no longer."""
        self.mcp.remove_tool(name)

    def connect(self, monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
        """Has the owners of worlds find this server under its name, and `more` servers under theirs."""
        targets: Mapping[str, Any] = {"shop": self.mcp, **more}
        monkeypatch.setattr(owner, "McpClients", partial(McpClients, in_process=targets, start_s=20, stop_s=1))


def opened(folder: Path, home: Path | None = None, **more: Any) -> World:
    """Opens the world in `folder` for the user whose home is `home`, by default the folder beside it."""
    environment = {
        "HOME": str(home or folder.parent),
        "LLM_API_KEY": "sk-test",
        "OPENAI_BASE_URL": "http://127.0.0.1:9",
    }
    return World.open(folder, environment=environment | more.pop("environment", {}), **more)


async def catalog(world: World) -> dict[str, dict[str, Any]]:
    """Returns the specs of the servers' tools that a model may see, by id."""
    return {spec["name"]: spec for spec in (await world.info())["catalog"] if spec["name"].startswith("mcp__")}


def echo(started: Path, **more: Any) -> ServerSettings:
    """Returns the settings of a server that is a process (`echo_server`), and adds a line to `started` at its start."""
    program = Path(__file__).with_name("echo_server.py")
    return ServerSettings("echo", command=(sys.executable, str(program), str(started)), **more)


async def intact(world: World) -> None:
    """Checks that a world replays and verifies."""
    assert (await world.replay())["ok"]
    assert world.journal.verify().ok
