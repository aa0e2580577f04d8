import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from demiurge import World

FOLDER = Path("customers")


class Customers:
    """A world for each customer, opened when the customer is first asked for."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack, self._worlds, self._opening = stack, dict[str, World](), asyncio.Lock()

    async def world(self, customer: str) -> World:
        """The world of a customer that your login has established: never a name from the request itself."""
        async with self._opening:
            if customer not in self._worlds:
                folder = FOLDER / f"{customer}.world"
                self._worlds[customer] = await self._stack.enter_async_context(World.open(folder, tenant=customer))
            return self._worlds[customer]


@asynccontextmanager
async def customers() -> AsyncIterator[Customers]:
    """For the lifespan of the app: it closes every world at the end."""
    async with AsyncExitStack() as stack:
        yield Customers(stack)


async def main() -> None:
    async with customers() as shops:
        for name in ("bolts", "nuts"):
            world = await shops.world(name)
            await world.chat(f"orders-of-{name}").create("Orders")
        for name in ("bolts", "nuts"):
            world = await shops.world(name)
            print(name, await world.keys("demiurge/Demiurge@1"))


asyncio.run(main())
