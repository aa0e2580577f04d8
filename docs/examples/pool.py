import asyncio
import sqlite3
from queue import SimpleQueue

from demiurge import ToolContext, ToolEffect, ToolResult, World, tool
from demiurge.testing import ScriptedModel, call


class Pool:
    """Two connections to the shop's database; a tool borrows one for a call."""

    def __init__(self, file: str) -> None:
        self._free: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        for _ in range(2):
            self._free.put(sqlite3.connect(file, check_same_thread=False))

    def fetch(self, query: str, *values: object) -> list[tuple[int]]:
        connection = self._free.get()
        try:
            return connection.execute(query, values).fetchall()
        finally:
            self._free.put(connection)


@tool(effect=ToolEffect.READ_ONLY, capabilities=(Pool,))
def stock_count(part: str, context: ToolContext) -> ToolResult[int]:
    """Count the pieces of a part that are in stock."""
    pool = context.resources.get(Pool)
    assert pool is not None
    rows = pool.fetch("SELECT pieces FROM stock WHERE part = ?", part)
    return ToolResult(message=f"{part}: {rows[0][0] if rows else 0} pieces")


async def main() -> None:
    with sqlite3.connect("shop.db") as database:
        database.execute("CREATE TABLE IF NOT EXISTS stock (part TEXT PRIMARY KEY, pieces INTEGER)")
        database.execute("INSERT OR REPLACE INTO stock VALUES ('bolt', 120)")
    model = ScriptedModel([call("stock_count", part="bolt"), "There are 120 bolts."])
    async with World.open("shop.world", tools=[stock_count], resources={Pool: Pool("shop.db")}, model=model) as world:
        reply = await world.chat().send("How many bolts are in stock?")
        print(reply.tool_calls[0].result, "-", reply.text)


asyncio.run(main())
