"""Watchers of the journal in a process of their own: `python -m bench.http.watchers PORT TOKEN COUNT FIRST`.

Says `ready` once all watch, reads the position of the last record from its input, and prints what they got: how many
records were lost or came twice, and how long each took from its stamp to its watcher.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from contextlib import AsyncExitStack

from bench.http.client import Connection
from bench.http.server import Server

__all__: list[str] = []

RECORD = re.compile(rb"id: (\d+)\n.*?\"time_ns\":(\d+)", re.DOTALL)


async def _watch(connection: Connection, last: asyncio.Future[int]) -> tuple[list[int], list[float]]:
    """Returns the positions of the records that came, and their delays in milliseconds."""
    seen: list[int] = []
    delays = []
    while not (last.done() and seen and seen[-1] >= last.result()):
        found = RECORD.search(await connection.reader.readuntil(b"\n\n"))
        if found is not None:
            seen.append(int(found[1]))
            delays.append((time.time_ns() - int(found[2])) / 1e6)
    return seen, delays


async def main(port: int, token: str, count: int, first: int) -> None:
    server = Server(port, "", token, 0)
    async with AsyncExitStack() as stack:
        watchers = [await stack.enter_async_context(Connection(server)) for _ in range(count)]
        for watcher in watchers:
            await watcher.get(f"/api/journal/stream?from={first}")
        print("ready", flush=True)
        last: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        watching = asyncio.gather(*(_watch(watcher, last) for watcher in watchers))
        last.set_result(int(await asyncio.to_thread(sys.stdin.readline)))
        found = await watching
    wanted = range(first, last.result() + 1)
    wrong = sum(len(set(wanted) ^ set(seen)) + len(seen) - len(set(seen)) for seen, _ in found)
    print(json.dumps({"wrong": wrong, "delays_ms": sorted(delay for _, delays in found for delay in delays)}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
