import asyncio
import base64

from demiurge import ToolPolicy, World, tool
from demiurge.errors import InvalidValue

PHOTO = base64.b64decode(  # one pixel, as a PNG
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@tool
def order_part(part: str, count: int) -> str:
    """Order pieces of a part from the supplier."""
    return f"Ordered {count} of {part}."


def opened() -> World:
    return World.open("shelf.world", [order_part], ToolPolicy(allowed_tools=("order_part",)))


async def main() -> None:
    async with opened() as world:
        reply = await world.chat("shelf").send("Order what is missing here.", attachments=[PHOTO])
        print(reply.status, "-", reply.text)

    async with opened() as world:  # another time, another process
        [first, *_] = await world.chat("shelf").messages()
        [photo] = first["attachments"]
        print(photo["type"], photo["mime"], photo["bytes_ref"][:14])
        print(world.blobs.get(photo["bytes_ref"]) == PHOTO)
        try:
            await world.chat("shelf").send("And this?", attachments=[b"<svg/>"])
        except InvalidValue as error:
            print(error.code, "-", error.message)


asyncio.run(main())
