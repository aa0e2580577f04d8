"""A world whose tools note each of their runs, and gateways to it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from demiurge import Redaction, ToolContext, ToolEffect, ToolPolicy, ToolResult, World, tool
from demiurge.bootstrap.gateway import Catalogs, GatewayWorld
from demiurge.mcp.gateway.names import ToolNames
from demiurge.mcp.gateway.server import McpGateway
from demiurge.tools import File, Image
from demiurge.tools.input_required import InputRequired, Question
from demiurge.values.caller import Caller
from mcp import Client, MCPError

ERAS = ("legacy", "auto")

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)

AGENT = Caller("agent:a", roles=("agent",), transport="http")
OTHER = Caller("agent:b", roles=("agent",), transport="http")
APPROVER = Caller("user:lead", roles=("agent", "approver"), transport="http")
VIEWER = Caller("user:guest", roles=("viewer",), transport="http")


@dataclass
class Shop:
    """A world with tools; `runs` are the parcels that were sent, `go_on` lets `wait_for_word` end."""

    world: World
    runs: list[str] = field(default_factory=list)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    began: asyncio.Event = field(default_factory=asyncio.Event)

    def gateway(self, caller: Caller | None = None, **options: Any) -> McpGateway:
        """A gateway of its own, as another process would have."""
        world = self.world if caller is None else self.world.acting_as(caller)
        own = GatewayWorld(world, Catalogs())

        async def key() -> bytes:
            return b"k" * 32

        return McpGateway(lambda _: own, key, **options)

    @asynccontextmanager
    async def client(
        self, caller: Caller | None = None, mode: str = "auto", names: ToolNames | None = None, **options: Any
    ) -> AsyncIterator[Client]:
        """A client of a gateway of its own."""
        gateway = self.gateway(caller, names=names or ToolNames())
        async with Client(gateway.server, mode=mode, **options) as client:
            yield client
        await gateway.close()

    async def approve(self, *, approve: bool = True) -> None:
        """Decides on the one call that waits, as a person at another place would."""
        [waiting] = await self.world.approvals()
        await self.world.decide(waiting["id"], approve=approve, reason="too far" if not approve else "")
        await self.world.settle()


def text_of(result: types.CallToolResult) -> str:
    """The text of a result, without the blocks of marks."""
    [block] = result.content if len(result.content) == 1 else result.content[1:-1]
    assert isinstance(block, types.TextContent)
    return block.text


async def refuses_as_unknown(client: Client, name: str, arguments: dict[str, Any]) -> None:
    """Checks that a call is answered as that of a tool which is not there."""
    with pytest.raises(MCPError) as refused:
        await client.call_tool(name, arguments)
    assert refused.value.error == types.ErrorData(code=types.INVALID_PARAMS, message=f"Unknown tool: {name}")


def shop_tools(shop: Callable[[], Shop]) -> list[Any]:
    @tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.allow("sum"))
    def add(a: int, b: int) -> ToolResult[dict[str, int]]:
        """Add two numbers."""
        return ToolResult("added", {"sum": a + b})

    @tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
    def send_parcel(city: str) -> str:
        """Send a parcel."""
        shop().runs.append(city)
        return f"sent to {city}"

    @tool(effect=ToolEffect.STATE_CHANGE)
    def note(text: str) -> str:
        """Note something."""
        shop().runs.append(text)
        return f"noted {text}"

    @tool(effect=ToolEffect.READ_ONLY)
    def plot() -> ToolResult[None]:
        """Plot the sales."""
        table = File(data=b"month,sales\n1,20\n", mime="text/csv", name="sales.csv")
        return ToolResult("the sales", parts=[Image(data=DOT), table])

    @tool(effect=ToolEffect.STATE_CHANGE)
    async def wait_for_word(word: str, *, context: ToolContext) -> str:
        """Wait for a word."""
        context.progress(1, 2, "waiting")
        shop().began.set()
        await shop().go_on.wait()
        shop().runs.append(word)
        return f"heard {word}"

    @tool(effect=ToolEffect.READ_ONLY)
    def report(length: int) -> str:
        """Report at length."""
        return "x" * length

    @tool(effect=ToolEffect.READ_ONLY)
    def hidden() -> str:
        """Never offered."""
        return "hidden"

    @tool(effect=ToolEffect.STATE_CHANGE)
    def book(city: str, *, context: ToolContext) -> ToolResult[None] | InputRequired:
        """Book a journey."""
        if context.resumed is None:
            seat = {"type": "object", "properties": {"seat": {"type": "string", "enum": ["aisle", "window"]}}}
            return InputRequired((Question("seat", "Which seat?", seat), Question("name", "Which name?")))
        answers = context.resumed.answers
        seat_of, name = answers["seat"], answers["name"].text
        shop().runs.append(f"{city} {(seat_of.content or {}).get('seat')} {name}")
        return ToolResult(f"booked for {name}")

    @tool(effect=ToolEffect.STATE_CHANGE)
    def sell(city: str, *, context: ToolContext) -> ToolResult[None] | InputRequired:
        """Sell a house, after two questions."""
        asked = 0 if context.resumed is None else int(context.resumed.state)
        shop().runs.append(f"leg {asked}")
        if asked == 2:
            return ToolResult(f"sold in {city}")
        return InputRequired((Question("sure", f"Question {asked + 1}?"),), str(asked + 1).encode())

    return [sell, book, add, send_parcel, note, plot, wait_for_word, report, hidden]


POLICY = ToolPolicy(
    allowed_tools=("add", "book", "sell", "send_parcel", "note", "plot", "wait_for_word", "report"),
    require_approval_for_tools=("send_parcel",),
)


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    found: list[Shop] = []
    async with World.open(tmp_path / "w", shop_tools(lambda: found[0]), POLICY) as world:
        found.append(Shop(world))
        yield found[0]
