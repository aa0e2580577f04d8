import asyncio

import shop_order

from demiurge import World
from demiurge.world.effect import EffectCall, Restart, Result, succeeded
from demiurge.world.manifest import Manifest
from demiurge.world.state import OpenIntent


class Stock:
    """The adapter of `shop.reserve`."""

    kinds = ("shop.reserve",)

    def restart(self, intent: OpenIntent, manifest: Manifest) -> Restart:
        return "retry"

    async def perform(self, call: EffectCall) -> Result:
        return succeeded(price=3)


REDUCERS = {"shop/Order@1": shop_order.reduce}
ADAPTERS = [Stock()]


async def main() -> None:
    async with World.open("shop.world", manifest="shop", reducers=REDUCERS, adapters=ADAPTERS) as world:
        await world.submit("shop/Placed@1", {"order": "A-1", "part": "bolt", "count": 4})
        await world.settle()

    async with World.open("shop.world", reducers=REDUCERS, adapters=ADAPTERS) as world:  # another time
        await world.submit("shop/Paid@1", {"order": "A-1", "amount": 12})
        await world.settle()
        print((await world.state("shop/Order@1", "A-1"))["history"])
        print("replayed:", (await world.replay())["ok"])

    async with World.open("shop.world") as world:  # without the code: to look at
        print("missing:", (await world.info())["missing"], "verified:", world.journal.verify().ok)


if __name__ == "__main__":
    asyncio.run(main())
