"""Servers that other people published, as a user adds them to a world, and the same through the gateway.

Each is called once as it should be, once with arguments that it refuses itself, once with arguments that break its
schema, and under a name that it does not have; in each era that it speaks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from tests.bootstrap.mcp.mcp_worlds import intact, opened
from tests.mcp.conftest import BIN, installed  # noqa: F401  (a fixture)
from tests.mcp.gateway.conftest import ERAS
from tests.mcp.gateway.test_servers import gateway_to
from tests.ports import reserved_port

from demiurge.bootstrap.backend import owner
from demiurge.bootstrap.gateway import own_names
from demiurge.mcp import McpClients, ServerSettings
from demiurge.mcp.gateway.names import ToolNames
from mcp import Client

Arguments = Callable[[Path], dict[str, Any]]


@dataclass(frozen=True)
class Published:
    """A server: its command, of which `{}` stands for a folder, and the tool that is called. `refused`: arguments that
    the server itself refuses, None if it refuses none; `kinds`: how many tools, prompts, resources and templates it
    has at least."""

    name: str
    command: tuple[str, ...]
    tool: str
    good: Arguments
    says: str
    refused: Arguments | None
    bad: dict[str, Any]
    kinds: tuple[int, int, int, int]
    env: dict[str, str] = field(default_factory=dict)
    eras: tuple[str, ...] = ("2025-11-25",)
    is_http: bool = False


BOTH = ("2025-11-25", "2026-07-28")

TIME = Published(
    "time",
    ("mcp-server-time",),
    "convert_time",
    lambda _: {"source_timezone": "Europe/Rome", "time": "12:00", "target_timezone": "Asia/Tokyo"},
    "+8.0h",
    lambda _: {"source_timezone": "No/Where", "time": "12:00", "target_timezone": "Asia/Tokyo"},
    {"time": 12},
    (2, 0, 0, 0),
    eras=BOTH,
)
GIT = Published(
    "git",
    ("mcp-server-git", "--repository", "{}"),
    "git_status",
    lambda folder: {"repo_path": str(folder)},
    "nothing to commit",
    lambda folder: {"repo_path": str(folder / "none")},
    {"repo_path": 5},
    (12, 0, 0, 0),
    eras=BOTH,
)
FILES = Published(
    "filesystem",
    ("mcp-server-filesystem", "{}"),
    "list_directory",
    lambda folder: {"path": str(folder)},
    "[DIR] .git",
    lambda _: {"path": "/etc"},
    {},
    (14, 0, 0, 0),
)
MEMORY = Published(
    "memory",
    ("mcp-server-memory",),
    "search_nodes",
    lambda _: {"query": "tea"},
    "entities",
    None,
    {"query": ["tea"]},
    (9, 0, 1, 0),
    env={"MEMORY_FILE_PATH": "{}/memory.json"},
)
EVERYTHING = Published(
    "everything",
    ("mcp-server-everything",),
    "get-resource-reference",
    lambda _: {"resourceType": "Text", "resourceId": 1},
    "demo://resource/dynamic/text/1",
    lambda _: {"resourceType": "Text", "resourceId": -1},
    {"resourceId": "one"},
    (13, 4, 7, 2),
)
OVER_HTTP = Published(**{**vars(EVERYTHING), "is_http": True})


@asynccontextmanager
async def settings_of(server: Published, programs: Path, folder: Path) -> AsyncIterator[ServerSettings]:
    """The settings of a server, which is started if it is reached over HTTP."""
    program, *arguments = (word.format(folder) for word in server.command)
    command = (str(programs / program), *arguments)
    if not server.is_http:
        env = {name: value.format(folder) for name, value in server.env.items()}
        yield ServerSettings(server.name, command=command, env=env)
        return
    with reserved_port() as port:
        env = {"PORT": str(port), "PATH": f"{BIN}:/usr/bin:/bin"}
        running = await asyncio.create_subprocess_exec(
            *command, "streamableHttp", env=env, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            assert running.stderr is not None
            async with asyncio.timeout(60):
                while b"listening" not in (line := await running.stderr.readline()):
                    assert line
            yield ServerSettings(server.name, "http", url=f"http://127.0.0.1:{port}/mcp")
        finally:
            os.killpg(running.pid, signal.SIGKILL)  # node may be the child of a wrapper
            await running.wait()


async def use(server: Published, era: str, settings: ServerSettings, folder: Path, home: Path) -> None:
    """Adds a server to a world, trusts it, and calls it there and through a gateway."""
    async with opened(home / "w") as world:
        await world.mcp.add(settings)
        view = await world.mcp.refresh(server.name)
        assert (view.protocol, view.problem) == (era, None)
        await world.mcp.trust(server.name, rule="allow", effect="read_only")
        tool = f"mcp__{server.name}__{server.tool}"
        done = await world.call(tool, server.good(folder))
        assert done.ok
        assert server.says in done.content
        wrong = [(server.bad, "validation"), *([(server.refused(folder), "execution")] if server.refused else [])]
        for arguments, code in wrong:
            assert (await world.call(tool, arguments)).error_code == code
        assert (await world.call(f"mcp__{server.name}__no_such_tool", {})).error_code == "policy_denied"
        names = ToolNames(None, await own_names(world, server.name), server.name)
        for mode in ERAS:
            gateway, _ = gateway_to(world, names)
            async with Client(gateway.server, mode=mode) as client:
                found: tuple[list[Any], ...] = (
                    (await client.list_tools()).tools,
                    (await client.list_prompts()).prompts,
                    (await client.list_resources()).resources,
                    (await client.list_resource_templates()).resource_templates,
                )
                assert all(len(each) >= least for each, least in zip(found, server.kinds, strict=True))
                result = await client.call_tool(server.tool, server.good(folder))
                assert server.says in str(result.content)
                for arguments, _ in wrong:
                    assert (await client.call_tool(server.tool, arguments)).is_error
                with pytest.raises(MCPError, match="Unknown tool: no_such_tool"):
                    await client.call_tool("no_such_tool", {})
            await gateway.close()
        await intact(world)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an empty repository."""
    made = tmp_path / "files"
    subprocess.run(["git", "init", "--quiet", str(made)], check=True)
    return made


def speak(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the owners of worlds speak one era only."""
    protocol = "auto" if era == BOTH[1] else "legacy"
    monkeypatch.setattr(owner, "McpClients", partial(McpClients, protocol=protocol))


@pytest.mark.parametrize(
    ("server", "era"), [pytest.param(each, era, id=f"{each.name}-{era}") for each in (TIME, GIT) for era in each.eras]
)
async def test_servers_of_pypi(
    server: Published, era: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speak(era, monkeypatch)
    async with settings_of(server, BIN, folder) as settings:
        await use(server, era, settings, folder, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize(
    "server", [FILES, MEMORY, EVERYTHING, OVER_HTTP], ids=lambda each: f"{each.name}{each.is_http}"
)
async def test_servers_of_npm(server: Published, installed: Path, folder: Path, tmp_path: Path) -> None:  # noqa: F811
    async with settings_of(server, installed, folder) as settings:
        await use(server, server.eras[0], settings, folder, tmp_path)
