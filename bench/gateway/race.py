"""Starts the server and the gateways, and lets a caller of each take turns."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any

from bench.tool_call.contender import Peer
from bench.tool_call.environment import Missing, interpreter

__all__ = ["Figures", "fsync_ms", "run"]

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PEERS = tuple(Peer(name, folder=FOLDER / "peers") for name in ("fastmcp_proxy", "contextforge"))
CALLS, ROUNDS = 100, 5
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass
class Figures:
    """The figures of one way to the tool, one entry a round: milliseconds for a call."""

    cpu_ms: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)


@dataclass
class Process:
    """A process with its descendants, which share its session."""

    popen: subprocess.Popen[str]

    @property
    def stdout(self) -> IO[str]:
        assert self.popen.stdout is not None
        return self.popen.stdout

    def tell(self, line: str) -> dict[str, Any]:
        """Writes a line, and returns the JSON that the process answers. Raises Missing."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(f"{line}\n")
        self.popen.stdin.flush()
        return self.hear()

    def hear(self) -> dict[str, Any]:
        line = self.stdout.readline()
        if not line:
            raise Missing("it did not start, or failed")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def drain(self) -> None:
        """Reads what the process still writes, so that its log never blocks it."""
        threading.Thread(target=lambda: [None for _ in self.stdout], daemon=True).start()

    def cpu_s(self) -> float:
        """Returns the CPU time of all processes of the session, in seconds."""
        return sum(_ticks(self.popen.pid)) * TICK_S


def _ticks(session: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[3]) == session:
            yield sum(map(int, fields[11:15]))


@contextmanager
def _started(*command: str) -> Iterator[Process]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    popen = subprocess.Popen(command, cwd=ROOT, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload]  # noqa: S603
    try:
        yield Process(popen)
    finally:
        os.killpg(popen.pid, signal.SIGTERM)
        try:
            popen.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(popen.pid, signal.SIGKILL)
            popen.wait()


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _until_open(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise Missing(f"nothing listens at port {port}")


def run() -> tuple[dict[str, Figures], dict[str, str]]:
    """Returns the figures of each way, the server itself first, and why others are missing."""
    found: dict[str, Figures] = {"straight": Figures()}
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = _port()
        upstream = stack.enter_context(_started(sys.executable, str(FOLDER / "upstream.py"), str(port)))
        _until_open(port)
        upstream.drain()
        url = f"http://127.0.0.1:{port}/mcp"
        ways: dict[str, tuple[Process, Process | None]] = {}
        callers: dict[str, tuple[dict[str, Any], Process | None]] = {"straight": ({"url": url, "headers": {}}, None)}
        for name, command in _gateways(missing).items():
            try:
                at, own = _port(), folder / name
                own.mkdir()
                serving = stack.enter_context(_started(*command, url, str(at), str(own)))
                place = serving.hear()
                _until_open(at)
                serving.drain()
                callers[name] = (place, serving)
            except Missing as why:
                missing[name] = str(why)
        for name, (place, gateway) in callers.items():
            try:
                caller = stack.enter_context(_started(sys.executable, str(FOLDER / "caller.py"), str(CALLS)))
                caller.tell(json.dumps(place))
                ways[name] = (caller, gateway)
            except Missing as why:
                missing[name] = str(why)
        for _ in range(ROUNDS):
            for name, (caller, gateway) in list(ways.items()):
                processes = [upstream, caller, *([gateway] if gateway is not None else [])]
                before = sum(process.cpu_s() for process in processes)
                try:
                    said = caller.tell("go")
                except Missing as why:
                    missing[name] = str(why)
                    del ways[name]
                    continue
                used = sum(process.cpu_s() for process in processes) - before
                figures = found.setdefault(name, Figures())
                figures.cpu_ms.append(used / CALLS * 1e3)
                figures.p50_ms.append(said["p50_ms"])
    return found, missing


def _gateways(missing: dict[str, str]) -> dict[str, list[str]]:
    commands = {"demiurge": [sys.executable, "-m", "bench.gateway.ours"]}
    for peer in PEERS:
        try:
            commands[peer.name] = [str(interpreter(peer)), str(peer.script)]
        except Missing as why:
            missing[peer.name] = str(why)
    return commands


def fsync_ms() -> float:
    """Returns the median time of a write of 4 KiB with its fsync, in milliseconds."""
    took = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(100):
            begun = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            took.append((time.perf_counter() - begun) * 1e3)
    return median(took)
