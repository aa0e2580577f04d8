"""openai-agents: a function tool's `on_invoke_tool`, and `invoke_function_tool` around it, which its runner calls."""

import os
from collections.abc import Awaitable, Callable

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents.tool import invoke_function_tool
from agents.tool_context import ToolContext

from agents import FunctionTool, function_tool

PACKAGE = "openai-agents"
ARGS = '{"a": 2, "b": 3}'


def add(a: int, b: int) -> int:
    return a + b


async def add_async(a: int, b: int) -> int:
    return a + b


def _tool(handler: str) -> FunctionTool:
    return function_tool(add if handler == "def" else add_async, name_override="add")


def _context() -> ToolContext[None]:
    return ToolContext(context=None, tool_name="add", tool_call_id="c1", tool_arguments=ARGS)


async def on_invoke_tool(handler: str, history: int) -> Callable[[], Awaitable[str]]:
    tool, context = _tool(handler), _context()

    async def call() -> str:
        return str(await tool.on_invoke_tool(context, ARGS))

    return call


async def invoke(handler: str, history: int) -> Callable[[], Awaitable[str]]:
    tool, context = _tool(handler), _context()

    async def call() -> str:
        return str(await invoke_function_tool(function_tool=tool, context=context, arguments=ARGS))

    return call


ENTRIES = {"on_invoke_tool": on_invoke_tool, "invoke_function_tool": invoke}
