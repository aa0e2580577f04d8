"""The reference servers of npm, which speak the older era only: listed, called, and their questions asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from demiurge.mcp import Limits, McpClients, McpToolProvider, ServerSettings, ToolDefinition
from demiurge.tools import Image, ToolContext, ToolEffect, ToolPolicy, ToolResult, ToolRunner
from demiurge.tools.input_required import Answer, Answers, InputRequired

pytestmark = pytest.mark.full

COUNTS = {"everything": 13, "filesystem": 14, "memory": 9}
ACTS = ToolEffect.EXTERNAL_SIDE_EFFECT


def settings(installed: Path, name: str, *arguments: str, **more: Any) -> ServerSettings:
    return ServerSettings(name, command=(str(installed / f"mcp-server-{name}"), *arguments), **more)


@pytest.fixture
async def clients() -> AsyncIterator[McpClients]:
    made = McpClients()
    yield made
    await made.close()


async def call(clients: McpClients, server: ServerSettings, name: str, **arguments: Any) -> ToolResult[Any]:
    pinned = (await clients.list_tools(server)).find(name)
    assert pinned is not None
    result = await clients.call(server, pinned, arguments, ToolContext(), ACTS)
    assert isinstance(result, ToolResult)
    return result


@pytest.mark.parametrize("name", list(COUNTS))
async def test_a_server_lists_its_tools_in_the_older_era(
    name: str, installed: Path, clients: McpClients, tmp_path: Path
) -> None:
    listing = await clients.list_tools(settings(installed, name, *([str(tmp_path)] if name == "filesystem" else [])))
    assert len(listing.definitions) >= COUNTS[name]
    assert listing.protocol == "2025-11-25"
    assert listing.problems == ()


async def test_files_are_written_and_read(installed: Path, clients: McpClients, tmp_path: Path) -> None:
    server = settings(installed, "filesystem", str(tmp_path))
    written = await call(clients, server, "write_file", path=str(tmp_path / "a.txt"), content="hello")
    assert written.success
    assert (tmp_path / "a.txt").read_text() == "hello"
    read = await call(clients, server, "read_text_file", path=str(tmp_path / "a.txt"))
    assert read.value == {"content": "hello"}
    outside = await call(clients, server, "read_text_file", path="/etc/passwd")
    assert not outside.success


async def test_a_memory_is_kept(installed: Path, clients: McpClients, tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    server = settings(installed, "memory", env={"MEMORY_FILE_PATH": str(file)})
    entity = {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}
    assert (await call(clients, server, "create_entities", entities=[entity])).success
    graph = await call(clients, server, "read_graph")
    assert graph.value == {"entities": [entity], "relations": []}


async def test_results_progress_and_the_environment(installed: Path, clients: McpClients) -> None:
    server = settings(installed, "everything", limits=Limits(timeout_s=60))
    assert "Echo: hi" in (await call(clients, server, "echo", message="hi")).message
    [image] = (await call(clients, server, "get-tiny-image")).parts
    assert isinstance(image, Image)
    seen: list[float] = []
    context = ToolContext(_report=lambda done, total, message: seen.append(done))
    pinned = (await clients.list_tools(server)).find("trigger-long-running-operation")
    assert pinned is not None
    result = await clients.call(server, pinned, {"duration": 1, "steps": 4}, context, ACTS)
    assert isinstance(result, ToolResult)
    assert seen
    environment = (await call(clients, server, "get-env")).message
    assert "OPENAI" not in environment
    assert "HOME" in environment


async def test_a_server_asks_a_person(installed: Path) -> None:
    asked: list[str] = []

    def answer(tool_id: str, required: InputRequired) -> dict[str, Answer]:
        asked.extend(question.message for question in required.questions)
        return {question.key: Answer("decline") for question in required.questions}

    def confirm(server: str, definition: ToolDefinition) -> bool:
        return True

    name = "trigger-elicitation-request"
    server = settings(installed, "everything")
    async with McpToolProvider(server, trust={"everything": [name]}, confirm=confirm) as tools:
        tool_id = f"mcp__everything__{name}"
        runner = ToolRunner(tools, policy=ToolPolicy((tool_id,)), resources={Answers: answer})
        result = await runner.exec(tool_id, {})
    assert len(asked) == 1
    assert result.ok
    assert "declin" in result.content
