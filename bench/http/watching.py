"""Watchers of the journal over server-sent events: what they get, and what they cost who posts, and the server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

from bench.http.client import Connection
from bench.http.server import Server, serving

__all__ = ["run"]

WATCHERS = 200
EVENTS, PAUSE_S = 300, 0.05
"""So many events are posted, one each so many seconds."""


async def _posted_ms(server: Server) -> list[float]:
    """How long each of the events took to post."""
    taken = []
    async with Connection(server) as connection:
        for number in range(EVENTS):
            begun = time.perf_counter()
            await connection.post("watched", number)
            taken.append((time.perf_counter() - begun) * 1e3)
            await asyncio.sleep(max(0.0, PAUSE_S - taken[-1] / 1e3))
    return taken


async def _length(server: Server) -> int:
    async with Connection(server) as connection:
        found: int = (await connection.get_json("/api/journal/head?limit=1"))["length"]
        return found


def _p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100)[98]


def run() -> list[tuple[str, str, str]]:
    with tempfile.TemporaryDirectory() as place, serving(Path(place)) as server:
        asyncio.run(_posted_ms(server))
        alone = asyncio.run(_posted_ms(server))
        memory_kb, first = server.memory_kb(), asyncio.run(_length(server)) + 1
        command = [sys.executable, "-m", "bench.http.watchers"]
        process = subprocess.Popen(  # noqa: S603 - this interpreter
            [*command, str(server.port), server.token, str(WATCHERS), str(first)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise SystemExit("The watchers did not start.")
        watched = asyncio.run(_posted_ms(server))
        said, _ = process.communicate(f"{asyncio.run(_length(server))}\n")
        grown_kb = server.memory_kb() - memory_kb
    found = json.loads(said)
    delays = found["delays_ms"]
    return [
        ("p99 of a post, nobody watches", f"{_p99(alone):,.1f} ms", "1.00"),
        (f"p99 of a post, {WATCHERS} watch", f"{_p99(watched):,.1f} ms", f"{_p99(watched) / _p99(alone):.2f}"),
        (f"records that {WATCHERS} watchers lost or had twice, of {len(delays):,}", f"{found['wrong']}", ""),
        ("p99 from a record's stamp to its watcher", f"{_p99(delays):,.1f} ms", ""),
        ("memory of the server for each watcher", f"{grown_kb / WATCHERS:,.0f} kB", ""),
    ]
