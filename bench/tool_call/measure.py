"""One way to call a tool, timed in a process of its own: `python -P measure.py FILE ENTRY`.

Needs only the standard library and what FILE imports. FILE names a PACKAGE and ENTRIES: functions
`async (handler, history) -> call`, where `call()` (or what it gives, awaited) is one call's text for the model.
The first line out is `{"version"}`; then each line of standard input, the arguments of `Contender.answer` as JSON, is
answered with one line of JSON.

The calls run inside one event loop. Garbage collection stays on. Every set-up is warmed with WARM_UP calls.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import inspect
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WARM_UP, SETTLING = 200, 20
EXPECTED = "5"


def load(file: str) -> Any:
    """The module in `file`, under a name that can't hide the package it measures."""
    spec = importlib.util.spec_from_file_location("contender", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["contender"] = module
    spec.loader.exec_module(module)
    return module


async def batch(call: Callable[[], Any], calls: int) -> tuple[float, float]:
    """Mean microseconds per call, wall and CPU, over `calls` of them; as many, at most SETTLING, go before untimed."""
    waits = inspect.isawaitable(first := call())
    if waits:
        await first
    for _ in range(min(calls, SETTLING) - 1):
        await call() if waits else call()
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    if waits:
        for _ in range(calls):
            await call()
    else:
        for _ in range(calls):
            call()
    cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
    return wall / calls / 1000, cpu / calls / 1000


def resident_bytes() -> int | None:
    """This process's resident memory, where the system says."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


class Contender:
    """The calls of one entry, made when they are first asked for."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._made: dict[tuple[str, int], Callable[[], Any]] = {}
        self._warm: set[str] = set()

    async def answer(self, handler: str, history: int, calls: int, fresh: bool) -> dict[str, Any]:
        """Means of one batch, after `history` earlier calls; `fresh` sets everything up again first."""
        grown = None
        if handler not in self._warm:
            call = await self._make(handler, 0)
            text = call()
            text = await text if inspect.isawaitable(text) else text
            assert EXPECTED in text, f"the answer was {text!r}"
            await batch(call, WARM_UP)
            self._warm.add(handler)
        if fresh or (handler, history) not in self._made:
            before = resident_bytes()
            self._made[handler, history] = await self._make(handler, history)
            after = resident_bytes()
            if history and before is not None and after is not None:
                grown = (after - before) / history
        wall, cpu = await batch(self._made[handler, history], calls)
        return {"wall_us": wall, "cpu_us": cpu, "bytes_per_call": grown}


async def main(file: str, entry: str) -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    module = load(file)
    print(json.dumps({"version": importlib.metadata.version(module.PACKAGE)}), file=answers, flush=True)
    contender = Contender(module.ENTRIES[entry])
    for line in sys.stdin:  # nothing else runs in this loop meanwhile
        print(json.dumps(await contender.answer(**json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
