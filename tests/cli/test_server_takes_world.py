"""A server starts whoever has its world open: it takes the world over from an editor's gateway, and joins another
server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cli.conftest import Processes, Run
from tests.cli.test_webhooks import granted, receiving
from tests.mcp.gateway.noting_tools import NOTES, begin
from tests.mcp.gateway.test_stdio import META, ROOT
from tests.provider import Provider, call, responses, text

from demiurge import ToolPolicy, World
from demiurge.bootstrap.backend import hand_over
from demiurge.bootstrap.backend.ownership import is_open
from demiurge.cli.serve import THROUGH_ANOTHER

__all__ = ["granted"]

LONGEST_S = 300.0
NO_KEY = {"LLM_API_KEY": ""}


def until(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


class Editor:
    """An editor that speaks MCP to its `demiurge mcp serve`, which has no key of a model."""

    def __init__(self, process: Processes, *options: str) -> None:
        self.running = process.start("mcp", "serve", "--shipped", *options, given=NO_KEY, stdin=subprocess.PIPE)

    def time_in_utc(self) -> str:
        """Returns the result of a call of `core__get_current_time`."""
        assert self.running.stdin is not None
        assert self.running.stdout is not None
        called = {"name": "core__get_current_time", "arguments": {"timezone": "UTC"}, "_meta": META}
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}
        self.running.stdin.write(json.dumps(request) + "\n")
        self.running.stdin.flush()
        answer = json.loads(self.running.stdout.readline())
        assert "result" in answer, answer
        assert not answer["result"].get("isError"), answer
        return str(answer["result"]["content"])


class Server:
    """`demiurge serve` in a process of its own."""

    def __init__(self, process: Processes, *options: str, given: dict[str, str] | None = None) -> None:
        self.running = process.start("serve", "--port", "0", "--json", *options, given=given)
        assert self.running.stdout is not None
        line = self.running.stdout.readline()
        assert line, self.running.communicate(timeout=60)[1]
        self.url = json.loads(line)["url"]

    def post(self, token: str, path: str, **body: Any) -> Any:
        answer = httpx.post(
            f"{self.url}{path}", json=body, headers={"authorization": f"Bearer {token}"}, timeout=LONGEST_S
        )
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, token: str, path: str) -> Any:
        answer = httpx.get(f"{self.url}{path}", headers={"authorization": f"Bearer {token}"}, timeout=LONGEST_S)
        assert answer.is_success, answer.text
        return answer.json()

    def kill(self) -> None:
        self.running.kill()
        self.running.wait(60)

    def stop(self) -> str:
        """Stops the server as a service manager does. Returns its stderr."""
        self.running.terminate()
        _, said = self.running.communicate(timeout=60)
        assert self.running.returncode == 0
        return said


def test_a_killed_server_comes_back_while_an_editor_has_the_world(
    granted: Run, process: Processes, provider: Provider, world: Path
) -> None:
    token = granted("tokens", "add", "user:ada", "--role", "user").out.strip()
    first = Server(process)
    editor = Editor(process)
    assert "UTC" in editor.time_in_utc()  # the gateway has joined
    first.kill()
    until(lambda: is_open(world))  # the gateway owns the world
    server = Server(process)
    with receiving([204]) as (receiver, bodies):
        server.post(token, "/api/chats", chat_id="c1")
        served = ("-w", server.url, "--token", token)
        assert granted(*served, "webhooks", "add", receiver).status == 0
        provider.say(responses(call("workspace__write", {"path": "a.txt", "text": "x"})), responses(text("Written.")))
        server.post(token, "/api/chats/c1/messages", text="Write it")  # only the server has the model's key
        until(lambda: bodies)
        said = json.loads(bodies[0])["data"]
        assert said["link"] == f"{server.url}/approvals"
        assert granted(*served, "approvals", "approve", said["id"]).status == 0
        assert "UTC" in editor.time_in_utc()
        until(lambda: "Written." in granted(*served, "chat", "show", "c1").out)

        second = Server(process)
        second.post(token, "/api/chats", chat_id="c2")
        server.kill()
        second.post(token, "/api/chats", chat_id="c3")
        assert "UTC" in editor.time_in_utc()
    assert THROUGH_ANOTHER in second.stop()
    _, said = editor.running.communicate(timeout=60)
    assert editor.running.returncode == 0
    assert "A server takes this world over; this command goes on through it." in said


def test_options_of_a_server_count_and_two_servers_may_not_differ(
    demiurge: Run, process: Processes, tmp_path: Path
) -> None:
    assert demiurge("init").status == 0
    editor = Editor(process)
    assert "UTC" in editor.time_in_utc()
    named = ToolPolicy(allowed_tools=("core__get_current_time", "workspace__read"))
    (tmp_path / "named.json").write_text(json.dumps(named.to_json()))
    server = Server(process, "--policy", "named.json")
    in_force = json.loads(demiurge("manifest", "get").out)["tool_policy"]
    assert in_force["allowed_tools"] == list(named.allowed_tools)
    assert "UTC" in editor.time_in_utc()
    (tmp_path / "other.json").write_text(json.dumps(ToolPolicy(allowed_tools=()).to_json()))
    refused = process("serve", "--port", "0", "--policy", "other.json")
    assert refused.status == 1
    assert "another policy" in refused.err
    server.stop()


async def test_a_server_joins_a_program_and_waits_for_a_running_call(
    process: Processes, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NOTES, str(tmp_path / "notes"))
    monkeypatch.setattr(hand_over, "LIMIT_S", 0.1)
    async with World.open(world, [begin]) as program:
        await program.settle()
        server = await asyncio.to_thread(Server, process)
        assert program.owned
        assert THROUGH_ANOTHER in await asyncio.to_thread(server.stop)
    policy = ToolPolicy(allowed_tools=("begin",))
    (tmp_path / "policy.json").write_text(json.dumps(policy.to_json()))
    async with World.open(world, [begin], policy, ownership="yield") as client:
        running = asyncio.create_task(client.call("begin", {"word": "it"}))
        while not (tmp_path / "notes").exists():
            await asyncio.sleep(0.02)
        given = {NOTES: str(tmp_path / "notes"), "PYTHONPATH": str(ROOT)}
        options = ("--tools", "tests.mcp.gateway.noting_tools", "--policy", "policy.json")
        starting = process.start("serve", "--port", "0", "--json", *options, given=given)
        assert starting.stderr is not None
        said = await asyncio.to_thread(starting.stderr.readline)
        assert "begin" in said
        assert "This process waits until then." in said
        (tmp_path / "notes.it").touch()
        assert (await running).ok
        assert starting.stdout is not None
        assert "login" in await asyncio.to_thread(starting.stdout.readline)
        assert client.joined
        starting.terminate()
        assert await asyncio.to_thread(starting.wait, 60) == 0
        assert (tmp_path / "notes").read_text().splitlines() == ["began it", "ended it"]
