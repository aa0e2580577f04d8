import asyncio

from demiurge import ToolPolicy, ToolResult, World, tool


@tool
def order_part(part: str, count: int) -> ToolResult[None]:
    """Order pieces of a part from the supplier."""
    return ToolResult(message=f"Ordered {count} of {part}.", value=None)


async def look_on(world: World) -> None:
    text: dict[str, str] = {}
    async for frame in world.watch("demiurge/Demiurge@1/shop"):
        intent = frame["intent"]
        match frame["type"]:
            case "began":  # what an earlier attempt showed is void
                text[intent] = ""
                print(frame["kind"], "begins, attempt", frame["attempt"])
            case "text_delta":
                text[intent] += frame["delta"]
            case "closed":
                print("recorded;", f"shown: {text.pop(intent)!r}")


async def main() -> None:
    async with World.open("watched.world", [order_part], ToolPolicy(allowed_tools=("order_part",))) as world:
        looking = asyncio.create_task(look_on(world))
        reply = await world.chat("shop").send("Order 20 bolts.")
    await looking  # it ends with the world
    print(reply.status, "-", reply.text)


asyncio.run(main())
