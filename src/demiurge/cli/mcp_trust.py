"""`demiurge mcp diff`, `trust` and `untrust`: what a person reads, and what they say about it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

import click

from demiurge.bootstrap.backend.mcp_views import McpServerView, McpToolView
from demiurge.bootstrap.trust.shown_definitions import note_shown, shown_pins
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command
from demiurge.cli.failure import OutcomeError
from demiurge.cli.hints import runnable
from demiurge.cli.mcp_asking import asked
from demiurge.cli.mcp_decisions import RULES, decision_lines
from demiurge.cli.mcp_lines import change_lines, in_one_line, tool_lines, tool_table
from demiurge.cli.settings import settings
from demiurge.cli.world import opened
from demiurge.errors import Conflict, NotFound
from demiurge.tools.effect import ToolEffect

__all__ = ["chosen_tools", "diff", "trust", "untrust"]

WAITING = ("new", "quarantined")
"""The states of a tool that waits for somebody's trust."""

server_name = click.argument("name", metavar="NAME", callback=utf8_text)
tool_names = click.argument("tools", metavar="[TOOL...]", nargs=-1)


@click.command(name="diff", cls=Command)
@server_name
@tool_names
def diff(name: str, tools: tuple[str, ...]) -> None:
    """Show how the tools of a server differ from what was trusted: removed lines with -, added ones with +.

    Without TOOL these are all quarantined tools. Hidden characters are spelled out. Starts nothing: `demiurge mcp
    doctor` asks the server what it lists now.
    """
    with opened() as (world, portal):
        server = portal.run(world.mcp.show(name))
    chosen = chosen_tools(server, tools) if tools else [tool for tool in server.tools if tool.state == "quarantined"]
    note_read(chosen)
    color = output.paint("x", fg="red") != "x"
    lines = [line for tool in chosen for line in (*change_lines(tool, color=color), "")][:-1]
    shown = [{"tool_id": t.tool_id, "state": t.state, "changes": [asdict(each) for each in t.changes]} for t in chosen]
    output.result({"name": name, "tools": shown}, *(lines or [f"Nothing of {name} is quarantined."]), painted=True)
    if any(tool.state == "quarantined" for tool in chosen):
        output.notice(
            f"`demiurge mcp trust {name}` trusts the new texts; `demiurge mcp untrust {name} TOOL` drops a tool."
        )


@click.command(name="trust", cls=Command)
@server_name
@tool_names
@click.option("--all", "everything", is_flag=True, help="All that the server lists.")
@click.option("--ask", "rule", flag_value="ask", default="ask", help="A person is asked before each call (default).")
@click.option("--allow", "rule", flag_value="allow", help="Nobody is asked, unless the tool policy asks.")
@click.option(
    "--effect",
    type=click.Choice([str(level) for level in ToolEffect]),
    help="What they may do; the stricter of it and the server's hints counts.",
)
@click.option("--public", metavar="FIELD", multiple=True, help="A field of their results that screens and logs show.")
@click.option(
    "--pin", "pins", metavar="D", multiple=True, help="The digest of a definition that you read; others are refused."
)
def trust(
    name: str,
    tools: tuple[str, ...],
    everything: bool,
    rule: Literal["ask", "allow"],
    effect: str | None,
    public: tuple[str, ...],
    pins: tuple[str, ...],
) -> None:
    """Trust tools of a server as it listed them last: a model sees these texts, until the server changes one.

    TOOL names a tool, or prompt:NAME, resource:URI or template:URI. Without TOOL and --all it shows what waits for
    trust and asks, which takes a terminal.
    """
    if tools and everything:
        raise click.UsageError("Name tools, or say --all.")
    with opened() as opening:
        world, portal = opening
        server = portal.run(world.mcp.show(name))
        if server.listed_at_ms is None:
            server, problem = asked(opening, name)
            if problem is not None:
                raise problem
            if (tools or everything) and not pins:
                raise _unread(server)
        chosen = _chosen(server, tools, everything=everything, rule=rule)
        _require_read(name, chosen, pins)
        wanted = None if everything else [tool.tool_id for tool in chosen]
        found = {tool.tool_id: tool.found_pin for tool in chosen if tool.found_pin is not None}
        after = portal.run(world.mcp.trust(name, wanted, rule=rule, effect=effect, public=public, pins=found))
        ids = {tool.tool_id for tool in chosen}
        done = [tool for tool in after.tools if tool.tool_id in ids and tool.state == "trusted"]
        lines = decision_lines(world, name, done, rule)
    left = [tool for tool in after.tools if tool.tool_id in ids and tool.state != "trusted"]
    shown = {"name": name, "trusted": [asdict(tool) for tool in done], "left": [asdict(tool) for tool in left]}
    output.result(shown, *tool_table(done))
    for tool in left:
        output.notice(f"{in_one_line(tool.name)} is not trusted: {in_one_line(tool.problem or tool.state)}")
    stricter = [
        in_one_line(tool.name) for tool in done if tool.kind == "tool" and effect not in (None, tool.counted_effect)
    ]
    if stricter:
        output.notice(f"The server's own hint is stricter than {effect}, so the hint counts: {', '.join(stricter)}.")
    for line in lines:
        output.notice(line)


@click.command(name="untrust", cls=Command)
@server_name
@tool_names
def untrust(name: str, tools: tuple[str, ...]) -> None:
    """Take the trust in tools away, in all of a server without TOOL. No model sees them any more."""
    with opened() as (world, portal):
        before = portal.run(world.mcp.show(name))
        wanted = [tool.tool_id for tool in chosen_tools(before, tools)] if tools else None
        after = portal.run(world.mcp.untrust(name, wanted))
    gone = {tool.tool_id for tool in before.tools if tool.pin is not None}
    gone -= {tool.tool_id for tool in after.tools if tool.pin is not None}
    told = [f"{tool_id} is not trusted any more." for tool_id in sorted(gone)]
    output.result({"name": name, "untrusted": sorted(gone)}, *(told or [f"No tool of {name} was trusted."]))


def chosen_tools(server: McpServerView, names: Sequence[str]) -> list[McpToolView]:
    """Returns the tools of a server that are named by id or by the server's name, all without names. Raises NotFound
    (`no_tool`)."""
    found = {**{tool.name: tool for tool in server.tools}, **{tool.tool_id: tool for tool in server.tools}}
    for name in names:
        if name not in found:
            there = ", ".join(in_one_line(tool.name) for tool in server.tools) or "none"
            message = f"The server {server.name} lists no tool {in_one_line(name)}. It lists: {there}."
            raise NotFound(message, code="no_tool")
    return list({found[name].tool_id: found[name] for name in names}.values()) if names else list(server.tools)


def _chosen(server: McpServerView, names: Sequence[str], *, everything: bool, rule: str) -> list[McpToolView]:
    """Returns the tools to trust: those of the command line, else those that a person agrees to on the terminal."""
    if names or everything:
        return chosen_tools(server, names)
    waiting = [tool for tool in server.tools if tool.state in WAITING and tool.problem is None]
    if not waiting:
        raise OutcomeError("nothing_waits", f"No tool of {server.name} waits for trust.", {"name": server.name})
    if settings().json or not (sys.stdin.isatty() and output.stdout().isatty()):
        raise click.UsageError(
            f"Name the tools, or say --all: {', '.join(in_one_line(tool.name) for tool in waiting)}."
        )
    return _agreed(server, waiting, rule)


def _agreed(server: McpServerView, waiting: list[McpToolView], rule: str) -> list[McpToolView]:
    """Shows each tool and asks about it. Raises OutcomeError (`stopped`) if the answer is no to all."""
    said = RULES[rule] if rule == "ask" else f"{RULES[rule]}, unless the tool policy asks"
    color = output.paint("x", fg="red") != "x"
    agreed = []
    for number, tool in enumerate(waiting, 1):
        lines = change_lines(tool, color=color) if tool.state == "quarantined" else tool_lines(tool)
        output.write("\n".join(lines))
        note_read([tool])
        while True:
            which = f"{number} of {len(waiting)}: trust {in_one_line(tool.name)} of {server.name} ({said})"
            answer = input(f"  {which}? y, n or q: ").strip().lower()
            if answer in ("y", "yes", "n", "no", "q", "quit"):
                break
        if answer[0] == "q":
            break
        agreed += [tool] if answer[0] == "y" else []
    if not agreed:
        raise OutcomeError("stopped", "Nothing was trusted.", {"name": server.name})
    return agreed


def note_read(tools: Sequence[McpToolView]) -> None:
    """Notes that the user was shown these tools as they are listed now."""
    if settings().url() is None:
        pins = {tool.tool_id: tool.found_pin for tool in tools if tool.found_pin is not None}
        note_shown(os.environ, settings().folder(), pins)


def _unread(server: McpServerView) -> OutcomeError:
    """Returns the error for trust in tools that were listed a moment ago, so that nobody can have read them."""
    note_read(server.tools)
    output.write("\n".join(tool_table(server.tools)))
    message = (
        f"Nothing was trusted: {server.name} was never asked for its tools before, so nobody has read them. Read them "
        f"with `demiurge mcp show {server.name}`, then say this again."
    )
    return OutcomeError("unread", runnable(message), {"name": server.name})


def _require_read(name: str, chosen: Sequence[McpToolView], pins: Sequence[str]) -> None:
    """Raises Conflict (`changed`) for a tool whose definition is none of those that were read, if any were named, else
    for one that took the place of what the user was shown."""
    shown = shown_pins(os.environ, settings().folder()) if not pins and settings().url() is None else {}
    stale = [tool.tool_id for tool in chosen if shown.get(tool.tool_id, tool.found_pin) != tool.found_pin]
    if stale:
        message = f"{', '.join(stale)} changed since you looked: read it with `demiurge mcp show {name}`, then decide."
        raise Conflict(runnable(message), code="changed")
    other = [tool.tool_id for tool in chosen if tool.found_pin not in pins] if pins else []
    if other:
        raise Conflict(
            f"{', '.join(other)}: the server lists another definition than those of --pin. Read it, then decide.",
            code="changed",
        )
