"""Processes to be killed, as the process that starts them sees them (`fork_server`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from demiurge.errors import UsageError

__all__ = ["ForkServer", "ForkedProcess", "target_of"]


def target_of(function: Callable[..., Any]) -> dict[str, str]:
    """Returns how another process finds a function. Raises UsageError for one that is not at the top level of a module
    with a file."""
    name = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    if not name or "<" in name or file is None:
        raise UsageError(
            f"{name or function!r} is run in other processes, so it must be a function at the top level of a module "
            "with a file: no lambda, no function inside a function, none of a notebook."
        )
    assert module is not None
    return {"module": module.__name__, "file": os.path.abspath(file), "function": name}


class ForkedProcess:
    """A process that a ForkServer has forked. `status` is None while it runs; below zero it is the signal."""

    def __init__(self, number: int) -> None:
        self.number, self.pid = number, 0
        self.status: int | None = None
        self.begun, self.ended = threading.Event(), threading.Event()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Returns how it ended, None if it runs on after so many seconds."""
        self.ended.wait(timeout_s)
        return self.status

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends it a signal, unless it has ended."""
        if not self.ended.is_set():
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)


class ForkServer:
    """A process that has imported everything and forks others, from any thread. Close it, or use it in `with`."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "demiurge.testing.crash.fork_server"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._lock, self._forked, self._loaded = threading.Lock(), dict[int, ForkedProcess](), SimpleQueue[str | None]()
        self._is_ready = threading.Event()
        self._listening = threading.Thread(target=self._hear, daemon=True)
        self._listening.start()
        self._is_ready.wait()
        if self._process.poll() is not None:
            raise UsageError("The process that starts others has ended: its errors are above.")

    def __enter__(self) -> ForkServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def load(self, target: Mapping[str, str]) -> None:
        """Imports the module of a target, so that no process has to. Raises UsageError with the traceback."""
        self._send({"load": dict(target)})
        if (problem := self._loaded.get()) is not None:
            raise UsageError(f"The module {target['module']} can't be imported in another process:\n{problem}")

    def imports(self, modules: Iterable[str]) -> None:
        """Imports modules, as far as that is possible, so that no process has to."""
        self._send({"imports": list(modules)})

    def start(self, target: Mapping[str, str], arguments: Mapping[str, Any], errors: Path) -> ForkedProcess:
        """Starts a process that calls a function with these arguments, which are JSON; `errors`: see `fork_server`."""
        with self._lock:
            forked = ForkedProcess(len(self._forked) + 1)
            self._forked[forked.number] = forked
        command = {"target": dict(target), "arguments": dict(arguments), "errors": str(errors)}
        self._send({"start": forked.number, **command})
        forked.begun.wait()
        return forked

    def close(self) -> None:
        """Kills what runs, and ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._listening.join()
        self._process.stdout.close()

    def _send(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()

    def _hear(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "loaded" in told:
                self._loaded.put(told["loaded"])
            elif "pid" in told:
                self._forked[told["number"]].pid = told["pid"]
                self._forked[told["number"]].begun.set()
            elif "status" in told:
                self._forked[told["number"]].status = told["status"]
                self._forked[told["number"]].ended.set()
            else:
                self._is_ready.set()
        self._over()

    def _over(self) -> None:
        """Nobody waits for a server that has ended."""
        self._is_ready.set()
        self._loaded.put("The process has ended.")
        for forked in list(self._forked.values()):
            forked.begun.set()
            forked.ended.set()
