"""A process to be killed while it takes snapshots: `snapshot_child.py FOLDER POKES`. It says what was acknowledged."""

from __future__ import annotations

import asyncio
import os
import sys

from tests.world.small_world import A, EchoAdapter, poke_event, running_host, small_manifest

from demiurge.errors import NotFound
from demiurge.stores import SqliteStore

WIDE = "w" * 20_000
"""Makes a cell, and so its snapshot, too large to be kept inside the database."""


async def work(folder: str, pokes: int) -> None:
    try:
        store = SqliteStore.open(folder)
    except NotFound:
        store = SqliteStore.create(folder, "world_1")
    with store:
        async with running_host(store, small_manifest(), [EchoAdapter()], tail_bytes=1) as host:
            os.write(1, b"open\n")
            for _ in range(pokes):
                cell = host.state(A).cell
                number = cell["n"] if cell is not None else 0
                await host.submit("ex/Ev@1", poke_event(f"{number}:{WIDE}"))
                os.write(1, b"took %d\n" % (number + 1))
            await host.submit("ex/Ev@1", poke_event("ask:x,y"))
            await host.settle()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))
