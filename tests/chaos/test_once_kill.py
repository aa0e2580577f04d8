"""SIGTERM and SIGKILL of `serve` and `mcp serve` while clients call over HTTP and stdio, and repeat what was not
answered: nothing that a client was told is lost, and nothing happens twice without a word.

The effects are counted in a file that the tool alone writes. Clients of both eras of the protocol ask. Each run kills
eight times; the long form kills as often as `DEMIURGE_TEST_KILLS` says, 500 times by default. 2,000 kills take 20 to 40
minutes on two cores.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from tests.chaos.once_clients import Client, LegacyHttp, ModernHttp, Stdio
from tests.ports import reserved_port

from demiurge import ToolPolicy, World
from demiurge.testing.crash.fork_client import ForkedProcess, ForkServer

MODULE = "tests.chaos.once_child"
SERVE, MCP_SERVE = ({"module": MODULE, "function": name} for name in ("serve", "mcp_serve"))
POLICY = ToolPolicy(allowed_tools=("charge",))
SIGNALS = (signal.SIGTERM, signal.SIGKILL)
PIPES = ("s1", "s2")
"""The clients that speak to an `mcp serve` of their own."""

DECK = [(who, number) for who in ("serve", "serve", *PIPES) for number in SIGNALS]
"""The kills of one round, which are made in a drawn order: of each server with each signal."""

STALL_S = 120.0
"""After so many seconds without an answer, or without the process that is to be killed, the campaign has failed."""

KILLS = int(os.environ.get("DEMIURGE_TEST_KILLS", "500"))
WORLD_KILLS = 50
"""How many kills a world of the long form sees, so that its journal stays small."""

NEEDED = ("demiurge.server.app", "demiurge.cli.serve", "demiurge.cli.mcp_serve", "demiurge.mcp.gateway.server")


@dataclass
class Campaign:
    """The servers of the world in `folder`, which are killed and started again. `kills` counts the signals."""

    folder: Path
    forks: ForkServer
    port: int
    draw: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    clients: list[Client] = field(default_factory=list)
    server: ForkedProcess | None = None
    pipes: dict[str, ForkedProcess] = field(default_factory=dict)
    is_over: bool = False
    may_start: asyncio.Event = field(default_factory=asyncio.Event)
    """Set but while a server waits for the world that a client's process owns."""

    @property
    def answers(self) -> int:
        return sum(len(client.told) for client in self.clients)

    async def run(self, kills: int) -> None:
        """Kills one of the servers after each few answers, at a drawn moment of the next calls."""
        async with World.open(self.folder / "w", environment={"HOME": str(self.folder / "home")}) as world:
            token = (await world.tokens.add("user:client", ["agent"])).secret
        (self.folder / "policy.json").write_text(json.dumps(POLICY.to_json()))
        url = f"http://127.0.0.1:{self.port}/mcp"
        self.clients = [
            *(Stdio(name, folder=self.folder, start=partial(self._start_pipe, name)) for name in PIPES),
            ModernHttp("h1", url=url, token=token),
            LegacyHttp("h2", url=url, token=token),
        ]
        self.may_start.set()
        self._start_server()
        asking = [asyncio.create_task(client.run(lambda: self.is_over)) for client in self.clients]
        killing = asyncio.create_task(self._kill(kills))
        serving = asyncio.create_task(self._keep_serving())
        try:
            await asyncio.wait({killing, serving, *asking}, return_when=asyncio.FIRST_COMPLETED)
            self.is_over = True
            for task in (killing, serving):
                if task.done():
                    task.result()
            await asyncio.gather(killing, *asking)
        finally:
            for task in (serving, killing, *asking):
                task.cancel()
            await asyncio.gather(serving, killing, *asking, return_exceptions=True)
            for process in (self.server, *self.pipes.values()):
                if process is not None:
                    process.kill(signal.SIGTERM)
                    await asyncio.to_thread(process.wait, 30)

    def _start_server(self) -> None:
        given = {"folder": str(self.folder), "port": self.port}
        self.server = self.forks.start(SERVE, given, self.folder / "serve.err")

    async def _start_pipe(self, name: str, place: str) -> None:
        await self.may_start.wait()
        given = {"folder": str(self.folder), "client": place}
        self.pipes[name] = self.forks.start(MCP_SERVE, given, self.folder / f"{name}.err")

    async def _keep_serving(self) -> None:
        """Starts `serve` again when it was killed. A process of a client that owns the world meanwhile is killed
        too."""
        while True:
            if self.server is not None and self.server.ended.is_set():
                if self.server.status == 1:
                    self.may_start.clear()
                    for name, process in list(self.pipes.items()):  # its client may start the next one meanwhile
                        self._signal(name, self.draw.choice(SIGNALS))
                        await asyncio.to_thread(process.wait)
                self._start_server()
                while not (self._answers() or self.server.ended.is_set()):
                    await asyncio.sleep(0.02)
                if not self.server.ended.is_set():
                    self.may_start.set()
            await asyncio.sleep(0.02)

    def _answers(self) -> bool:
        """Returns whether `serve` listens."""
        with socket.socket() as wire:
            return wire.connect_ex(("127.0.0.1", self.port)) == 0

    def _process(self, who: str) -> ForkedProcess | None:
        """Returns the process of a server; None if it does not run."""
        process = self.server if who == "serve" else self.pipes.get(who)
        return process if process is not None and not process.ended.is_set() else None

    def _signal(self, who: str, number: signal.Signals) -> None:
        process = self._process(who)
        if process is not None:
            process.kill(number)
            self.kills[f"{number.name} {'serve' if who == 'serve' else 'mcp serve'}"] += 1

    async def _kill(self, kills: int) -> None:
        deck: list[tuple[str, signal.Signals]] = []
        while self.kills.total() < kills:
            deck = deck or self.draw.sample(DECK, len(DECK))
            who, number = deck.pop()
            wanted = self.answers + self.draw.randrange(1, 5)
            try:
                async with asyncio.timeout(STALL_S):
                    while self.answers < wanted or self._process(who) is None:
                        await asyncio.sleep(0.002)
            except TimeoutError:
                raise AssertionError(self._stall(who)) from None
            await asyncio.sleep(self.draw.uniform(0, 0.03))
            self._signal(who, number)

    def _stall(self, who: str) -> str:
        """Returns what the processes do when nothing goes on, for whoever looks for the cause."""
        server = self.server
        status = server.status if server is not None else None
        how = f"ended with {status}" if status is not None else "runs"
        said = "".join(f"\n{name}: {(self.folder / name).read_text()[-2000:]}" for name in ("serve.err", "s1.err"))
        starts = "may start" if self.may_start.is_set() else "wait for serve"
        return f"{STALL_S:.0f} s without {who}; serve {how}; clients' processes {starts}{said}"

    def check(self) -> str:
        """Compares what the clients were told with what happened. Returns what there was of each."""
        done = Counter((self.folder / "charges").read_text().split())
        told = Counter(each for client in self.clients for each in client.told.values())
        seen = sum((client.seen for client in self.clients), Counter[str]())
        words = f"kills {dict(self.kills)}; told {dict(told)}; effects {done.total()}; clients saw {dict(seen)}"
        twice = [key for key, count in done.items() if count > 1]
        lost = [
            key for client in self.clients for key, told in client.told.items() if told == "charged" and not done[key]
        ]
        unknown = set(done) - {key for client in self.clients for key in client.told}
        assert (twice, lost, unknown) == ([], [], set()), words
        assert seen["streams that ended without an answer"] == 0, words
        return words


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    with ForkServer() as running:
        running.load(SERVE)
        running.imports(NEEDED)
        yield running


async def _campaign(forks: ForkServer, kills: int, seed: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="once-"))  # short: sockets lie in it
    (folder / "home").mkdir()
    try:
        with reserved_port() as port:
            campaign = Campaign(folder, forks, port, random.Random(seed))
            try:
                await campaign.run(kills)
            finally:
                print(f"\n{[(client.name, client.asked, dict(client.seen)) for client in campaign.clients]}")
            print(campaign.check())
        async with World.open(folder / "w", environment={"HOME": str(folder / "home")}) as world:
            assert (await asyncio.to_thread(world.journal.verify)).problem is None
    finally:
        if not os.environ.get("ONCE_KEEP"):
            shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.timeout(300)
async def test_eight_kills_lose_no_answer_and_double_nothing(forks: ForkServer) -> None:
    await _campaign(forks, len(DECK), seed=1)


@pytest.mark.full
@pytest.mark.timeout(4 * 3600)
async def test_many_kills_lose_no_answer_and_double_nothing(forks: ForkServer) -> None:
    for seed, done in enumerate(range(0, KILLS, WORLD_KILLS)):
        await _campaign(forks, min(WORLD_KILLS, KILLS - done), seed=seed)
