import asyncio

from demiurge import ToolContext, ToolEffect, World, tool
from demiurge.models.scripted import ScriptedModel, call


class Pool:
    """Stands for a pool of database connections."""

    async def fetch(self, part: str) -> int:
        return {"bolt": 120, "nut": 80}[part]


@tool(effect=ToolEffect.READ_ONLY, capabilities=(Pool,))
async def stock_count(part: str, context: ToolContext) -> int:
    """How many pieces of a part are in stock."""
    pool = context.resources.get(Pool)
    assert pool is not None
    return await pool.fetch(part)


async def main() -> None:
    model = ScriptedModel([call("stock_count", part="bolt"), "There are 120 bolts."])
    async with World.open(
        "stock.world",
        [stock_count],
        model=model,
        temperature=0.2,
        max_tokens=200,
        window_turns=8,
        resources={Pool: Pool()},
    ) as world:
        reply = await world.chat().send("How many bolts are in stock?")
        print(reply.status, "-", reply.text)
        print("asked with:", model.last.temperature, model.last.max_tokens)
        print("recorded as:", *world.choice)
        print("without a chat:", (await world.call("stock_count", {"part": "nut"})).content)

    async with World.open("stock.world") as world:
        print("replayed without any of them:", (await world.replay())["ok"])


asyncio.run(main())
