"""kill -9 of an MCP server, the gateway in front of it and the gateway's client: no call is made twice without a word.

What was done is read from a file that the server alone writes."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.ports import reserved_port

from demiurge import World
from demiurge.mcp.settings import ServerSettings

HERE = Path(__file__).parent
PATIENCE_S = 240
KEYS_OF_A_CLIENT = 40


@dataclass
class Journey:
    """The processes and what they have told. `environment`: that of the gateway's user."""

    folder: Path
    draw: random.Random
    port: int
    token: str = ""
    kills: Counter[str] = field(default_factory=Counter)
    clients: int = 0
    gateway: subprocess.Popen[str] | None = None
    client: subprocess.Popen[str] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.folder / "home")}

    async def prepare(self) -> None:
        """Makes the world with the server, its tool trusted without being asked for, and a token."""
        command = (sys.executable, str(HERE / "mcp_charges.py"), str(self.folder))
        async with World.open(self.folder / "world", environment=self.environment) as world:
            await world.mcp.add(ServerSettings("charges", command=command))
            await world.mcp.refresh("charges")
            await world.mcp.trust("charges", rule="allow")
            self.token = (await world.tokens.add("user:client", ["agent"])).secret

    def start_gateway(self) -> None:
        words = ("-w", str(self.folder / "world"), "serve", "--port", str(self.port), "--json")
        self.gateway = self._start("gateway", "-m", "demiurge.cli", *words)
        assert self.gateway.stdout is not None
        with self.gateway.stdout as said:
            assert said.readline(), (self.folder / "gateway.err").read_text()

    def start_client(self) -> None:
        self.clients += 1
        keys = [f"c{self.clients}-{number}" for number in range(KEYS_OF_A_CLIENT)]
        url = f"http://127.0.0.1:{self.port}/mcp"
        script, notes = str(HERE / "mcp_caller.py"), str(self.folder / "notes")
        self.client = self._start("client", script, url, self.token, notes, *keys)
        assert self.client.stdout is not None
        self.client.stdout.close()

    def _start(self, name: str, *words: str) -> subprocess.Popen[str]:
        with (self.folder / f"{name}.err").open("a") as errors:
            return subprocess.Popen(
                [sys.executable, *words], env=self.environment, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    @property
    def client_ended(self) -> bool:
        return self.client is not None and self.client.poll() is not None

    def noted(self) -> list[dict[str, Any]]:
        place = self.folder / "notes"
        return [json.loads(line) for line in place.read_text().splitlines()] if place.exists() else []

    def kill(self, who: str) -> None:
        """Kills one of the three at this moment. The gateway and the client are started again."""
        self.kills[who] += 1
        if who == "server":
            with suppress(OSError, IndexError, ProcessLookupError):
                os.kill(int((self.folder / "servers").read_text().split()[-1]), signal.SIGKILL)
            return
        process = self.gateway if who == "gateway" else self.client
        assert process is not None
        process.kill()
        process.wait()
        self.start_gateway() if who == "gateway" else self.start_client()

    def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"{what}: {(self.folder / 'gateway.err').read_text()[-2000:]}"
            time.sleep(0.005)

    def run(self, kills: int) -> None:
        """Kills one of the three, again and again, after some answers and at a drawn moment of the next call."""
        self.start_gateway()
        self.start_client()
        for _ in range(kills):
            if self.client_ended:
                self.start_client()
            wanted = len(self.noted()) + self.draw.randrange(1, 6)
            self.until(lambda wanted=wanted: len(self.noted()) >= wanted or self.client_ended, "no progress")  # type: ignore[misc]
            time.sleep(self.draw.uniform(0, 0.06))
            self.kill(self.draw.choice(("server", "gateway", "client")))
        self.until(lambda: self.client_ended, "the client does not come to its end")

    def close(self) -> None:
        for process in (self.client, self.gateway):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait(30)


async def _check(journey: Journey) -> Counter[str]:
    """Compares what the clients were told with what the server did. Returns how often each thing was told."""
    done = Counter((journey.folder / "charges").read_text().split())
    told: Counter[str] = Counter()
    asked = {line["asks"] for line in journey.noted() if "asks" in line}
    assert set(done) <= asked
    assert [key for key, count in done.items() if count > 1] == []
    for line in journey.noted():
        if "told" not in line:
            continue
        if not line["is_error"]:
            told["done"] += 1
            assert done[line["told"]] == 1, line
        elif "unknown_outcome" in line["text"]:
            told["in doubt"] += 1
        else:
            told["not done"] += 1
            assert done[line["told"]] == 0, line
    async with World.open(journey.folder / "world", environment=journey.environment) as world:
        assert (await asyncio.to_thread(world.journal.verify)).problem is None
        assert (await world.replay())["ok"]
    return told


async def _campaign(folder: Path, kills: int, seed: int) -> Counter[str]:
    (folder / "home").mkdir()
    with reserved_port() as port:
        journey = Journey(folder, random.Random(seed), port)
        await journey.prepare()
        try:
            await asyncio.to_thread(journey.run, kills)
        finally:
            await asyncio.to_thread(journey.close)
    told = await _check(journey)
    print(f"\nkills {dict(journey.kills)}; told {dict(told)}; charges {len((folder / 'charges').read_text().split())}")
    return told


@pytest.mark.timeout(300)
async def test_eight_kills_between_client_gateway_and_server_double_nothing(tmp_path: Path) -> None:
    told = await _campaign(tmp_path, 8, seed=3)
    assert told["done"] > 8


@pytest.mark.full
@pytest.mark.timeout(3600)
async def test_two_hundred_kills_between_client_gateway_and_server_double_nothing(tmp_path: Path) -> None:
    told = await _campaign(tmp_path, 200, seed=4)
    assert told["done"] > 200
    assert told["in doubt"] > 0
