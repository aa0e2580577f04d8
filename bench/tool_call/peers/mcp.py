"""mcp: `MCPServer.call_tool`, which validates, runs and converts; its low-level round trip is no part of it."""

import json
from collections.abc import Awaitable, Callable

from mcp.server import MCPServer

PACKAGE = "mcp"
ARGS = '{"a": 2, "b": 3}'


def add(a: int, b: int) -> int:
    return a + b


async def add_async(a: int, b: int) -> int:
    return a + b


async def call_tool(handler: str, history: int) -> Callable[[], Awaitable[str]]:
    server = MCPServer("bench", log_level="WARNING")
    server.tool(name="add")(add if handler == "def" else add_async)

    async def call() -> str:
        return str((await server.call_tool("add", json.loads(ARGS))).content[0].text)

    return call


ENTRIES = {"call_tool": call_tool}
