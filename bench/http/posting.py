"""Events that are posted over HTTP, to the same events through `World.submit` in a process without a server."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

from bench.http.client import SCHEMA, Connection, chat_created
from bench.http.server import Server, serving
from demiurge import World

__all__ = ["run"]

CALLERS = (1, 50)
EVENTS = 600
"""So many events in all are posted in a round."""

ROUNDS = 9

Post = Callable[[str, int], Awaitable[object]]


async def _wall_s(posts: list[Post]) -> float:
    """How long the callers take together; each waits for each of its events, in a chat of its own."""

    async def one(caller: int, post: Post) -> None:
        for number in range(EVENTS // len(posts)):
            await post(f"chat-{caller}", number)

    begun = time.perf_counter()
    await asyncio.gather(*(one(caller, post) for caller, post in enumerate(posts)))
    return time.perf_counter() - begun


async def _race(server: Server, folder: Path, callers: int) -> tuple[list[float], list[float]]:
    """Seconds of each round through `World.submit` and over HTTP. The two take turns, so that whatever else the machine
    does hits both alike."""
    submitted, posted = [], []
    async with World.open(folder, environment={}) as world, AsyncExitStack() as stack:

        async def submit(chat: str, number: int) -> None:
            await world.submit(SCHEMA, chat_created(chat, number))

        connections = [await stack.enter_async_context(Connection(server)) for _ in range(callers)]
        for _ in range(ROUNDS + 1):
            submitted.append(await _wall_s([submit] * callers))
            posted.append(await _wall_s([connection.post for connection in connections]))
    return submitted[1:], posted[1:]  # without the first round, in which the chats are made


def run() -> list[tuple[str, str, str]]:
    lines = []
    for callers in CALLERS:
        with tempfile.TemporaryDirectory() as place, serving(Path(place)) as server:
            submitted, posted = asyncio.run(_race(server, Path(place) / "in-process", callers))
        ratio = median(ours / theirs for ours, theirs in zip(submitted, posted, strict=True))
        who = f"{callers} caller{'s' if callers > 1 else ', who waits'}"
        lines += [
            (f"World.submit, {who}", f"{EVENTS / median(submitted):,.0f} events/s", "1.00"),
            (f"POST /api/events, {who}", f"{EVENTS / median(posted):,.0f} events/s", f"{ratio:.2f}"),
        ]
    return lines
