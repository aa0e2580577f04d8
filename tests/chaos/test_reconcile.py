"""A tool that is asked what became of a call that was begun: it answers, or the call stays in doubt."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.killed_agent import Order
from tests.chaos.outside_observer import Outside

from demiurge.bootstrap import Reply, World
from demiurge.errors import DemiurgeError
from demiurge.tools import Tool, ToolContext, ToolPolicy, ToolResult
from demiurge.tools.errors import ToolUserError

SAID = json.dumps({"rounds": [[["act", {"order": "one"}]]], "say": "so be it"})


async def stopped_and_asked(folder: Path, outside: Outside, reconcile: Callable[..., Any]) -> Reply:
    """A world is closed while its tool acts, and opened again."""
    outside.pause_s = 0.0
    acting = asyncio.Event()
    done: list[str] = []

    async def act(params: Order, *, context: ToolContext) -> ToolResult[Any]:
        done.append(params.order)
        acting.set()
        await asyncio.Event().wait()
        return ToolResult("done")

    def opened() -> World:
        tool: Tool[Any, Any] = Tool[Order, Any](name="act", description="Do it.", handler=act, reconcile=reconcile)
        environment = {"LLM_API_KEY": "sk-chaos", "OPENAI_BASE_URL": f"{outside.url}/v1"}
        return World.open(folder, [tool], ToolPolicy(allowed_tools=("act",)), environment=environment)

    async with asyncio.timeout(30):
        async with opened() as world:
            talk = asyncio.create_task(world.chat("anna").send(SAID))
            await acting.wait()
        with suppress(DemiurgeError):
            await talk
        async with opened() as world:
            await world.chat("anna").resume()
            reply = await world.chat("anna").reply()
    assert reply.status == "done"
    assert done == ["one"]
    return reply


def finds_out(params: Order, *, context: ToolContext) -> ToolResult[Any]:
    return ToolResult(f"it was done: {params.order}")


def finds_nothing(params: Order, *, context: ToolContext) -> ToolResult[Any]:
    raise ToolUserError(f"There is no order {params.order}.")


def breaks(params: Order, *, context: ToolContext) -> ToolResult[Any]:
    raise RuntimeError("no connection")


async def breaks_later(params: Order, *, context: ToolContext) -> ToolResult[Any]:
    raise RuntimeError("no connection")


def can_not_say(params: Order, *, context: ToolContext) -> ToolResult[Any]:
    return None  # type: ignore[return-value]


async def test_a_result_from_reconcile_answers_the_call(outside: Outside, tmp_path: Path) -> None:
    (call,) = (await stopped_and_asked(tmp_path / "world", outside, finds_out)).tool_calls
    assert call.ok


async def test_a_user_error_from_reconcile_answers_the_call(outside: Outside, tmp_path: Path) -> None:
    (call,) = (await stopped_and_asked(tmp_path / "world", outside, finds_nothing)).tool_calls
    assert (call.error_code, call.message) == ("execution", "There is no order one.")


@pytest.mark.parametrize("reconcile", [breaks, breaks_later, can_not_say])
async def test_the_call_stays_in_doubt_if_reconcile_breaks_or_finds_nothing(
    reconcile: Callable[..., Any], outside: Outside, tmp_path: Path
) -> None:
    (call,) = (await stopped_and_asked(tmp_path / "world", outside, reconcile)).tool_calls
    assert call.error_code == "unknown_outcome"
