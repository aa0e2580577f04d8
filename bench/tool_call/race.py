"""Contenders taking turns: one process each, one batch at a time, round after round."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.tool_call.contender import FOLDER, OURS, Contender

__all__ = ["ENVIRONMENT", "ROUNDS", "Result", "Series", "race"]

ROUNDS = 30
BATCH_US = 12_000
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "ignore",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LANGSMITH_TRACING": "false",
    "FASTMCP_TELEMETRY_MODE": "off",
}
"""Telemetry is off everywhere."""

_PATIENCE_S = 180.0


@dataclass
class Series:
    """Means of batches in microseconds per call."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    bytes_per_call: float | None = None

    @property
    def cpu_us(self) -> float:
        return statistics.median(self.cpu)


@dataclass
class Result:
    """One line's figures, by kind of handler; or why there are none."""

    line: Contender
    version: str = ""
    series: dict[str, Series] = field(default_factory=dict)
    failure: str = ""


class Failed(Exception):
    """A contender can't be measured; the text says why."""


class Process:
    """A running `measure.py`. Raises Failed for one that ends, or says nothing for a long time."""

    def __init__(self, python: Path, script: Path, entry: str) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed by __exit__)
        self._process = subprocess.Popen(  # noqa: S603
            [python, "-P", FOLDER / "measure.py", script, entry],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **ENVIRONMENT},
        )

    def hear(self) -> dict[str, Any]:
        """The next line that it says."""
        assert self._process.stdout is not None
        watch = threading.Timer(_PATIENCE_S, self._process.kill)
        watch.start()
        line = self._process.stdout.readline()
        watch.cancel()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            last = self._errors.read().strip().splitlines()[-1:] or ["it said nothing"]
            raise Failed(last[0])
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return self.hear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()


class Runner:
    """A line on its way through the rounds."""

    def __init__(self, result: Result, process: Process) -> None:
        self._result, self._process = result, process
        self._requests: dict[str, dict[str, Any]] = {}

    def set_up(self) -> None:
        """Makes and warms its calls; finds out how many make a batch. Raises Failed."""
        line, result = self._result.line, self._result
        result.version = str(self._process.hear()["version"])
        for handler in line.handlers:
            request = {"handler": handler, "history": line.history, "calls": line.calls or 50, "fresh": line.fresh}
            trial = self._process.ask(request)
            if line.calls is None:
                request["calls"] = max(10, min(1000, int(BATCH_US / trial["wall_us"])))
            self._requests[handler] = request
            result.series[handler] = Series(bytes_per_call=trial["bytes_per_call"])

    def go(self) -> None:
        """One batch with each kind of handler. Raises Failed."""
        for handler, request in self._requests.items():
            answer = self._process.ask(request)
            self._result.series[handler].wall.append(answer["wall_us"])
            self._result.series[handler].cpu.append(answer["cpu_us"])


def race(lines: Iterable[Contender], pythons: Mapping[str, Path | str]) -> list[Result]:
    """Runs all `lines` side by side. `pythons`: interpreter by owner, or the reason why there is none.

    A peer that can't be set up is noted and left out; anything else that goes wrong raises Failed."""
    results = [Result(line) for line in lines]
    with ExitStack() as stack:
        runners = []
        for result in results:
            line, python = result.line, pythons[result.line.owner]
            if line.entry is None or isinstance(python, str):
                result.failure = "no equivalent" if line.entry is None else str(python)
                continue
            script = FOLDER / ("ours.py" if line.owner == OURS else f"peers/{line.owner}.py")
            runner = Runner(result, stack.enter_context(Process(python, script, line.entry)))
            try:
                runner.set_up()
            except Failed as reason:
                if line.owner == OURS:
                    raise
                result.failure = str(reason)
            else:
                runners.append(runner)
        for number in range(ROUNDS):
            first = number % len(runners)
            for runner in runners[first:] + runners[:first]:
                runner.go()
    return results
