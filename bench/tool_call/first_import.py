"""How long the first import takes: fresh processes, taking turns."""

from __future__ import annotations

import os
import statistics
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.tool_call.contender import IMPORTS
from bench.tool_call.race import ENVIRONMENT

__all__ = ["ROUNDS", "first_imports"]

ROUNDS = 5
_PROGRAM = "import time; begun = time.perf_counter(); {}; print(time.perf_counter() - begun)"


def first_imports(pythons: Mapping[str, Path | str]) -> list[tuple[str, str, float | str]]:
    """(owner, statement, median seconds or the reason why there are none); interpreter start is not in it."""
    taken: dict[tuple[str, str], list[float]] = {line: [] for line in IMPORTS}
    failed = {line: reason for line in IMPORTS if isinstance(reason := pythons[line[0]], str)}
    for number in range(ROUNDS + 1):
        for owner, statement in IMPORTS:
            if (owner, statement) in failed:
                continue
            done = _once(pythons[owner], statement)
            if done.returncode:
                failed[owner, statement] = done.stderr.strip().splitlines()[-1]
            elif number:  # the first round writes the bytecode
                taken[owner, statement].append(float(done.stdout))
    return [(*line, failed[line] if line in failed else statistics.median(taken[line])) for line in IMPORTS]


def _once(python: Path | str, statement: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [python, "-P", "-c", _PROGRAM.format(statement)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **ENVIRONMENT},
    )
