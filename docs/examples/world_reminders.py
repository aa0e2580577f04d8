import asyncio

import reminders_desk

from demiurge import World

REDUCERS = {"desk/Reminders@1": reminders_desk.reduce}


async def main() -> None:
    async with World.open("desk.world", manifest="reminders", reducers=REDUCERS) as world:
        await world.submit("desk/Wish@1", {"text": "tea", "at_ns": 1})  # long past, so it goes off at once
        await world.settle()
        for note in (await world.state("desk/Reminders@1", ""))["notes"]:
            print(note)
        print("replayed:", (await world.replay())["ok"])


if __name__ == "__main__":
    asyncio.run(main())
