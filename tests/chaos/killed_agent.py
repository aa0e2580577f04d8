"""The agent that is killed: its tools, its policy, and what its users say, turn by turn.

An order is the name of one thing to be done outside (`chat/turn/letter`), so the outside can tell a repetition from a
second wish, whatever ids the calls have.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from demiurge.bootstrap import World
from demiurge.tools import Tool, ToolContext, ToolEffect, ToolPolicy, ToolResult
from demiurge.tools.core import CORE_TOOLS

__all__ = ["CHATS", "NEVER_TWICE", "Order", "open_world", "script", "tools"]

CHATS = ("anna", "ben", "cleo")

NEVER_TWICE = ("charge", "book", "refund")
"""Tools whose repetition would be a second deed."""

LONG = "A long answer, which becomes a file of its own. " * 600


@dataclass(frozen=True, slots=True)
class Order:
    """What to do, by name."""

    order: str


def tools(url: str) -> list[Tool[Any, Any]]:
    """The tools, which act on the outside at `url`."""

    async def act(what: str, order: str, context: ToolContext) -> ToolResult[Any]:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            body = {"order": order, "tool_call_id": context.tool_call_id}
            (await http.post(f"{url}/{what}", json=body)).raise_for_status()
        return ToolResult(f"done: {order}")

    async def charge(params: Order, *, context: ToolContext) -> ToolResult[Any]:
        return await act("charge", params.order, context)

    async def refund(params: Order, *, context: ToolContext) -> ToolResult[Any]:
        return await act("refund", params.order, context)

    async def book(params: Order, *, context: ToolContext) -> ToolResult[Any]:
        return await act("book", params.order, context)

    async def ask_book(params: Order, *, context: ToolContext) -> ToolResult[Any]:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            booked = (await http.get(f"{url}/booked?{params.order}")).json()["booked"]
        return ToolResult(f"done: {params.order}" if booked else f"not done: {params.order}")

    def count(params: Order, *, context: ToolContext) -> ToolResult[Any]:
        response = httpx.get(f"{url}/count?{params.order}", trust_env=False, timeout=30)
        return ToolResult(f"counted {response.json()['charged']} for {params.order}")

    return [
        Tool[Order, Any](name="charge", description="Charge the counter.", handler=charge),
        Tool[Order, Any](name="refund", description="Refund; a person is asked first.", handler=refund),
        Tool[Order, Any](
            name="book",
            description="Make a reservation.",
            handler=book,
            reconcile=ask_book,
            effect=ToolEffect.STATE_CHANGE,
        ),
        Tool[Order, Any](name="count", description="Read the counter.", handler=count, effect=ToolEffect.READ_ONLY),
    ]


def open_world(folder: Path, url: str) -> World:
    offered = tools(url)
    names = (*(tool.name for tool in CORE_TOOLS), *(tool.name for tool in offered))
    policy = ToolPolicy(allowed_tools=names, require_approval_for_tools=("refund",))
    home = folder.with_name(f"{folder.name}.home")  # where it is kept that a call was approved
    environment = {"LLM_API_KEY": "sk-chaos", "OPENAI_BASE_URL": f"{url}/v1", "HOME": str(home)}
    return World.open(folder, offered, policy, environment=environment)


FULL: tuple[list[list[str]], ...] = (
    [["workspace__write", "charge"], ["refund", "book", "count"]],
    [["charge"], ["refund", "workspace__write"]],
)
"""Two turns in which every kind of thing happens."""


def script(seed: int, chat: str, turn: int) -> str:
    """What the user of a chat says in a turn, the same every time; with seed 0 the turns of `FULL`."""
    draw = random.Random(f"{seed} {chat} {turn}")

    def call(letter: str, tool: str) -> list[Any]:
        order = f"{chat}/{turn}/{letter}"
        if tool == "workspace__write":
            return [tool, {"path": f"{order}.txt", "text": order, "workspace": chat}]
        return [tool, {"order": order}]

    shapes: tuple[list[list[str]], ...] = (
        [],
        [["charge"]],
        [["charge"], ["count"]],
        [["book"]],
        [["workspace__write"]],
        [["charge", "book", "count"]],
        [["charge", "charge"], ["workspace__write", "charge"]],
        [["refund"]],
        [["refund", "charge"], ["book"]],
        [["workspace__write", "charge"]],
    )
    shape = FULL[(turn - 1) % len(FULL)] if seed == 0 else shapes[draw.randrange(len(shapes))]
    letters = iter("abcdefgh")
    said: dict[str, Any] = {"turn": f"{chat}/{turn}"}
    said["rounds"] = [[call(next(letters), tool) for tool in together] for together in shape]
    said["say"] = f"answer to {chat}/{turn}. " + (LONG if draw.random() < 0.2 or seed == 0 else "")
    if draw.random() < 0.05 and seed != 0:
        said["status"] = 400
    return json.dumps(said)
