"""CPU time: a turn with one tool call and a durable store, one durable step, a governed call, the first import.
Contestants take turns, so whatever else the machine does hits all alike; compare figures of one run only."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bench.compare.contest import CONTESTANTS, Failed, outside, run
from bench.compare.contestant import TURNS
from bench.steps import race as step_race
from bench.tool_call.contender import CALLS, OURS, PEERS
from bench.tool_call.environment import Missing, interpreter
from bench.tool_call.race import ENVIRONMENT, race

__all__ = ["calls", "imports", "steps", "turns"]

ROUNDS = 5
Rows = Iterator[tuple[str, ...]]

_IMPORT = "import time; begun = time.process_time(); {}; print(time.process_time() - begun)"
_GOVERNED = (OURS, "pydantic_ai", "agt")


def turns() -> tuple[tuple[str, ...], Rows]:
    return ("", "ms, a fresh session", "times", f"ms, the last of {TURNS} turns of a session", "times"), _turns()


def _turns() -> Rows:
    base: tuple[float, float] | None = None
    for contestant in filter(lambda each: each.runs_agents, CONTESTANTS):
        with tempfile.TemporaryDirectory() as folder, outside() as world:
            try:
                found = run(contestant, "turns", Path(folder), world.url)
            except (Failed, Missing) as reason:
                yield contestant.title, f"not tried: {reason}"
                continue
        fresh, late = statistics.median(found["fresh"]), statistics.median(found["long"][-3:])
        base = base or (fresh, late)
        yield contestant.title, f"{fresh:,.1f}", f"{fresh / base[0]:.2f}", f"{late:,.1f}", f"{late / base[1]:.2f}"


def steps() -> tuple[tuple[str, ...], Rows]:
    return ("", "a step", "times, CPU"), iter(step_race.run())


def calls() -> tuple[tuple[str, ...], Rows]:
    return ("", "entry point", "µs", "times"), _calls()


def _calls() -> Rows:
    lines = [line for line in CALLS if line.level == "governed" and line.owner in _GOVERNED]
    pythons: dict[str, Path | str] = {OURS: Path(sys.executable)}
    for peer in PEERS:
        if peer.name in _GOVERNED:
            try:
                pythons[peer.name] = interpreter(peer)
            except Missing as reason:
                pythons[peer.name] = str(reason)
    results = race(lines, pythons)
    base = results[0].series["async def"].cpu_us
    for result in results:
        if result.failure:
            yield result.line.owner, result.line.what, f"not tried: {result.failure}", ""
        else:
            cpu = result.series["async def"].cpu_us
            yield result.line.owner, result.line.what, f"{cpu:.1f}", f"{cpu / base:.2f}"


def imports() -> tuple[tuple[str, ...], Rows]:
    return ("", "import", "CPU ms", "times"), _imports()


def _imports() -> Rows:
    lines = [(contestant, statement) for contestant in CONTESTANTS for statement in contestant.imports]
    taken: dict[str, list[float]] = {statement: [] for _, statement in lines}
    for number in range(ROUNDS + 1):
        for contestant, statement in lines:
            with suppress(Missing):
                seconds = _import_s(contestant.python, statement)
                if number:  # the first round writes the bytecode
                    taken[statement].append(seconds * 1000)
    base = statistics.median(taken[lines[0][1]])
    for contestant, statement in lines:
        found = statistics.median(taken[statement]) if taken[statement] else None
        figures = ("not tried", "") if found is None else (f"{found:,.0f}", f"{found / base:.1f}")
        yield contestant.title, f"`{statement}`", *figures


def _import_s(python: str, statement: str) -> float:
    command = [python, "-P", "-c", _IMPORT.format(statement)]
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    return float(done.stdout.strip().splitlines()[-1])
