"""A recorded world of four chats that grow long: what one more turn, and opening, cost as the history grows."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.recorded import chat_unit, host_of, put_tools, record, say
from demiurge.stores import SqliteStore
from demiurge.values.refs import Ref
from demiurge.world.host import Host

SIZES = (1_000, 10_000, 100_000)
FULL = (*SIZES, 1_000_000)
CHATS, TURNS, AT_ONCE = 4, 40, 8
WARM, TOGETHER = 20, 20


class Grown(NamedTuple):
    """`turn_ms` is CPU, the others wall time; `bytes_per_turn` is of everything on disk."""

    records: int
    open_ms: float
    answer_ms: float
    turn_ms: float
    bytes_per_turn: float


async def _opened(folder: Path) -> tuple[float, float, float]:
    """Milliseconds until the world is open and a chat's state is known, until its next answer, and of CPU per turn."""
    begun = time.perf_counter()
    with SqliteStore.open(folder) as store:
        host = host_of(store)
        await host.start()
        cell = host.state(chat_unit(0)).cell
        opened = time.perf_counter()
        assert cell is not None
        tools, turn = await put_tools(host), cell["last_request_id"]
        await say(host, 0, turn + 1, tools, asks=False)
        answered = time.perf_counter()
        cpu = time.process_time()
        for number in range(2, TURNS + 2):
            await say(host, 0, turn + number, tools, asks=False)
        cpu = time.process_time() - cpu
        await host.close()
    return (opened - begun) * 1e3, (answered - begun) * 1e3, cpu / TURNS * 1e3


def grow(folder: Path, sizes: tuple[int, ...]) -> list[Grown]:
    """Record until the world has each of `sizes` records, and open it there."""
    with SqliteStore.create(folder, "bench"):
        pass
    found = []
    for size in (min(sizes) // 2, *sizes):
        with SqliteStore.open(folder) as store:
            asyncio.run(record(store, size, CHATS))
        open_ms, answer_ms, turn_ms = asyncio.run(_opened(folder))
        with SqliteStore.open(folder) as store:
            heads = list(store.heads())
            host = host_of(store)
            cells = [host.state(chat_unit(chat)).cell for chat in range(CHATS)]
        turns = sum(cell["last_request_id"] for cell in cells if cell is not None)
        stored = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        records = sum(head.next_seq for head in heads)
        found.append(Grown(records, open_ms, answer_ms, turn_ms, stored / turns))
    return found[1:]  # the first one warmed this process up


async def _call_us(folder: Path, together: int) -> float:
    """CPU microseconds of one more tool call in a turn: proposed, decided, attempted, run, received and answered. So
    many chats go on together. Each turn is the first of its chat, so that no history is read again."""
    cpu = {}
    for at_once in (1, AT_ONCE):
        with SqliteStore.create(folder / f"{together}-{at_once}", "bench") as store:
            host = host_of(store, at_once)
            await host.start()
            tools = await put_tools(host)

            async def one(chat: int, host: Host = host, tools: Ref = tools) -> None:
                value = {"chat_id": chat_unit(chat).key, "title": "t", "created_at_ms": 1}
                await host.submit("demiurge/ChatCreated@1", value)
                await say(host, chat, 1, tools, asks=True)

            begun = 0.0
            for first in range(0, WARM + TURNS, together):
                if first == WARM:
                    begun = time.process_time()
                await asyncio.gather(*(one(chat) for chat in range(first, first + together)))
            cpu[at_once] = (time.process_time() - begun) / TURNS
            await host.close()
    return (cpu[AT_ONCE] - cpu[1]) / (AT_ONCE - 1) * 1e6


def run(*, full: bool) -> list[tuple[str, str, str]]:
    with tempfile.TemporaryDirectory() as place:
        grown = grow(Path(place) / "grown", FULL if full else SIZES)
        calls = {together: asyncio.run(_call_us(Path(place), together)) for together in (1, TOGETHER)}
    first = grown[0]
    lines = []
    for name, unit, field in (
        ("opened, a chat's state read", "ms", "open_ms"),
        ("opened, first answer durable", "ms", "answer_ms"),
        ("one more turn", "ms CPU", "turn_ms"),
        ("on disk per turn", "bytes", "bytes_per_turn"),
    ):
        for world in grown:
            value = getattr(world, field)
            ratio = value / getattr(first, field)
            lines.append((f"{name}, {world.records:,} records", f"{value:,.1f} {unit}", f"{ratio:.2f}"))
    return [
        *lines,
        ("one durable governed tool call of a chat", f"{calls[1]:,.0f} us CPU", "1.00"),
        (f"the same, {TOGETHER} chats together", f"{calls[TOGETHER]:,.0f} us CPU", f"{calls[TOGETHER] / calls[1]:.2f}"),
    ]
