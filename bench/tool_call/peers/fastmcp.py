"""fastmcp: a tool's own `run`, and the server's `call_tool`, which passes it through one middleware."""

import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

os.environ["FASTMCP_TELEMETRY_MODE"] = "off"
os.environ["FASTMCP_CHECK_FOR_UPDATES"] = "off"

from fastmcp import FastMCP
from fastmcp.server.middleware import Middleware

PACKAGE = "fastmcp"
ARGS = '{"a": 2, "b": 3}'


def add(a: int, b: int) -> int:
    return a + b


async def add_async(a: int, b: int) -> int:
    return a + b


class Allow(Middleware):
    """One rule: this tool may be called."""

    async def on_call_tool(self, context: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        if context.message.name != "add":
            raise PermissionError(context.message.name)
        return await call_next(context)


async def run(handler: str, history: int) -> Callable[[], Awaitable[str]]:
    server: FastMCP[Any] = FastMCP("bench")
    server.tool(add if handler == "def" else add_async, name="add")
    tool = await server.get_tool("add")
    assert tool is not None

    async def call() -> str:
        return str((await tool.run(json.loads(ARGS))).content[0].text)

    return call


async def call_tool(handler: str, history: int) -> Callable[[], Awaitable[str]]:
    server: FastMCP[Any] = FastMCP("bench", middleware=[Allow()])
    server.tool(add if handler == "def" else add_async, name="add")

    async def call() -> str:
        return str((await server.call_tool("add", json.loads(ARGS))).content[0].text)

    return call


ENTRIES = {"run": run, "call_tool": call_tool}
