"""Processes of servers: their environment, their end with ours, and no way to our terminal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.mcp.conftest import BIN, MALICIOUS, Bad, until

from demiurge.errors import Unavailable
from demiurge.mcp import McpClients, ServerSettings
from demiurge.mcp.clients import Listing
from demiurge.mcp.connection import ServerConnection
from demiurge.mcp.server_process import INHERITED, ServerProcess
from demiurge.mcp.supervisor import SupervisedServer
from demiurge.tools import ToolContext, ToolEffect, ToolResult
from demiurge.tools.capabilities import SecretName
from demiurge.values.clock import SystemClock

PRINT_ENVIRONMENT = "import json, os, sys; print(json.dumps([dict(os.environ), os.getcwd(), os.getsid(0)]), flush=True)"

HOST = """
import asyncio, sys
from demiurge.mcp import McpClients, ServerSettings

async def main():
    clients = McpClients(stop_s=0.2)
    await clients.list_tools(ServerSettings("bad", command=tuple(sys.argv[1:])))
    print("listed", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


async def test_a_server_gets_a_short_environment_and_its_own_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary-1")
    command = (sys.executable, "-c", PRINT_ENVIRONMENT)
    process = await ServerProcess.start(command, {"LEVEL": "debug"}, str(tmp_path))
    environment, folder, session = json.loads(await process.stdout.readline())
    await process.stop(5)
    assert set(environment) - {"LC_CTYPE", "PWD"} <= {*INHERITED, "LEVEL"}
    assert (environment["LEVEL"], folder, session) == ("debug", str(tmp_path), process.pid)
    assert environment["PATH"] == os.environ["PATH"]


async def test_the_pipes_and_signals_of_a_server_are_those_of_any_program() -> None:
    command = (sys.executable, "-S", "-c", "import signal; print(signal.getsignal(signal.SIGXFSZ).name, flush=True)")
    ordinary = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    process = await ServerProcess.start(command, {}, None)
    assert (await process.stdout.readline()).decode() == ordinary
    await process.stop(5)


@pytest.mark.parametrize(
    ("command", "folder", "message"),
    [
        (("no-such-program-1",), None, "The program no-such-program-1 is not there."),
        (("/no/such/program",), None, "The program /no/such/program is not there."),
        ((sys.executable,), "/no/such/folder", "The folder /no/such/folder is not there."),
    ],
)
async def test_a_program_that_is_not_there_is_named(
    command: tuple[str, ...], folder: str | None, message: str, clients: McpClients
) -> None:
    with pytest.raises(Unavailable) as caught:
        await clients.list_tools(ServerSettings("gone", command=command, cwd=folder))
    assert caught.value.message.startswith(message)


async def test_references_are_looked_up_when_a_server_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_TEST_FOLDER", str(tmp_path))
    seen: list[SecretName] = []

    def secret_of(name: SecretName) -> str:
        seen.append(name)
        return "canary-2"

    script = "import os, pathlib; pathlib.Path('env').write_text(os.environ['KEY'] + os.environ['LEVEL'])"
    settings = ServerSettings(
        "a",
        command=(sys.executable, "-c", script),
        cwd="${MCP_TEST_FOLDER}",
        env={"KEY": SecretName("a", 2), "LEVEL": "${NO_SUCH_VARIABLE:-info}"},
    )
    clients = McpClients(secret_of=secret_of)
    with pytest.raises(Unavailable):
        await clients.list_tools(settings)
    await clients.close()
    assert (tmp_path / "env").read_text() == "canary-2info"
    assert seen == [SecretName("a", 2)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${NO_SUCH_VARIABLE}", "The server a needs the variable NO_SUCH_VARIABLE."),
        (SecretName("key", 1), "The server a needs the secret key"),
    ],
)
async def test_a_reference_to_nothing_is_named(value: str | SecretName, message: str, clients: McpClients) -> None:
    with pytest.raises(Unavailable) as caught:
        await clients.list_tools(ServerSettings("a", command=(sys.executable,), env={"KEY": value}))
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
async def test_a_server_dies_with_the_process_that_started_it(number: signal.Signals, tmp_path: Path) -> None:
    counter = tmp_path / "acted"
    command = (sys.executable, "-S", str(MALICIOUS), "ignores_sigterm", str(counter))
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, *command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert host.stdout is not None
    assert await host.stdout.readline() == b"listed\n"
    pid = int((tmp_path / "acted.pid").read_text())
    assert is_alive(pid)
    host.send_signal(number)
    await host.wait()
    await until(lambda: not is_alive(pid))


async def test_an_interrupt_at_the_terminal_does_not_reach_a_server(bad: Bad, counter: Path) -> None:
    clients = McpClients(stop_s=5)
    await clients.list_tools(bad("none"))
    pid = int(counter.with_name("acted.pid").read_text())
    assert os.getpgid(pid) == pid
    assert os.getsid(pid) == pid
    await clients.close()
    assert not is_alive(pid)


async def test_a_server_that_ended_between_calls_is_started_again(bad: Bad, clients: McpClients, counter: Path) -> None:
    settings = bad("none")
    pinned = (await clients.list_tools(settings)).find("act")
    assert pinned is not None
    for _ in range(2):
        os.kill(int(counter.with_name("acted.pid").read_text()), signal.SIGKILL)
        await until(lambda: not clients.is_running("bad"))
        assert clients.problem("bad") in ("The server ended.", "")
        result = await clients.call(settings, pinned, {}, ToolContext(), ToolEffect.EXTERNAL_SIDE_EFFECT)
        assert isinstance(result, ToolResult)
    assert counter.read_text() == "acted\n" * 2


async def test_a_server_that_does_not_answer_its_start_is_ended_with_the_clients(tmp_path: Path) -> None:
    """Nothing waits for the answer, or for the time that a server has to answer and to end."""
    reads = "import pathlib, sys; pathlib.Path('started').touch(); sys.stdin.read()"
    clients = McpClients(start_s=600, stop_s=600)
    settings = ServerSettings("silent", command=(sys.executable, "-S", "-c", reads), cwd=str(tmp_path))
    listing = asyncio.create_task(clients.list_tools(settings))
    await until((tmp_path / "started").exists)
    async with asyncio.timeout(60):
        await clients.close()
        with pytest.raises(Unavailable, match="The server was stopped while it started"):
            await listing


async def test_other_settings_start_the_server_anew(bad: Bad, clients: McpClients, counter: Path) -> None:
    await clients.list_tools(bad("none"))
    pid = int(counter.with_name("acted.pid").read_text())
    await clients.list_tools(bad("none", timeout_s=7))
    assert int(counter.with_name("acted.pid").read_text()) != pid
    assert not is_alive(pid)
    await clients.stop("bad")
    assert not clients.is_running("bad")


async def test_a_server_writes_nothing_to_our_terminal(tmp_path: Path) -> None:
    code = HOST.replace('print("listed", flush=True)\n    await asyncio.sleep(3600)', "await clients.close()")
    command = (sys.executable, "-S", str(MALICIOUS), "stderr_flood", str(tmp_path / "acted"))
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert await host.communicate() == (b"", b"")
    assert host.returncode == 0


@pytest.mark.parametrize(
    ("package", "arguments", "tool", "given", "expected"),
    [
        ("time", (), "get_current_time", {"timezone": "Asia/Tokyo"}, '"timezone": "Asia/Tokyo"'),
        ("git", (), "git_log", {"repo_path": "{repository}", "max_count": 1}, "the first commit"),
    ],
)
async def test_a_server_of_others(
    package: str,
    arguments: tuple[str, ...],
    tool: str,
    given: dict[str, object],
    expected: str,
    tmp_path: Path,
    clients: McpClients,
) -> None:
    for command in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "the first commit")):
        identity = ("-c", "user.name=a", "-c", "user.email=a@a.example")
        subprocess.run(("git", *identity, *command), cwd=tmp_path, check=True)
    settings = ServerSettings(package, command=(str(BIN / f"mcp-server-{package}"), *arguments))
    listing = await clients.list_tools(settings)
    assert listing.protocol == "2026-07-28"
    assert listing.problems == ()
    pinned = listing.find(tool)
    assert pinned is not None
    filled = {
        name: value.format(repository=tmp_path) if isinstance(value, str) else value for name, value in given.items()
    }
    result = await clients.call(settings, pinned, filled, ToolContext(), ToolEffect.READ_ONLY)
    assert isinstance(result, ToolResult)
    assert result.success
    assert expected in result.message
    refused = await clients.call(settings, pinned, {}, ToolContext(), ToolEffect.READ_ONLY)
    assert isinstance(refused, ToolResult)
    assert not refused.success


async def test_a_server_that_hangs_at_its_start_is_not_quoted_with_the_words_of_an_earlier_one() -> None:
    starts: list[str] = []

    @asynccontextmanager
    async def connect(settings: ServerSettings, on_change: Callable[[], None]) -> AsyncIterator[ServerConnection]:
        starts.append(settings.name)
        if len(starts) == 1:
            raise Unavailable("It ended.", code="server_unavailable", details={"log": "no config"})
        await asyncio.Event().wait()
        yield  # type: ignore[misc]  # never reached

    async def told(name: str, listing: Listing) -> None:
        pass

    settings = ServerSettings("bad", command=("bad",))
    server = SupervisedServer(settings, connect, SystemClock(), told, start_s=0.05, stop_s=0.01)
    for problem, log in (("It ended.", "no config"), ("The server did not answer in time when it was started.", "")):
        with pytest.raises(Unavailable):
            await server.connection()
        assert (server.problem, server.log) == (problem, log)
    await server.close()
