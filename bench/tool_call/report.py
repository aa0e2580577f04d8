"""The whole comparison, printed as it goes."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import bench.tool_call
from bench.tool_call import environment
from bench.tool_call.contender import CALLS, HISTORY, OURS, PEERS, STEPS
from bench.tool_call.first_import import first_imports
from bench.tool_call.race import ROUNDS, race
from bench.tool_call.table import comparison, table

__all__ = ["run"]


def run() -> None:
    print((bench.tool_call.__doc__ or "").strip())
    pythons = _pythons()
    print(f"\nPython {platform.python_version()}, {platform.machine()}, {_pin()}; load {_load()}")
    print(f"µs per call: median (p95) of the means of {ROUNDS} batches; times: CPU / CPU of the first line")
    print("in the call: " + "\n             ".join(f"{letter} {text}" for letter, text in STEPS.items()))
    calls = race(CALLS, pythons)
    by_hand = calls[0].series
    for level in ("bare", "governed"):
        print("\n" + table(level, [result for result in calls if result.line.level == level], by_hand))
    print("\n" + comparison(calls))
    history = race(HISTORY, pythons)
    print("\n" + table("history", history, by_hand))
    for result in history:
        grown = [series.bytes_per_call for series in result.series.values() if series.bytes_per_call is not None]
        if grown and result.line.history >= 100_000:
            print(f"memory: {grown[0]:,.0f} bytes per call over {result.line.history:,} calls")
    print("\nfirst import, ms: median of 5 fresh processes, without the interpreter's own start")
    for owner, statement, taken in first_imports(pythons):
        print(f"{owner:<15} {statement:<42} {taken if isinstance(taken, str) else f'{taken * 1000:.0f}':>8}")
    print(f"\nload {_load()} at the end")


def _pythons() -> dict[str, Path | str]:
    """Interpreter by owner, or the reason why there is none."""
    pythons: dict[str, Path | str] = {OURS: Path(sys.executable)}
    for peer in PEERS:
        try:
            pythons[peer.name] = environment.interpreter(peer)
        except environment.Missing as reason:
            pythons[peer.name] = str(reason)
    return pythons


def _pin() -> str:
    """Keeps this process, and so all it starts, on one core."""
    if not hasattr(os, "sched_setaffinity"):
        return "not pinned"
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return f"pinned to core {core}"


def _load() -> str:
    return " ".join(f"{load:.1f}" for load in os.getloadavg())
