"""How a step is timed, the same in every process: this file imports nothing but the standard library."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

AT, COUNT = (20, 400), 100
"""Steps before those that are timed, and how many of these there are."""


def main(steps: Callable[[Path], Callable[[str], None]]) -> None:
    """Print `[[steps before, wall us, CPU us per step], ...]`. `steps` is given a folder and gives back one step."""
    with tempfile.TemporaryDirectory() as folder:
        step = steps(Path(folder))
        done, found = 0, []
        for before in AT:
            while done < before:
                step(f"line {done}")
                done += 1
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(COUNT):
                step(f"line {done}")
                done += 1
            found.append(
                [before, (time.perf_counter() - wall) / COUNT * 1e6, (time.process_time() - cpu) / COUNT * 1e6]
            )
        print(json.dumps(found))
        sys.stdout.flush()
