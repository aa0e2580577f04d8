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
from statistics import median
from typing import NamedTuple

from bench.recorded import chat_unit, host_of, put_tools, say
from demiurge import World
from demiurge.bootstrap.backend.waiting_calls import waiting_calls
from demiurge.stores import SqliteStore
from demiurge.values.clock import SystemClock
from demiurge.world.host import Host

SIZES = (1_000, 10_000, 100_000)
AT_ONCE = 200
"""So many chats are made together."""

WAITING = 10
"""In so many chats a call waits for a person."""

TURNS, ROUNDS, LOOKS, OPENED = 5, 40, 50, 10


class Grown(NamedTuple):
    """A world of `chats` chats. `turn_ms` is CPU, the middle of many rounds; `turn_ratio` is the middle of what each
    round is to one in a world of the smallest size, measured in turns because the machine is not the same at any two
    times. The others are CPU as well, the least of some."""

    chats: int
    memory_mib: float
    turn_ms: float
    turn_ratio: float
    listed_ms: float
    opened_ms: float


def _memory_mib() -> float:
    gc.collect()
    with open("/proc/self/status", encoding="ascii") as status:
        kib = next(line.split()[1] for line in status if line.startswith("VmRSS:"))
    return int(kib) / 1024


async def _made(store: SqliteStore, chats: int) -> Host:
    """A host that has made so many chats, and so turned to each of them once."""
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
    return host


async def _turn_ms(host: Host, chat: int, first: int) -> float:
    """CPU of one turn, with the look at what waits that a chat takes for each reply."""
    tools = await put_tools(host)
    begun = time.process_time()
    for turn in range(first, first + TURNS):
        await say(host, chat, turn, tools, asks=False)
        host.approvals(chat_unit(chat))
    return (time.process_time() - begun) / TURNS * 1e3


async def _make(folder: Path, chats: int) -> dict[str, float]:
    """Make a world and measure in the same process."""
    with SqliteStore.create(folder, "bench") as store, tempfile.TemporaryDirectory() as beside:
        host = await _made(store, chats)
        memory = _memory_mib()
        listed = []
        for _ in range(LOOKS):
            begun = time.process_time()
            assert len(waiting_calls(host, store, None, SystemClock().now_ns())) == WAITING
            listed.append(time.process_time() - begun)
        with SqliteStore.create(beside, "few") as few:
            other = await _made(few, min(SIZES))
            talker, first = min(SIZES) // 2, range(1, ROUNDS * TURNS, TURNS)
            both = [(await _turn_ms(host, talker, turn), await _turn_ms(other, talker, turn)) for turn in first]
            await other.close()
        await host.close()
    return {
        "memory_mib": memory,
        "listed_ms": min(listed) * 1e3,
        "turn_ms": median(turn for turn, _ in both),
        "turn_ratio": median(turn / few_turn for turn, few_turn in both),
    }


async def _opened(folder: Path) -> dict[str, float]:
    """Until a process that opens the world has listed what waits."""
    taken = []
    for _ in range(OPENED):
        begun = time.process_time()
        async with World.open(folder, environment={}) as world:
            assert len(await world.approvals()) == WAITING
            taken.append(time.process_time() - begun)
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
    few = worlds[0]
    figures = [
        ("memory of the process that turned to each chat", "MiB", [(w.memory_mib, few.memory_mib) for w in worlds]),
        ("one turn", "ms CPU", [(w.turn_ms, w.turn_ms / w.turn_ratio) for w in worlds]),
        (f"{WAITING} waiting approvals listed by the owner", "ms CPU", [(w.listed_ms, few.listed_ms) for w in worlds]),
        (f"opened, {WAITING} waiting approvals listed", "ms CPU", [(w.opened_ms, few.opened_ms) for w in worlds]),
    ]
    return [
        (f"{name}, {world.chats:,} chats", f"{value:,.2f} {unit}", f"{value / compared:.2f}")
        for name, unit, values in figures
        for world, (value, compared) in zip(worlds, values, strict=True)
    ]


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
