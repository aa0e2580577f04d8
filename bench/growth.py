"""Worlds of many chats, nearly all idle: the memory of the process that made them, and what a turn and the list of
waiting approvals cost in it."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.recorded import chat_unit, host_of, put_tools, say
from demiurge import World
from demiurge.bootstrap.backend.waiting_calls import waiting_calls
from demiurge.stores import SqliteStore
from demiurge.values.clock import SystemClock

SIZES = (1_000, 10_000, 100_000)
AT_ONCE = 200
"""So many chats are made together."""

WAITING = 10
"""In so many chats a call waits for a person."""

TURNS, ROUNDS, LOOKS, OPENED = 20, 5, 5, 5


class Grown(NamedTuple):
    """`turn_ms` is CPU, the other times are wall time; each is the shortest of some rounds."""

    chats: int
    memory_mib: float
    turn_ms: float
    listed_ms: float
    opened_ms: float


def _memory_mib() -> float:
    gc.collect()
    with open("/proc/self/status", encoding="ascii") as status:
        kib = next(line.split()[1] for line in status if line.startswith("VmRSS:"))
    return int(kib) / 1024


async def _make(folder: Path, chats: int) -> dict[str, float]:
    """Make a world with so many chats, turn to each of them once, and measure in the same process."""
    with SqliteStore.create(folder, "bench") as store:
        host = host_of(store, asks_a_person=True)
        await host.start()
        tools = await put_tools(host)

        async def one(chat: int) -> None:
            value = {"chat_id": chat_unit(chat).key, "title": f"Chat {chat}", "created_at_ms": 1}
            await host.submit("demiurge/ChatCreated@1", value)
            if chat < WAITING:
                await say(host, chat, 1, tools, asks=True)

        for first in range(0, chats, AT_ONCE):
            await asyncio.gather(*(one(chat) for chat in range(first, first + AT_ONCE)))
        memory = _memory_mib()
        listed = []
        for _ in range(LOOKS):
            begun = time.perf_counter()
            assert len(waiting_calls(host, store, None, SystemClock().now_ns())) == WAITING
            listed.append(time.perf_counter() - begun)
        talker = chats // 2
        cpu = []
        for first in range(1, ROUNDS * TURNS, TURNS):
            begun = time.process_time()
            for turn in range(first, first + TURNS):
                await say(host, talker, turn, tools, asks=False)
                host.approvals(chat_unit(talker))  # as a chat does for each reply
            cpu.append((time.process_time() - begun) / TURNS)
        await host.close()
    return {"memory_mib": memory, "listed_ms": min(listed) * 1e3, "turn_ms": min(cpu) * 1e3}


async def _opened(folder: Path) -> dict[str, float]:
    """Until a process that opens the world has listed what waits."""
    taken = []
    for _ in range(OPENED):
        begun = time.perf_counter()
        async with World.open(folder, environment={}) as world:
            assert len(await world.approvals()) == WAITING
            taken.append(time.perf_counter() - begun)
    return {"opened_ms": min(taken) * 1e3}


def grow(sizes: tuple[int, ...] = SIZES) -> list[Grown]:
    """Each world is made by a process of its own, and opened by a second one."""
    found = []
    with tempfile.TemporaryDirectory() as place:
        for chats in sizes:
            numbers: dict[str, float] = {}
            for step in ("make", "open"):
                command = [sys.executable, "-m", "bench.growth", step, str(Path(place) / str(chats)), str(chats)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
                numbers |= json.loads(done.stdout)
            found.append(Grown(chats, **numbers))
    return found


def run() -> list[tuple[str, str, str]]:
    worlds = grow()
    lines = []
    for name, unit, field in (
        ("memory of the process that turned to each chat", "MiB", "memory_mib"),
        ("one turn", "ms CPU", "turn_ms"),
        (f"{WAITING} waiting approvals listed by the owner", "ms", "listed_ms"),
        (f"opened, {WAITING} waiting approvals listed", "ms", "opened_ms"),
    ):
        for world in worlds:
            value = getattr(world, field)
            ratio = value / getattr(worlds[0], field)
            lines.append((f"{name}, {world.chats:,} chats", f"{value:,.2f} {unit}", f"{ratio:.2f}"))
    return lines


def main(step: str, folder: str, chats: str) -> None:
    """One step in a process of its own: `make` a world, or `open` it."""
    made = _make(Path(folder), int(chats)) if step == "make" else _opened(Path(folder))
    print(json.dumps(asyncio.run(made)))


if __name__ == "__main__":
    if sys.argv[1:]:
        main(*sys.argv[1:])
    else:
        for what, figure, ratio in run():
            print(f"{what:<66} {figure:>18}  {ratio:>6}")
