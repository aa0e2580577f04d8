"""pydantic-ai: `ToolManager`, which its agent graph calls; `approval_required` is its policy in the path of a call."""

import os
from collections.abc import Awaitable, Callable

os.environ["LOGFIRE_SEND_TO_LOGFIRE"] = "false"

from pydantic_ai import RunContext
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset
from pydantic_ai.usage import RunUsage

PACKAGE = "pydantic-ai-slim"
ARGS = '{"a": 2, "b": 3}'


def add(a: int, b: int) -> int:
    return a + b


async def add_async(a: int, b: int) -> int:
    return a + b


async def _manager(toolset: AbstractToolset[None]) -> Callable[[], Awaitable[str]]:
    manager = await ToolManager(toolset).for_run_step(RunContext(deps=None, model=TestModel(), usage=RunUsage()))

    async def call() -> str:
        part = ToolCallPart(tool_name="add", args=ARGS, tool_call_id="c1")
        return str(await manager.handle_call(part))

    return call


def _toolset(handler: str) -> FunctionToolset[None]:
    toolset: FunctionToolset[None] = FunctionToolset()
    toolset.add_function(add if handler == "def" else add_async, name="add")
    return toolset


async def handle_call(handler: str, history: int) -> Callable[[], Awaitable[str]]:
    return await _manager(_toolset(handler))


async def approval(handler: str, history: int) -> Callable[[], Awaitable[str]]:
    return await _manager(_toolset(handler).approval_required(lambda context, definition, args: False))


ENTRIES = {"handle_call": handle_call, "approval": approval}
