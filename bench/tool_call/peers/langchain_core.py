"""langchain-core: a structured tool's `invoke` and `ainvoke` on a ToolCall; with a callback handler, its event path."""

import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

os.environ["LANGSMITH_TRACING"] = "false"

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.tools import StructuredTool

PACKAGE = "langchain-core"
ARGS = '{"a": 2, "b": 3}'


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def add_async(a: int, b: int) -> int:
    """Add."""
    return a + b


class Listener(BaseCallbackHandler):
    """Hears of starts and ends."""

    def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
        return None

    def on_tool_end(self, *args: Any, **kwargs: Any) -> None:
        return None


class AsyncListener(AsyncCallbackHandler):
    """Hears of starts and ends."""

    async def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
        return None

    async def on_tool_end(self, *args: Any, **kwargs: Any) -> None:
        return None


def _call(handler: str, config: dict[str, Any] | None) -> Callable[[], Any]:
    if handler == "def":
        tool = StructuredTool.from_function(add, name="add")
        return lambda: tool.invoke(_tool_call(), config).content
    tool = StructuredTool.from_function(coroutine=add_async, name="add")

    async def call() -> str:
        return str((await tool.ainvoke(_tool_call(), config)).content)

    return call


def _tool_call() -> dict[str, Any]:
    return {"type": "tool_call", "name": "add", "args": json.loads(ARGS), "id": "c1"}


async def invoke(handler: str, history: int) -> Callable[[], str | Awaitable[str]]:
    return _call(handler, None)


async def callbacks(handler: str, history: int) -> Callable[[], str | Awaitable[str]]:
    return _call(handler, {"callbacks": [Listener() if handler == "def" else AsyncListener()]})


ENTRIES = {"invoke": invoke, "callbacks": callbacks}
