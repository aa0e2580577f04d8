import asyncio
import sys

from demiurge import Redaction, ToolCatalog, ToolPolicy, ToolRunner
from demiurge.mcp import McpToolProvider, ServerSettings, ToolDefinition, Trust

STOCK = ServerSettings("stock", command=(sys.executable, "mcp_stock_server.py"))
POLICY = ToolPolicy(("mcp__stock__stock_count", "mcp__stock__order_part"))


def confirm(server: str, definition: ToolDefinition) -> bool:
    """Somebody reads the definition, here a program."""
    print(f"{server} lists {definition.name}: {definition.description}")
    return "Ignore" not in str(definition.description)


async def main() -> None:
    trusted = {"stock": {"stock_count": Trust(redaction=Redaction.allow("pieces")), "order_part": Trust()}}
    async with McpToolProvider(STOCK, trust=trusted, confirm=confirm) as tools:
        runner = ToolRunner(tools, policy=POLICY)
        print([spec.name for spec in ToolCatalog.compile(tools, POLICY).specs()])
        counted = await runner.exec("mcp__stock__stock_count", {"part": "bolt"})
        print(counted.value)
        print(counted.content)
        wrong = await runner.exec("mcp:stock:stock_count", {"piece": "bolt"})
        print(wrong.error_code, "-", wrong.safe_message)
        print((await runner.exec("mcp__stock__order_part", {"part": "bolt", "count": 20})).error_code)
        listing = tools.listing("stock")
        assert listing is not None
        print(listing.protocol, [len(definition.pin) for definition in listing.definitions])


asyncio.run(main())
