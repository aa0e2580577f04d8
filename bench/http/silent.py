"""Silent connections: what authenticated calls cost while a process holds 2,000 connections that send nothing, and
opens those again that the server ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

from bench.http.client import Connection
from bench.http.server import Server, serving

__all__ = ["run"]

SILENT = 2000
ROUNDS, CALLS, PAUSE_S = 3, 200, 0.01
PATH = "/api/journal/head?limit=1"


async def _calls_ms(server: Server) -> tuple[list[float], list[float]]:
    """How long calls took: on one connection, and on a new connection each."""
    kept, fresh = [], []
    async with Connection(server) as connection:
        for _ in range(CALLS):
            begun = time.perf_counter()
            await connection.get_json(PATH)
            kept.append((time.perf_counter() - begun) * 1e3)
            begun = time.perf_counter()
            async with Connection(server) as new:
                await new.get_json(PATH)
            fresh.append((time.perf_counter() - begun) * 1e3)
            await asyncio.sleep(PAUSE_S)
    return kept, fresh


@contextmanager
def _silent(server: Server) -> Iterator[None]:
    """Holds `SILENT` connections in a process of its own while the block runs."""
    command = [sys.executable, "-m", "bench.http.silence", str(server.port), str(SILENT)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - this interpreter
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise SystemExit("The silent connections were not opened.")
        yield
    finally:
        process.communicate("\n")


def _p99(values: list[float]) -> float:
    return quantiles(values, n=100)[98]


def run() -> list[tuple[str, str, str]]:
    alone: tuple[list[float], list[float]] = ([], [])
    beside: tuple[list[float], list[float]] = ([], [])
    with tempfile.TemporaryDirectory() as place, serving(Path(place)) as server:
        asyncio.run(_calls_ms(server))
        for _ in range(ROUNDS):
            for found, more in zip(alone, asyncio.run(_calls_ms(server)), strict=True):
                found += more
            with _silent(server):
                for found, more in zip(beside, asyncio.run(_calls_ms(server)), strict=True):
                    found += more
    lines = []
    for what, without, with_them in zip(("one connection", "a new connection each"), alone, beside, strict=True):
        for name, figure in (("p99", _p99), ("median", median)):
            lines += [
                (f"{name} of a call, {what}", f"{figure(without):,.1f} ms", "1.00"),
                (
                    f"{name} of a call, {what}, {SILENT:,} silent",
                    f"{figure(with_them):,.1f} ms",
                    f"{figure(with_them) / figure(without):.2f}",
                ),
            ]
    return lines
