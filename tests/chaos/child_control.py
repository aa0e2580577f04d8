"""Processes to be killed, as the test sees them: started in milliseconds, heard line by line, ended by number."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Nursery", "Process"]

ROOT = Path(__file__).parents[2]


@dataclass
class Process:
    """`out` holds what it has told so far."""

    nursery: Nursery
    pid: int
    out: Path
    status: int | None = None

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.status is None:
            os.kill(self.pid, number)  # a zombie at most: nobody has waited for it yet

    def told(self, kind: str | None = None) -> list[dict[str, Any]]:
        if not self.out.exists():
            return []
        lines = [json.loads(line) for line in self.out.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        return [line for line in lines if kind in (None, line["kind"])]

    def wait(self) -> int:
        """How it ended; below zero: the signal."""
        if self.status is None:
            self.status = self.nursery.ask({"wait": self.pid})
        return self.status

    @property
    def complaints(self) -> str:
        """What it wrote on stderr."""
        errors = Path(f"{self.out}.err")
        return errors.read_text() if errors.exists() else ""


class Nursery:
    """A process that has imported everything and forks the others."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        command = [sys.executable, "-m", "tests.chaos.forking_child"]
        self._bearer = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._bearer.stdout is not None
        assert self._bearer.stdout.readline() == "ready\n"

    def ask(self, command: dict[str, Any]) -> int:
        assert self._bearer.stdin is not None
        assert self._bearer.stdout is not None
        self._bearer.stdin.write(json.dumps(command) + "\n")
        self._bearer.stdin.flush()
        return int(self._bearer.stdout.readline())

    def start(self, folder: Path, url: str, **arguments: Any) -> Process:
        """A process that runs `child.run` on the world in `folder`; `faults` arms it."""
        self._count += 1
        out = self._folder / f"told-{self._count}"
        given = {"folder": str(folder), "url": url, "out": str(out), "seed": 0, "turns": 4, **arguments}
        return Process(self, self.ask({"start": given}), out)

    def close(self) -> None:
        assert self._bearer.stdin is not None
        assert self._bearer.stdout is not None
        self._bearer.stdin.close()
        self._bearer.wait(30)
        self._bearer.stdout.close()
