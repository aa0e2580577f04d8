"""`demiurge mcp doctor`: starts each server, lists its tools, compares them with what was trusted, and says how to mend
what is wrong."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Final

import click

from demiurge.bootstrap import World
from demiurge.bootstrap.backend.mcp_views import McpServerView
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.check import Check, check_lines
from demiurge.cli.command import Command
from demiurge.cli.failure import OutcomeError
from demiurge.cli.hints import runnable
from demiurge.cli.long_step import goes_on
from demiurge.cli.mcp_lines import by_kind, in_one_line, last_word_lines
from demiurge.cli.mcp_settings import missing_values
from demiurge.cli.policy_observe import observing_check
from demiurge.cli.settings import settings
from demiurge.cli.world import opened
from demiurge.errors import DemiurgeError
from demiurge.mcp.settings import ServerSettings
from demiurge.values.clock import SystemClock

__all__ = ["doctor", "mcp_checks", "mend_of"]

SDK: Final = "Run `pip install 'demiurge-runtime[mcp]'`."

STARTERS: Final = {
    "uvx": "The program uvx comes with uv: `pip install uv`.",
    "npx": "The program npx comes with Node.js: https://nodejs.org.",
}
"""Programs that start servers of a package registry, and where they come from."""

_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class AskedServer:
    """A server after it was asked for its tools. `took_ms`: how long that took; `problem`: why it did not list them."""

    server: McpServerView
    took_ms: int
    problem: str | None


@click.command(name="doctor", cls=Command)
@click.argument("name", metavar="[NAME]", required=False, callback=utf8_text)
def doctor(name: str | None) -> None:
    """Start each server, or the server NAME, list its tools, compare them with what was trusted, and say what to do.

    Exits with 1 if a server does not list its tools. A tool that changed since it was trusted is quarantined.
    """
    with opened() as (world, portal):
        servers = [portal.run(world.mcp.show(name))] if name is not None else portal.run(world.mcp.list())
        local = {server.name: server for server in servers if server.is_local}
        about = f"Asking {', '.join(local)} for tools ..."
        with goes_on(about, lambda: f"Waiting for {', '.join(list(local))} ...") if local else nullcontext():
            found = portal.run(_ask_all(world, servers, local))
        observed = list(observing_check(world, portal, portal.run(world.info())))
    checks = [*observed, *(check for one in found for check in _checks_of(one))]
    ok = all(check.status != "fail" for check in checks)
    shown = {
        "ok": ok,
        "servers": [{"name": one.server.name, "took_ms": one.took_ms, "server": asdict(one.server)} for one in found],
        "checks": [asdict(check) for check in checks],
    }
    if not settings().json:
        lines = [line for check in checks for line in check_lines(check)]
        output.write("\n".join(lines or [runnable("There is no MCP server yet; `demiurge mcp add` adds one.")]))
    elif ok:
        output.document(shown)
    if not ok:
        broken = ", ".join(check.name for check in checks if check.status == "fail")
        raise OutcomeError("unhealthy", f"Mend these first: {broken}.", shown)


async def _ask_all(
    world: World, servers: Sequence[McpServerView], waited_for: dict[str, McpServerView]
) -> list[AskedServer]:
    """Has all servers list their tools at the same time. Removes each from `waited_for` when it has answered."""

    async def ask(server: McpServerView) -> AskedServer:
        try:
            return await _ask(world, server)
        finally:
            waited_for.pop(server.name, None)

    return list(await asyncio.gather(*map(ask, servers)))


async def _ask(world: World, server: McpServerView) -> AskedServer:
    """Has a server list its tools, unless it was added elsewhere."""
    if not server.is_local:
        return AskedServer(server, 0, None)
    began_ns, problem = _CLOCK.monotonic_ns(), None
    try:
        after = await world.mcp.refresh(server.name)
    except DemiurgeError as error:
        after, problem = await world.mcp.show(server.name), error.message
    return AskedServer(after, (_CLOCK.monotonic_ns() - began_ns) // 1_000_000, problem)


def _checks_of(one: AskedServer) -> Iterator[Check]:
    server = one.server
    if not server.is_local:
        yield _not_adopted(server)
        return
    if one.problem is not None:
        detail = f"{in_one_line(server.target)} did not list its tools, after {one.took_ms / 1000:.1f} s: "
        detail += in_one_line(one.problem)
        yield Check(server.name, "fail", detail, mend_of(server, one.problem), tuple(last_word_lines(server)))
        return
    listed = [tool for tool in server.tools if tool.state != "gone"]
    about = f"{by_kind(listed)} in {one.took_ms / 1000:.1f} s"
    about += f", protocol {in_one_line(server.protocol or '-')}"
    yield Check(server.name, "ok", f"{in_one_line(server.target)} lists {about}")
    yield from (Check(server.name, "warn", f"in its list: {in_one_line(each)}") for each in server.problems)
    yield from _tool_checks(server)


def _tool_checks(server: McpServerView) -> Iterator[Check]:
    """Yields what waits for a person about the tools of a server, and what is gone."""
    by_state: dict[str, list[str]] = {}
    for tool in server.tools:
        by_state.setdefault(tool.state, []).append(in_one_line(tool.name))
    for state, about, mend in (
        ("quarantined", "changed after it was trusted", "`demiurge mcp diff {0}` shows how."),
        ("gone", "trusted, and not listed any more", "`demiurge mcp untrust {0} {1}` forgets what was trusted."),
        ("new", "not trusted, so no model sees it", "`demiurge mcp trust {0}` shows what waits, and asks."),
    ):
        if names := by_state.get(state):
            does = runnable(mend.format(server.name, " ".join(names)))
            yield Check(
                f"{server.name}: {state}", "ok" if state == "new" else "warn", f"{', '.join(names)}: {about}", does
            )


def mend_of(server: McpServerView, problem: str) -> str:
    """Returns what to do about a server that does not list its tools, as far as the sentence `problem` does not say."""
    said = ServerSettings.of_json(server.settings)
    if find_spec("mcp") is None:
        return f"The package that talks with servers is not installed. {SDK}"
    if any(missing_values(said)):
        return " ".join(missing_values(said, problem))
    if said.transport == "http":
        return runnable(f"Check the address and the network; `demiurge mcp doctor {server.name}` tries again.")
    if "/" not in said.command[0] and shutil.which(said.command[0]) is None:
        return STARTERS.get(said.command[0], "")  # the problem says that the program is missing
    if server.last_words:
        return ""  # they say more
    return f"Run the command by itself to see what it says: {in_one_line(server.target)}"


def _not_adopted(server: McpServerView) -> Check:
    mend = f"Read what it starts with `demiurge mcp show {server.name}`, then `demiurge mcp adopt {server.name}`."
    return Check(server.name, "warn", "added elsewhere, so it is not started here", runnable(mend))


def mcp_checks() -> Iterator[Check]:
    """Yields the check of the MCP servers for `demiurge doctor`, which starts none of them. The check of the world
    reports a world that can't be opened."""
    try:
        with opened() as (world, portal):
            servers = portal.run(world.mcp.list())
    except DemiurgeError:
        return
    if not servers:
        return
    states = Counter(tool.state for server in servers for tool in server.tools)
    detail = f"{_counted(len(servers), 'server')}, {_counted(states['trusted'], 'trusted tool')}"
    detail += f", {states['quarantined']} quarantined" if states["quarantined"] else ""
    if find_spec("mcp") is None:
        yield Check("MCP", "warn", f"{detail}; the package that talks with them is not installed", SDK)
        return
    waits = states["quarantined"] or any(not server.is_local for server in servers)
    yield Check("MCP", "warn" if waits else "ok", detail, "`demiurge mcp doctor` starts each, and says what to do.")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
