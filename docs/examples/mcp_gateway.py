import asyncio
import subprocess
import sys

from mcp import Client, StdioServerParameters

DEMIURGE = [sys.executable, "-m", "demiurge.cli", "-w", "shop.world"]
TOOLS = ["--tools", "shop_gateway", "--policy", "shop_gateway.toml"]


async def main() -> None:
    server = StdioServerParameters(command=DEMIURGE[0], args=[*DEMIURGE[1:], "mcp", "serve", *TOOLS])
    async with Client(server) as client:
        for each in (await client.list_tools()).tools:
            print(each.name, "reads only" if each.annotations and each.annotations.read_only_hint else "acts")
        print((await client.call_tool("stock_count", {"part": "bolt"})).content[0].text)

        order = {"part": "bolt", "count": 20}
        waits = (await client.call_tool("order_part", order)).structured_content
        print(waits["status"])

        # A person decides elsewhere: in another terminal, or in the web shell.
        approve = [*DEMIURGE, "approvals", "approve", waits["approval"][:12]]
        await asyncio.to_thread(subprocess.run, approve, check=True, capture_output=True)

        result = await client.call_tool("order_part", order)
        print(result.content[0].text)


asyncio.run(main())
