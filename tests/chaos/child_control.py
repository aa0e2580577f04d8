"""Processes to be killed, as the test sees them: started in milliseconds, heard line by line, ended by number."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demiurge.testing.crash.fork_client import ForkedProcess, ForkServer

__all__ = ["Nursery", "Process"]

ROOT = Path(__file__).parents[2]

LIVE = {"module": "tests.chaos.forking_child", "function": "live"}


@dataclass
class Process:
    """`out` holds what it has told so far."""

    forked: ForkedProcess
    out: Path

    @property
    def pid(self) -> int:
        return self.forked.pid

    @property
    def status(self) -> int | None:
        return self.forked.status

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.forked.kill(number)

    def told(self, kind: str | None = None) -> list[dict[str, Any]]:
        if not self.out.exists():
            return []
        lines = [json.loads(line) for line in self.out.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        return [line for line in lines if kind in (None, line["kind"])]

    def wait(self) -> int:
        """How it ended; below zero: the signal."""
        status = self.forked.wait()
        assert status is not None
        return status

    @property
    def complaints(self) -> str:
        """What it wrote on stderr."""
        errors = Path(f"{self.out}.err")
        return errors.read_text() if errors.exists() else ""


class Nursery:
    """Starts processes that run on worlds."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count, self._server = folder, 0, ForkServer()
        self._server.load(LIVE)

    def start(self, folder: Path, url: str, **arguments: Any) -> Process:
        """A process that runs `forking_child.run` on the world in `folder`; `faults` arms it."""
        self._count += 1
        out = self._folder / f"told-{self._count}"
        given = {"folder": str(folder), "url": url, "out": str(out), "seed": 0, "turns": 4, **arguments}
        return Process(self._server.start(LIVE, given, Path(f"{out}.err")), out)

    def close(self) -> None:
        self._server.close()
