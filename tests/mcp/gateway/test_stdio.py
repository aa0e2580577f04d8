"""The gateway as a process of its own, over real pipes: approvals elsewhere, and kills at the worst moments."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage
from tests.mcp.gateway.conftest import ERAS, text_of
from tests.mcp.gateway.noting_tools import NOTES, begin, send

from demiurge import ToolPolicy, World
from demiurge.errors import UsageError
from demiurge.mcp.gateway.server import McpGateway
from demiurge.mcp.gateway.stdio import _Pipe, serve_stdio
from mcp import Client, StdioServerParameters

ROOT = Path(__file__).parents[3]
POLICY = ToolPolicy(allowed_tools=("send", "begin"), require_approval_for_tools=("send",))
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


class Place:
    """A world's folder, and how programs are started for it."""

    def __init__(self, folder: Path) -> None:
        self.world, self.notes, self.policy = folder / "w", folder / "notes", folder / "policy.json"
        self.policy.write_text(json.dumps(POLICY.to_json()))
        self.environment = {**os.environ, NOTES: str(self.notes), "PYTHONPATH": str(ROOT)}
        self.command = [sys.executable, "-m", "demiurge.cli", "-w", str(self.world)]

    def serve(self, *more: str) -> list[str]:
        tools = ("--tools", "tests.mcp.gateway.noting_tools", "--policy", str(self.policy))
        return [*self.command, "mcp", "serve", *tools, *more]

    async def run(self, *words: str) -> str:
        """Runs a command to its end; returns what it printed."""
        done = await asyncio.to_thread(
            subprocess.run, [*self.command, *words], env=self.environment, capture_output=True, text=True, check=False
        )
        return f"{done.stdout}{done.stderr}"

    @property
    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    async def until_noted(self, text: str) -> None:
        while text not in self.noted:
            await asyncio.sleep(0.02)

    def let_end(self, word: str) -> None:
        Path(f"{self.notes}.{word}").touch()


class Wire:
    """A client that speaks the newer protocol, and whose server can be killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self._stdin, self._stdout, self._number = process, process.stdin, process.stdout, 0

    async def send(self, method: str, **params: Any) -> None:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": {**params, "_meta": META}}
        self._stdin.write(json.dumps(message).encode() + b"\n")
        await self._stdin.drain()

    async def read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self._stdout.readline())
        return found

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        await self.send("tools/call", name=tool, arguments=arguments)
        result: dict[str, Any] = (await self.read())["result"]
        return result

    def close(self) -> None:
        self._stdin.close()

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place(tmp_path)
    monkeypatch.setenv(NOTES, str(found.notes))
    return found


@asynccontextmanager
async def gateway(place: Place, *more: str) -> AsyncIterator[Wire]:
    """A gateway process and a client of it. The process is killed at the end, unless it has ended."""
    process = await asyncio.create_subprocess_exec(
        *place.serve(*more),
        env=place.environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    wire = Wire(process)
    try:
        yield wire
    finally:
        if process.returncode is None:
            wire.close()
            await process.wait()


def text(result: dict[str, Any]) -> str:
    found: str = result["content"][0]["text"]
    return found


@pytest.mark.parametrize("mode", ERAS)
async def test_a_call_approved_by_another_process_is_read_by_a_retry(place: Place, mode: str) -> None:
    [command, *arguments] = place.serve()
    server = StdioServerParameters(command=command, args=arguments, env=place.environment)
    async with Client(server, mode=mode) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["begin", "send"]
        waits = await client.call_tool("send", {"city": "Rome"})
        approval = waits.structured_content["approval"]
        assert f" -w {place.world} approvals approve {approval[:12]}`" in text_of(waits)
        assert "is approved" in await place.run("approvals", "approve", approval[:12])
        assert text_of(await client.call_tool("send", {"city": "Rome"})) == "sent to Rome"
        assert place.noted == ["sent to Rome"]
        assert (await client.call_tool("send", {"city": "Rome"})).structured_content["approval"] != approval
    assert place.noted == ["sent to Rome"]


async def test_a_gateway_killed_before_the_approval_loses_nothing(place: Place) -> None:
    async with gateway(place) as first:
        waits = await first.call("send", city="Rome")
        await first.kill()
    options = place.serve()[len(place.command) + 2 :]
    await place.run("approvals", "approve", waits["structuredContent"]["approval"][:12], *options)
    assert place.noted == ["sent to Rome"]
    async with gateway(place) as second:
        assert text(await second.call("send", city="Rome")) == "sent to Rome"
    async with gateway(place) as third:
        assert (await third.call("send", city="Rome"))["structuredContent"]["status"] == "awaiting_approval"
    assert place.noted == ["sent to Rome"]


async def test_a_killed_owner_s_running_call_is_reported_as_in_doubt_once(place: Place) -> None:
    async with gateway(place) as first:
        await first.send("tools/call", name="begin", arguments={"word": "one"})
        await place.until_noted("began one")
        await first.kill()
    place.let_end("one")
    async with gateway(place) as second:
        told = await second.call("begin", word="one")
        assert told["structuredContent"]["error_code"] == "unknown_outcome"
        assert place.noted == ["began one"]
        assert text(await second.call("begin", word="one")) == "ended one"
    assert place.noted == ["began one", "began one", "ended one"]


async def test_a_killed_guest_s_call_goes_on_and_its_answer_is_read_by_the_next(place: Place) -> None:
    async with World.open(place.world, [send, begin], POLICY) as world:
        await world.call("begin", {"word": "nothing"} | {"unknown": 1})  # the owner listens
        async with gateway(place) as first:
            await first.send("tools/call", name="begin", arguments={"word": "one"})
            await place.until_noted("began one")
            await first.kill()
        place.let_end("one")
        await place.until_noted("ended one")
        async with gateway(place) as second, gateway(place) as third:
            assert text(await second.call("begin", word="one")) == "ended one"
            assert place.noted == ["began one", "ended one"]
            assert text(await third.call("begin", word="one")) == "ended one"
            assert place.noted == ["began one", "ended one"] * 2


async def test_a_gateway_takes_over_a_killed_owner_s_world(place: Place) -> None:
    async with gateway(place) as owner:
        await owner.call("send", city="Oslo")
        async with gateway(place) as guest:
            waits = await guest.call("send", city="Rome")
            await owner.kill()
            again = await guest.call("send", city="Rome")
            assert again["structuredContent"]["approval"] == waits["structuredContent"]["approval"]
            await place.run("approvals", "approve", waits["structuredContent"]["approval"][:12])
            assert text(await guest.call("send", city="Rome")) == "sent to Rome"
    assert place.noted == ["sent to Rome"]


async def test_a_line_that_is_too_long_is_dropped_and_the_next_is_answered(place: Place) -> None:
    async with gateway(place) as wire:
        assert wire.process.stdin is not None
        wire.process.stdin.write(b'{"x": "' + b"y" * (5 * 1024 * 1024) + b'"}\nno json\n\n')
        await wire.send("tools/list")
        answer = await wire.read()
        while "result" not in answer:
            answer = await wire.read()
    assert [each["name"] for each in answer["result"]["tools"]] == ["begin", "send"]


async def test_a_token_s_caller_calls_as_itself_and_a_filter_offers_one_tool(place: Place) -> None:
    place.environment["DEMIURGE_TOKEN"] = ""
    async with World.open(place.world, [send, begin], POLICY) as world:
        secret = (await world.tokens.add("agent:editor", ["agent"])).secret
        place.environment["DEMIURGE_TOKEN"] = secret
        async with gateway(place, "--tool", "send") as wire:
            await wire.send("tools/list")
            answer = await wire.read()
            assert [each["name"] for each in answer["result"]["tools"]] == ["send"], answer
            await wire.call("send", city="Rome")
            [waiting] = await world.approvals()
            [token] = await world.tokens.list()
            await world.tokens.revoke(token.id)
            refused = await wire.call("send", city="Rome")
    assert waiting["actor"] == "agent:editor"
    assert refused["structuredContent"]["error_code"] == "unauthorized"


class GoneClient:
    """The write end of a pipe whose client has gone."""

    def write(self, line: bytes) -> None:
        pass

    async def drain(self) -> None:
        raise ConnectionResetError


class ReadingClient(GoneClient):
    """The write end of a pipe whose client reads."""

    async def drain(self) -> None:
        pass


@pytest.mark.parametrize(
    ("client", "answers", "is_sent"),
    [(ReadingClient(), True, True), (ReadingClient(), False, False), (GoneClient(), True, False)],
)
async def test_the_work_after_an_answer_is_done_whether_the_answer_is_sent_or_not(
    client: Any, answers: bool, is_sent: bool
) -> None:
    told: list[tuple[int, bool]] = []
    begun: list[asyncio.Future[None]] = []
    pipe = _Pipe(asyncio.StreamReader(), client, lambda work: begun.append(asyncio.ensure_future(work)))

    async def request(number: int) -> None:
        async def work(sent: bool) -> None:
            told.append((number, sent))

        assert pipe.once_sent(SimpleNamespace(request_id=1), work)  # a client may use one id twice
        if answers:
            await pipe.send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=1, result={})))

    await asyncio.gather(request(1), request(2))
    while len(begun) < 2:
        await asyncio.sleep(0)
    await asyncio.gather(*begun)
    for stream in pipe.incoming:
        stream.close()
    assert sorted(told) == [(1, is_sent), (2, is_sent)]


@pytest.mark.parametrize("stdin", ["in", os.devnull])
async def test_a_file_in_place_of_a_pipe_is_refused(tmp_path: Path, stdin: str) -> None:
    (tmp_path / "in").touch()
    gateway = McpGateway(lambda _: None, None)  # type: ignore[arg-type, return-value]
    with (
        (tmp_path / stdin).open("r+b", buffering=0) as taken,
        (tmp_path / "out").open("w+b") as given,
        pytest.raises(UsageError) as refused,
    ):
        await serve_stdio(gateway, taken.fileno(), given.fileno())
    assert refused.value.code == "no_pipe"
