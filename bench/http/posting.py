"""Events that are posted over HTTP, and the same events through `World.submit` in a process without a server."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.http.client import SCHEMA, Connection, chat_created
from bench.http.server import Server, serving
from demiurge import World

__all__ = ["run"]

CALLERS = (1, 50)
EVENTS = 200
"""So many events in all are posted in a round."""

ROUNDS = 25

Post = Callable[[str, int], Awaitable[object]]


class Round(NamedTuple):
    """Seconds of wall time and of CPU of one round: in process, and over HTTP (the CPU of the server alone)."""

    submit_s: float
    submit_cpu_s: float
    post_s: float
    post_cpu_s: float


async def _timed(posts: list[Post], cpu_s: Callable[[], float]) -> tuple[float, float]:
    """How long the callers take together; each waits for each of its events, in a chat of its own."""

    async def one(caller: int, post: Post) -> None:
        for number in range(EVENTS // len(posts)):
            await post(f"chat-{caller}", number)

    begun, used = time.perf_counter(), cpu_s()
    await asyncio.gather(*(one(caller, post) for caller, post in enumerate(posts)))
    return time.perf_counter() - begun, cpu_s() - used


async def _rounds(server: Server, folder: Path, callers: int) -> list[Round]:
    """The two ways take turns, so that whatever else the machine does hits both alike."""
    async with World.open(folder, environment={}) as world, AsyncExitStack() as stack:

        async def submit(chat: str, number: int) -> None:
            await world.submit(SCHEMA, chat_created(chat, number))

        connections = [await stack.enter_async_context(Connection(server)) for _ in range(callers)]
        posts: list[Post] = [connection.post for connection in connections]
        found = []
        for _ in range(ROUNDS + 1):
            submitted = await _timed([submit] * callers, time.process_time)
            found.append(Round(*submitted, *await _timed(posts, server.cpu_s)))
    return found[1:]  # without the first round, in which the chats are made


def run() -> list[tuple[str, str, str]]:
    lines = []
    for callers in CALLERS:
        with tempfile.TemporaryDirectory() as place, serving(Path(place)) as server:
            rounds = asyncio.run(_rounds(server, Path(place) / "in-process", callers))
        who = f"{callers} caller{'s' if callers > 1 else ', who waits'}"
        ways = [
            ("World.submit", [each.submit_s for each in rounds], [each.submit_cpu_s for each in rounds]),
            ("POST /api/events", [each.post_s for each in rounds], [each.post_cpu_s for each in rounds]),
        ]
        for name, wall_s, cpu_s in ways:
            rate = median(each.submit_s / taken for each, taken in zip(rounds, wall_s, strict=True))
            cost = median(used / each.submit_cpu_s for each, used in zip(rounds, cpu_s, strict=True))
            lines += [
                (f"{name}, {who}", f"{EVENTS / median(wall_s):,.0f} events/s", f"{rate:.2f}"),
                (f"{name}, {who}: CPU of an event", f"{median(cpu_s) / EVENTS * 1e6:,.0f} us", f"{cost:.2f}"),
            ]
    return lines
