import asyncio
from dataclasses import dataclass

from demiurge import ToolPolicy, ToolResult, World, tool
from demiurge.sessions import reducer
from demiurge.tools import ToolInvoked


@dataclass(frozen=True)
class Ordered:
    part: str
    count: int


@dataclass(frozen=True)
class Orders:
    pieces: int = 0

    @reducer(on=Ordered)
    def on_ordered(self, event: Ordered) -> "Orders":
        return Orders(self.pieces + event.count)


@tool
def order_part(part: str, count: int) -> ToolResult[Ordered]:
    """Order pieces of a part from the supplier."""
    return ToolResult(message=f"Ordered {count} of {part}.", value=Ordered(part, count))


def opened() -> World:
    policy = ToolPolicy(allowed_tools=("order_part",))
    return World.open("orders.world", [order_part], policy, session_types=[Orders])


async def main() -> None:
    async with opened() as world:
        await world.chat("shop").send("Order 20 bolts.")

    async with opened() as world:  # another time, another process
        session = await world.chat("shop").session()
        print(session[Orders].latest())
        print([(call.name, call.result.success) for call in session[ToolInvoked].all()])


asyncio.run(main())
