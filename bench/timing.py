"""Timing: CPU time of batches, the median of several, after a warm-up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable


def cpu_us(work: Callable[[], object], *, calls: int, batches: int = 9) -> float:
    """Microseconds of CPU per call: the median over `batches` of `calls` each."""
    figures = []
    for _ in range(batches + 1):
        begun = time.process_time_ns()
        for _ in range(calls):
            work()
        figures.append((time.process_time_ns() - begun) / calls / 1000)
    return statistics.median(figures[1:])


async def cpu_us_async(work: Callable[[], Awaitable[object]], *, calls: int, batches: int = 9) -> float:
    """The same for a coroutine function, inside one running loop."""
    figures = []
    for _ in range(batches + 1):
        begun = time.process_time_ns()
        for _ in range(calls):
            await work()
        figures.append((time.process_time_ns() - begun) / calls / 1000)
    return statistics.median(figures[1:])


def wall_s(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun
