import asyncio

from demiurge import ToolResult, World, tool


@tool
def order_part(part: str, count: int) -> ToolResult[None]:
    """Order pieces of a part from the supplier."""
    return ToolResult(message=f"Ordered {count} of {part}.", value=None)


async def main() -> None:
    async with World.open("shop.world", tools=[order_part]) as world:
        reply = await world.chat("shop").send("Order 20 bolts.")
        print("here:", reply.status)
        fork = await world.fork("what-if.world")
        print("ended in the fork:", fork.ended)

        async with World.open(fork, tools=[order_part]) as other:
            chat = other.chat("shop")
            await chat.resume()
            reply = await chat.reply()
            print("there:", reply.tool_calls[0].error_code, "-", reply.status)
            print("verified:", other.journal.verify().ok, "replayed:", (await other.replay())["ok"])

        print("still waiting here:", len(await world.approvals()))
        before = await world.state("demiurge/Demiurge@1", "shop", at=fork.position)
        print("messages then:", len(before["messages"]))


asyncio.run(main())
