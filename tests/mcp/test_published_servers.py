"""Servers that other people published, asked by a client of its own and through `demiurge mcp serve`: a person trusts a
server with its results public, and then listing and results are equal, block by block.

What may differ is the list of docs/mcp-gateway.md ("Results of MCP servers"): names without `--server` and the order of
tools, `execution` that asks for a task, our keys in `_meta`, and the words of an error that never reached the server or
that is one of the protocol. Times of day are no part of the comparison.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Literal

import mcp_types as types
import pytest
from tests.mcp.fixture_content import DOT

from mcp import Client, MCPError, StdioServerParameters

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

PYPI: Final = {
    "newer": ("mcp-server-fetch==2026.10.24", "mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19"),
    "older": ("mcp<2", "mcp-server-calculator==0.2.0", "mcp-server-duckdb==1.1.0", "mcp-server-sqlite==2025.4.25"),
}
"""The packages of two environments: some servers need version 1 of the SDK."""

DAY: Final = "2026-01-02T03:04:05+00:00"
PERSON: Final = {"NAME": "Ada", "EMAIL": "ada@example.com", "DATE": DAY}
GIT: Final = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in PERSON.items()}
CLOCK: Final = re.compile(r"(\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\d(\.\d+)?")
OURS: Final = ("demiurge/", "io.modelcontextprotocol/")
LEAST_CALLS: Final = 40


@dataclass(frozen=True)
class Ask:
    """A call of a tool. `{at}` in an argument stands for the folder of data, `{web}` for an address on loopback.
    `is_refused`: a call that never reaches the server, or that is answered with an error of the protocol."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    is_refused: bool = False


def ask(tool: str, **arguments: Any) -> Ask:
    return Ask(tool, arguments)


def refused(tool: str, **arguments: Any) -> Ask:
    return Ask(tool, arguments, is_refused=True)


@dataclass(frozen=True)
class Published:
    """A server: its command in the environment `where` or in npm's folder, and what is asked of it. Both clients speak
    the older protocol where the server speaks no other."""

    where: str
    command: tuple[str, ...]
    asks: tuple[Ask, ...]
    env: Mapping[str, str] = field(default_factory=dict)


ENTITY: Final = {"name": "Ann", "entityType": "person", "observations": ["likes tea", "ends with a line\n"]}
KNOWS: Final = {"from": "Ann", "to": "Bob", "relationType": "knows"}
THOUGHT: Final = {"thought": "First,\n\tlook.\n", "thoughtNumber": 1, "totalThoughts": 2, "nextThoughtNeeded": True}

SERVERS: Final[Mapping[str, Published]] = {
    "time": Published(
        "newer",
        ("mcp-server-time", "--local-timezone", "Europe/Paris"),
        (
            ask("get_current_time", timezone="Asia/Tokyo"),
            ask("get_current_time", timezone="Nowhere/Land"),
            ask("convert_time", source_timezone="Europe/Paris", time="12:30", target_timezone="Asia/Kathmandu"),
            ask("convert_time", source_timezone="Europe/Paris", time="25:99", target_timezone="Asia/Tokyo"),
            refused("get_current_time"),
        ),
    ),
    "git": Published(
        "newer",
        ("mcp-server-git",),
        (
            ask("git_status", repo_path="{at}/repo"),
            ask("git_diff_unstaged", repo_path="{at}/repo"),
            ask("git_add", repo_path="{at}/repo", files=["a.txt"]),
            ask("git_diff_staged", repo_path="{at}/repo", context_lines=0),
            ask("git_commit", repo_path="{at}/repo", message="Say more\n\nWith a body.\n"),
            ask("git_log", repo_path="{at}/repo", max_count=2),
            ask("git_show", repo_path="{at}/repo", revision="HEAD"),
            ask("git_create_branch", repo_path="{at}/repo", branch_name="side"),
            ask("git_branch", repo_path="{at}/repo", branch_type="local"),
            ask("git_checkout", repo_path="{at}/repo", branch_name="nowhere"),
            ask("git_status", repo_path="{at}/none"),
        ),
        GIT,
    ),
    "fetch": Published(
        "newer",
        ("mcp-server-fetch",),
        (
            ask("fetch", url="{web}/page.html"),
            ask("fetch", url="{web}/page.html", raw=True),
            ask("fetch", url="{web}/long.txt", max_length=20),
            ask("fetch", url="{web}/long.txt", max_length=20, start_index=100000),
            ask("fetch", url="{web}/none.html"),
            ask("fetch", url="http://127.0.0.1:1/"),
            refused("fetch", url="{web}/page.html", max_length=-1),
        ),
    ),
    "sqlite": Published(
        "older",
        ("mcp-server-sqlite", "--db-path", "{at}/a.db"),
        (
            ask("create_table", query="CREATE TABLE part (id INTEGER PRIMARY KEY, name TEXT, price REAL)"),
            ask("write_query", query="INSERT INTO part (name, price) VALUES ('bolt\n', 0.5), ('Mutter ä', NULL)"),
            ask("read_query", query="SELECT * FROM part"),
            ask("read_query", query="DELETE FROM part"),
            ask("read_query", query="SELECT nothing FROM nowhere"),
            ask("list_tables"),
            ask("describe_table", table_name="part"),
            ask("append_insight", insight="Bolts are cheap.\n"),
        ),
    ),
    "duckdb": Published(
        "older",
        ("mcp-server-duckdb", "--db-path", "{at}/a.duckdb"),
        (
            ask("query", query="CREATE TABLE part AS SELECT 1 AS id, 'bolt\n' AS name"),
            ask("query", query="SELECT * FROM part UNION ALL SELECT 2, NULL"),
            ask("query", query="SELECT nothing FROM nowhere"),
        ),
    ),
    "calculator": Published(
        "older",
        ("mcp-server-calculator",),
        (
            ask("calculate", expression="2 ** 10 / 4"),
            ask("calculate", expression="1 / 0"),
            ask("calculate", expression="import os"),
        ),
    ),
    "everything": Published(
        "npm",
        ("mcp-server-everything",),
        (
            ask("echo", message="hi \u00e4\n\n"),
            ask("get-sum", a=0.1, b=0.2),
            ask("get-tiny-image"),
            ask("get-annotated-message", messageType="error", includeImage=True),
            ask("get-annotated-message", messageType="debug"),
            ask("get-resource-links", count=2),
            ask("get-structured-content", location="Chicago"),
            ask("gzip-file-as-resource", name="a.gz", data="data:text/plain,hello", outputType="resource"),
            ask("trigger-long-running-operation", duration=1, steps=2),
            ask("get-resource-reference", resourceType="Blob", resourceId=-1),
            refused("get-sum", a="one", b=2),
            refused("no-such-tool"),
        ),
    ),
    "filesystem": Published(
        "npm",
        ("mcp-server-filesystem", "{at}"),
        (
            ask("read_text_file", path="{at}/lines.txt"),
            ask("read_text_file", path="{at}/lines.txt", head=1),
            ask("read_text_file", path="/etc/passwd"),
            ask("read_media_file", path="{at}/dot.png"),
            ask("read_multiple_files", paths=["{at}/lines.txt", "{at}/none.txt"]),
            ask("write_file", path="{at}/new.txt", content="new\r\n"),
            ask("edit_file", path="{at}/lines.txt", edits=[{"oldText": "two", "newText": "2"}]),
            ask("edit_file", path="{at}/lines.txt", edits=[{"oldText": "seven", "newText": "7"}]),
            ask("create_directory", path="{at}/folder"),
            ask("list_directory", path="{at}"),
            ask("list_directory_with_sizes", path="{at}", sortBy="size"),
            ask("directory_tree", path="{at}/site"),
            ask("move_file", source="{at}/new.txt", destination="{at}/folder/new.txt"),
            ask("search_files", path="{at}/site", pattern="*.html"),
            ask("get_file_info", path="{at}/lines.txt"),
            ask("list_allowed_directories"),
        ),
    ),
    "memory": Published(
        "npm",
        ("mcp-server-memory",),
        (
            ask("create_entities", entities=[ENTITY, {"name": "Bob", "entityType": "person", "observations": []}]),
            ask("create_relations", relations=[KNOWS]),
            ask("add_observations", observations=[{"entityName": "Bob", "contents": ["is tall"]}]),
            ask("add_observations", observations=[{"entityName": "Eve", "contents": ["is nowhere"]}]),
            ask("search_nodes", query="tea"),
            ask("open_nodes", names=["Ann"]),
            ask("delete_entities", entityNames=["Bob"]),
            ask("read_graph"),
        ),
        {"MEMORY_FILE_PATH": "{at}/memory.jsonl"},
    ),
    "sequential-thinking": Published(
        "npm",
        ("mcp-server-sequential-thinking",),
        (
            ask("sequentialthinking", **THOUGHT),
            ask("sequentialthinking", **THOUGHT, isRevision=True, revisesThought=1),
            refused("sequentialthinking", thought="alone"),
        ),
        {"DISABLE_THOUGHT_LOGGING": "true"},
    ),
    "context7": Published(
        "npm",
        ("context7-mcp",),
        (
            ask("resolve-library-id", query="How do I route?", libraryName="fastapi"),
            ask("query-docs", libraryId="/fastapi/fastapi", query="How do I route?"),
            refused("query-docs"),
        ),
    ),
}


@pytest.fixture(scope="session")
def commands(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the folder with the commands of an environment or of npm, which is installed when it is first needed."""

    @functools.cache
    def found(where: str) -> Path:
        if where == "npm":
            return installed
        folder = tmp_path_factory.mktemp(where)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = str(folder / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-input", *PYPI[where]], check=True)
        return folder / "bin"

    return found


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """The address of a web server on loopback, for the files of the data's `site`."""
    handler = functools.partial(_Quiet, directory=str(tmp_path / "data" / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        pass


def lay_out(folder: Path) -> None:
    """Makes the folder of data as it is before the first call."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "site").mkdir(parents=True)
    (folder / "lines.txt").write_bytes(b"one\r\ntwo\n\xc3\xa4 three\n\n")
    (folder / "dot.png").write_bytes(base64.b64decode(DOT))
    (folder / "site" / "page.html").write_text("<html><body><h1>Parts</h1><p>A <b>bolt</b>.</p></body></html>\n")
    (folder / "site" / "long.txt").write_text("line\n" * 100)
    (folder / "site" / "robots.txt").write_text("User-agent: *\nAllow: /\n")
    repo = folder / "repo"
    repo.mkdir()
    (repo / "a.txt").write_text("a\n")
    for words in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "First")):
        subprocess.run(["git", *words], cwd=repo, env={**os.environ, **GIT}, check=True)
    (repo / "a.txt").write_text("a\nb\n")
    (repo / "new.txt").write_text("new\n")


def filled(value: Any, at: Path, web: str) -> Any:
    text = json.dumps(value).replace("{at}", str(at)).replace("{web}", web)
    return json.loads(text)


def plain(node: Any) -> Any:
    """Returns a listing or a result without what may differ."""
    node = node.model_dump(by_alias=True, exclude_none=True)
    meta = {key: value for key, value in node.pop("_meta", {}).items() if not key.startswith(OURS)}
    if node.get("execution") != {"taskSupport": "forbidden"}:
        node.pop("execution", None)
    return json.loads(CLOCK.sub("TIME", json.dumps({**node, "_meta": meta})))


async def _declines(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


async def answers(
    command: StdioServerParameters, asks: list[tuple[Ask, dict[str, Any]]], mode: Literal["auto", "legacy"]
) -> tuple[dict[str, Any], list[Any]]:
    """Returns the tools that a client is listed, by name, and the answers to its calls; "an error" for those that are
    refused. The client can ask its user, as the gateway can: some servers list more tools then."""
    async with Client(command, mode=mode, read_timeout_seconds=120, elicitation_callback=_declines) as client:
        tools = {tool.name: plain(tool) for tool in (await client.list_tools()).tools}
        found = []
        for each, arguments in asks:
            try:
                result = await client.call_tool(each.tool, arguments)
                found.append("an error" if each.is_refused and result.is_error else plain(result))
            except MCPError as error:
                found.append("an error" if each.is_refused else f"{error.code} {error.message}")
        return tools, found


def differences(direct: Mapping[str, Any], through: Mapping[str, Any]) -> Iterator[str]:
    """Yields the fields in which two listings of a tool or two results differ."""
    for name in sorted({*direct, *through}):
        if direct.get(name) != through.get(name):
            yield f"{name}\n    direct:  {direct.get(name)!r}\n    through: {through.get(name)!r}"


def test_enough_calls_are_compared() -> None:
    assert sum(len(server.asks) for server in SERVERS.values()) >= LEAST_CALLS


@pytest.mark.parametrize("name", list(SERVERS))
async def test_a_published_server_is_the_same_through_the_gateway(
    name: str, tmp_path: Path, web: str, commands: Callable[[str], Path]
) -> None:
    server, at = SERVERS[name], tmp_path / "data"
    program, *arguments = filled(server.command, at, web)
    command = [str(commands(server.where) / program), *arguments]
    env = {"HOME": str(tmp_path), **filled(dict(server.env), at, web)}
    asks = [(each, filled(dict(each.arguments), at, web)) for each in server.asks]

    lay_out(at)
    alone = StdioServerParameters(command=command[0], args=command[1:], env=env)
    mode: Literal["auto", "legacy"] = "auto" if server.where == "newer" else "legacy"
    direct_tools, direct = await answers(alone, asks, mode)

    lay_out(at)
    demiurge = [sys.executable, "-m", "demiurge.cli", "-w", str(tmp_path / "w")]
    variables = [word for key, value in env.items() for word in ("--env", f"{key}={value}")]
    for words in (
        ["init"],
        ["mcp", "add", name, *variables, "--", *command],
        ["mcp", "trust", name, "--all", "--allow", "--public", "*"],
    ):
        done = await asyncio.to_thread(subprocess.run, [*demiurge, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    serve = [*demiurge[1:], "mcp", "serve", "--server", name]
    gateway = StdioServerParameters(command=demiurge[0], args=serve, env=dict(os.environ))
    through_tools, through = await answers(gateway, asks, mode)

    differ = []
    for tool in sorted({*direct_tools, *through_tools}):
        differ += [f"{tool}: {each}" for each in differences(direct_tools.get(tool, {}), through_tools.get(tool, {}))]
    for (each, given), one, other in zip(asks, direct, through, strict=True):
        if isinstance(one, dict) and isinstance(other, dict):
            differ += [f"{each.tool} {given}: {where}" for where in differences(one, other)]
        elif one != other:
            differ.append(f"{each.tool} {given}\n    direct:  {one!r}\n    through: {other!r}")
    assert not differ, "\n".join(differ)
