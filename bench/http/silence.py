"""Connections that send nothing, in a process of their own: `python -m bench.http.silence PORT COUNT`.

Says `ready` once it has opened them all. Opens each again `AGAIN_S` after the server ended it, until a line comes at
its input.
"""

from __future__ import annotations

import asyncio
import resource
import sys

__all__: list[str] = []

AGAIN_S = 10.0


async def _hold(port: int, opened: asyncio.Semaphore) -> None:
    """Keeps one connection open: some time after the server ended it, opens the next one."""
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        opened.release()
        try:
            await reader.read()
        except ConnectionError:
            pass
        finally:
            writer.close()
        await asyncio.sleep(AGAIN_S)


async def main(port: int, count: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    opened = asyncio.Semaphore(0)
    holding = []
    for _ in range(count):
        holding.append(asyncio.create_task(_hold(port, opened)))
        await opened.acquire()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
