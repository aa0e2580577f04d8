"""Runs each in a process of its own, one after the other, and puts them into a table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.tool_call.contender import Peer
from bench.tool_call.environment import Missing, interpreter

__all__ = ["run"]

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
QUIET = {"LANGSMITH_TRACING": "false", "PYTHONHASHSEED": "0"}


@dataclass(frozen=True)
class _Peer(Peer):
    @property
    def requirements(self) -> Path:
        return FOLDER / "peers" / f"{self.name}.txt"

    @property
    def script(self) -> Path:
        return FOLDER / "peers" / f"{self.name}.py"


PEERS = (_Peer("langgraph_sqlite"), _Peer("dbos_sqlite"))

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
    ours = _timed([sys.executable, "-m", "bench.steps.ours"])
    lines = _lines("Demiurge, submit to one unit", ours, ours)
    for peer in PEERS:
        try:
            lines += _lines(peer.name, _timed([str(interpreter(peer)), str(peer.script)]), ours)
        except Missing as missing:
            lines.append((peer.name, str(missing)[:18], ""))
    return lines


def _lines(name: str, timing: Timing, ours: Timing) -> list[tuple[str, str, str]]:
    return [
        (f"{name}, after {before} steps", f"{wall:,.0f} us, {cpu:,.0f} CPU", f"{cpu / base:.1f}")
        for (before, wall, cpu), (_, _, base) in zip(timing, ours, strict=True)
    ]
