"""A world that `demiurge serve` serves, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from demiurge import World

__all__ = ["Server", "serving"]

NOWHERE = "http://127.0.0.1:9"
"""No model is there."""


@dataclass(frozen=True)
class Server:
    """A server that runs: its address, the link with which a browser logs in, a token of the user, its process."""

    port: int
    login: str
    token: str
    pid: int

    def cpu_s(self) -> float:
        """The CPU that the process has used, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_kb(self) -> float:
        """The resident memory of the process, in kB."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(kib) * 1.024


@contextmanager
def serving(place: Path) -> Iterator[Server]:
    """Serves a new world in a folder of `place` while the block runs."""
    folder = place / "served"
    token = asyncio.run(_token(folder))
    environment = {**os.environ, "XDG_CONFIG_HOME": str(place), "XDG_DATA_HOME": str(place), "OPENAI_API_KEY": "none"}
    command = [sys.executable, "-m", "demiurge.cli", "-w", str(folder), "serve", "--port", "0", "--base-url", NOWHERE]
    process = subprocess.Popen(  # noqa: S603 - this interpreter
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        login = process.stdout.readline().strip()
        yield Server(urlsplit(login).port or 0, login, token, process.pid)
    finally:
        process.terminate()
        process.wait(60)


async def _token(folder: Path) -> str:
    async with World.open(folder, environment={}) as world:
        return (await world.tokens.add("user:bench", ["user"])).secret
