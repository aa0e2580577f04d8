import asyncio

from demiurge import NotFound, ToolResult, World, tool


@tool
def order_part(part: str, count: int) -> ToolResult[None]:
    """Order pieces of a part from the supplier."""
    return ToolResult(message=f"Ordered {count} of {part}.", value=None)


async def main() -> None:
    async with World.open("shop.world", tools=[order_part]) as world:
        await world.chat("shop").send("Order 20 bolts for Ms Smith, 12 Elm Street.")
        seal = world.journal.seal()  # keep this somewhere else

        cell = await world.state("demiurge/Demiurge@1", "shop")
        message = cell["messages"][0]["message_ref"]
        done = await world.erase(message, "Ms Smith asked for it")
        print("erased, and named by", done.records, "records")
        try:
            world.blobs.get(message)
        except NotFound as error:
            print("read again:", error.code)

        verified = world.journal.verify(seal)
        print("verified:", verified.ok, "erased:", verified.erased)
        replayed = await world.replay()
        print("replayed:", replayed["ok"], "not checked:", replayed.get("unchecked", 0), "of", replayed["records"])
        print("record 3 is under the seal:", world.journal.prove(3, seal).holds())
        print("garbage:", (await world.gc(dry_run=True)).blobs)


asyncio.run(main())
