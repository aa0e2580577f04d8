import asyncio

from demiurge import World
from demiurge.errors import Conflict
from demiurge.values.caller import Caller


async def main() -> None:
    async with World.open("shop.world") as world:
        reply = await world.chat("shop").send("Order 20 bolts from the usual supplier.")
        print(reply.status)

    async with World.open("shop.world") as world:  # days later, in another process
        [waiting] = await world.approvals()
        print(waiting["asks"]["question"], waiting["asks"]["choices"], "expires:", waiting["expires_ns"])

        ada = world.acting_as(Caller("user:ada", roles=("approver",)))
        bob = world.acting_as(Caller("user:bob", roles=("approver",)))
        await ada.answer(waiting["id"], "Bolt & Sons")
        try:
            await bob.answer(waiting["id"], "Nuts Ltd")
        except Conflict as conflict:
            print(conflict.code, conflict.details["by"], conflict.details["verdict"])

        await world.settle()
        print((await world.chat("shop").reply()).text)


asyncio.run(main())
