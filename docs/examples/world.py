import asyncio

from own_tools import stock_count

from demiurge import ToolResult, World, tool


@tool
def order_part(part: str, count: int) -> ToolResult[None]:
    """Order pieces of a part from the supplier."""
    return ToolResult(message=f"Ordered {count} of {part}.", value=None)


async def main() -> None:
    async with World.open("stock.world", tools=[stock_count, order_part]) as world:
        chat = world.chat("shop")
        reply = await chat.send("Order 20 bolts.")
        print(reply.status, [call.name for call in reply.tool_calls])

        for approval in await world.approvals():
            print("waiting for a person:", approval["tool"], approval["arguments_json"])
            await world.decide(approval["id"], approve=True, reason="within budget")

        await chat.resume()
        reply = await chat.reply()
        print(reply.status, reply.tool_calls[0].ok, "-", reply.text)

        print("verified:", world.journal.verify().ok)
        print("replayed:", (await world.replay())["ok"])


asyncio.run(main())
