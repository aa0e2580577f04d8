import asyncio
from collections.abc import Sequence
from typing import Any

from own_tools import stock_count

from demiurge import Redaction, ToolContext, ToolEffect, ToolPolicy, ToolResult, World
from demiurge.tools import BoundTool
from demiurge.tools.foreign.tool import foreign_tool

SKU = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}


async def ask_server(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
    return ToolResult("From the price server.", {"sku": arguments["sku"], "cents": 12})


class PriceServer:
    """Somebody else's tools, which have to be asked for."""

    def __init__(self, *names: str) -> None:
        self.names = names

    async def list_tools(self) -> Sequence[BoundTool]:
        redaction, effect = Redaction.allow("cents"), ToolEffect.READ_ONLY
        return [foreign_tool(name, "", SKU, ask_server, redaction=redaction, effect=effect) for name in self.names]


async def main() -> None:
    server = PriceServer("mcp__prices__look_up")
    policy = ToolPolicy(allowed_tools=("stock_count", "mcp__prices__look_up", "mcp__prices__history"))
    async with World.open("prices.world", tools=[stock_count, server], policy=policy) as world:
        print([spec["name"] for spec in (await world.info())["catalog"]])
        print((await world.call("mcp__prices__look_up", '{"sku": "B-17"}')).status)
        server.names = ("mcp__prices__history",)
        print("changed:", await world.refresh_tools())
        print([spec["name"] for spec in (await world.info())["catalog"]])
        print((await world.call("mcp__prices__look_up", '{"sku": "B-17"}')).error_code)
        print("replayed:", (await world.replay())["ok"])


asyncio.run(main())
