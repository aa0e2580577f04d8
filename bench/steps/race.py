"""Runs each in a process of its own, in turns, and puts them into a table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.tool_call.contender import Peer
from bench.tool_call.environment import Missing, interpreter

__all__ = ["run"]

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
QUIET = {"LANGSMITH_TRACING": "false", "PYTHONHASHSEED": "0"}


ROUNDS = 3
PEERS = tuple(Peer(name, folder=FOLDER / "peers") for name in ("langgraph_sqlite", "dbos_sqlite"))

Timing = list[tuple[int, float, float]]
"""Steps before, wall and CPU microseconds per step."""


def _timed(command: list[str]) -> Timing:
    environment = {**os.environ, **QUIET}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise Missing(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed")
    found: Timing = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def run() -> list[tuple[str, str, str]]:
    """The quickest of some rounds of each; they take turns, so whatever else the machine does hits all alike."""
    rounds: list[Timing] = []
    theirs: dict[Peer, list[Timing]] = {peer: [] for peer in PEERS}
    missing: dict[Peer, str] = {}
    for _ in range(ROUNDS):
        rounds.append(_timed([sys.executable, "-m", "bench.steps.ours"]))
        for peer in theirs.keys() - missing.keys():
            try:
                theirs[peer].append(_timed([str(interpreter(peer)), str(peer.script)]))
            except Missing as why:
                missing[peer] = str(why)[:18]
    ours = _quickest(rounds)
    lines = _lines("Demiurge, submit to one unit", ours, ours)
    for peer, timings in theirs.items():
        lines += [(peer.name, missing[peer], "")] if peer in missing else _lines(peer.name, _quickest(timings), ours)
    return lines


def _quickest(rounds: list[Timing]) -> Timing:
    at_once = [list(zip(*at, strict=True)) for at in zip(*rounds, strict=True)]
    return [(before[0], min(walls), min(cpus)) for before, walls, cpus in at_once]


def _lines(name: str, timing: Timing, ours: Timing) -> list[tuple[str, str, str]]:
    return [
        (f"{name}, after {before} steps", f"{wall:,.0f} us, {cpu:,.0f} CPU", f"{cpu / base:.1f}")
        for (before, wall, cpu), (_, _, base) in zip(timing, ours, strict=True)
    ]
