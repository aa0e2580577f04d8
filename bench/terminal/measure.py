"""CPU of one turn of many calls: of `demiurge chat -m` and of the same over `World`, each in a process of its own.

From each figure that of a turn without calls in a new chat of the same world is taken: what it costs to start, to open
the world and to ask a model for the first time.

A turn asks the model once in 50 calls, and a request holds the last 32 turns of the chat: with 50 calls a turn it
is 32 times as long after 2,000 calls as after 50, in Python and at the terminal alike. So the figures that are compared
come from a chat whose last 50 turns have one call each, at both lengths: the model is asked the same, and what grows is
what the length of the chat costs. The other shape, whose requests grow too, is measured after it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bench.terminal.provider import AT_ONCE, serving

__all__ = ["run"]

CALLS = 200
EARLIER = (50, 2000)
KINDS = ("World", "terminal")
RUNS = 4
NEVER = 1_000_000
"""The number of the measured turn, which no earlier one has: no call may equal another."""


class Shape(NamedTuple):
    """The turns of earlier calls: of 50 calls each, but for the last `single` calls, which have a turn each."""

    name: str
    single: int

    def turns(self, earlier: int) -> list[int]:
        """The calls of each turn, oldest first."""
        return [AT_ONCE] * ((earlier - self.single) // AT_ONCE) + [1] * self.single


SHAPES = (Shape("same requests", 50), Shape("50 calls a turn", 0))


class Runner(NamedTuple):
    """Runs turns in processes of their own, in a copy of a world for each."""

    place: Path
    environment: Mapping[str, str]

    def cpu(self, *arguments: str) -> float:
        """Seconds of CPU, user and system, of a process."""
        command = [sys.executable, "-m", *arguments]
        process = subprocess.Popen(  # noqa: S603 - this interpreter
            command, env=dict(self.environment), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{arguments} failed:\n{said.decode()}")
        return usage.ru_utime + usage.ru_stime

    def record(self, earlier: int, shape: Shape) -> Path:
        """A world whose chat `main` has so many calls."""
        world = self.place / f"{earlier}-{shape.single}"
        self.cpu("bench.terminal.in_python", str(world), "main", "1", *map(str, shape.turns(earlier)))
        return world

    def turn(self, kind: str, world: Path, chat: str, calls: int) -> float:
        """Seconds of CPU of a turn in a copy of the world, by a user who has never seen it: what the terminal remembers
        of a world is of that one alone."""
        home = self.place / "home"
        copy, policy = home / "world", home / "policy.toml"
        shutil.copytree(world, copy)
        try:
            if kind == "World":
                return self.cpu("bench.terminal.in_python", str(copy), chat, str(NEVER), str(calls))
            policy.write_text('allowed_tools = ["add"]\n')
            options = ("--tools", "bench.terminal.tools", "--policy", str(policy))
            return self.cpu("demiurge.cli", "-w", str(copy), "chat", chat, *options, "-m", f"{calls} {NEVER}")
        finally:
            shutil.rmtree(home)


def run(shapes: tuple[Shape, ...] = SHAPES) -> list[tuple[str, str, str]]:
    with tempfile.TemporaryDirectory() as place, serving() as url:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "DEMIURGE_"))}
        environment = {
            **own,
            "HOME": os.path.join(place, "home"),
            "LLM_API_KEY": "none",
            "OPENAI_BASE_URL": url,
            "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")]),
        }
        runner = Runner(Path(place), environment)
        return [line for shape in shapes for line in _lines(runner, shape)]


def _lines(runner: Runner, shape: Shape) -> list[tuple[str, str, str]]:
    taken = _taken(runner, {earlier: runner.record(earlier, shape) for earlier in EARLIER})
    lines = []
    for (kind, earlier), seconds in taken.items():
        what = f"{kind}: a turn of {CALLS} calls after {earlier:,}, {shape.name}"
        lines.append((what, f"{seconds * 1e3:,.0f} ms CPU", f"{seconds / taken['World', earlier]:.2f}"))
    few, many = EARLIER
    for kind in KINDS:
        grown = taken[kind, many] / taken[kind, few]
        lines.append((f"{kind}: after {many:,} over after {few:,}, {shape.name}", "", f"{grown:.2f}"))
    return lines


def _taken(runner: Runner, worlds: Mapping[int, Path]) -> dict[tuple[str, int], float]:
    """Seconds of the turn of `CALLS` calls without the start, by kind and number of earlier calls.

    All take turns, so that what else the machine does meets them alike; the lowest of what several runs say is the
    truest, as nothing makes a program quicker than it is."""
    starts: dict[tuple[str, int], list[float]] = {(kind, earlier): [] for earlier in worlds for kind in KINDS}
    turns: dict[tuple[str, int], list[float]] = {what: [] for what in starts}
    for _ in range(RUNS):
        for (kind, earlier), start in starts.items():
            start.append(runner.turn(kind, worlds[earlier], "new", 0))
            turns[kind, earlier].append(runner.turn(kind, worlds[earlier], "main", CALLS))
    return {what: min(turns[what]) - min(start) for what, start in starts.items()}
