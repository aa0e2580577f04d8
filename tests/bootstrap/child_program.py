"""Runs a program of the tests in a process of its own, which may kill itself at a fault point."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["run_program"]

ROOT = Path(__file__).parents[2]


async def run_program(name: str, *arguments: object, faults: str = "") -> subprocess.CompletedProcess[str]:
    """Runs `tests.bootstrap.NAME` to its end, at most 60 s, and returns its exit status and output. `faults`: what
    happens at which fault points, as DEMIURGE_FAULTS says it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DEMIURGE_FAULTS": faults}
    command = [sys.executable, "-m", f"tests.bootstrap.{name}", *map(str, arguments)]
    return await asyncio.to_thread(
        subprocess.run, command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
