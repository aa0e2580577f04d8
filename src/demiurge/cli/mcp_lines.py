"""MCP servers and their tools as lines for a terminal.

The texts are of servers that anybody wrote. So each line of one is marked, and what a terminal would not show is
spelled out: no text can look like the words of this program, or steer the terminal.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from demiurge.bootstrap.backend.mcp_views import McpServerView, McpToolView
from demiurge.cli import output
from demiurge.cli.barred import barred
from demiurge.mcp.definition import KINDS, visible
from demiurge.mcp.settings import ServerSettings, SettingValue
from demiurge.registry.tool_diff import FieldDiff, render_text, text_diff
from demiurge.tools.capabilities import SecretName

__all__ = [
    "by_kind",
    "change_lines",
    "changes_of",
    "first_line",
    "in_one_line",
    "last_word_lines",
    "open_questions",
    "server_lines",
    "server_table",
    "setting_lines",
    "state_text",
    "text_block",
    "tool_lines",
    "tool_table",
]

SERVER_HEADER: Final = ("SERVER", "STATE", "TRUSTED", "QUARANTINED", "NEW", "PROTOCOL", "WHAT RUNS")
TOOL_HEADER: Final = ("TOOL", "STATE", "RULE", "EFFECT", "SERVER'S HINT", "WHAT THE SERVER SAYS")

NO_HINT: Final = "none"
"""Stands for the effect of a tool whose server gives no hint of it."""

_SHORT: Final = 60
"""The number of characters of a server's text in a table."""


def state_text(server: McpServerView) -> str:
    """Returns the state of a server in words."""
    if server.state == "not_adopted":
        return "not adopted here"
    return "never asked" if server.state == "idle" and server.listed_at_ms is None else server.state


def in_one_line(text: str) -> str:
    """Returns a server's text in one line, with hidden characters, tabs and line ends spelled out."""
    return visible(text).replace("\t", "<U+0009>").replace("\n", "<U+000A>")


def first_line(text: str) -> str:
    """Returns the first line of a server's text, cut to 60 characters, and how many more lines there are."""
    line, _, rest = text.strip("\n").partition("\n")
    more = rest.count("\n") + 1 if rest else 0
    shown = in_one_line(line)
    return (f"{shown[:_SHORT]}…" if len(shown) > _SHORT else shown) + (f" (+{more} more)" if more else "")


def text_block(text: str) -> list[str]:
    """Returns the lines of a server's text, each marked, with hidden characters and tabs spelled out."""
    return barred(text, "    | ", in_one_line)


def server_table(servers: Sequence[McpServerView]) -> list[str]:
    """Returns a line for each server."""
    rows = []
    for server in servers:
        counts = [sum(tool.state == state for tool in server.tools) for state in ("trusted", "quarantined", "new")]
        protocol = in_one_line(server.protocol or "-")
        rows.append((server.name, state_text(server), *map(str, counts), protocol, in_one_line(server.target)))
    return output.table(rows, SERVER_HEADER)


def tool_table(tools: Sequence[McpToolView]) -> list[str]:
    """Returns a line for each tool of a server."""
    rows = [
        (
            in_one_line(tool.name),
            tool.state,
            tool.rule or "-",
            tool.counted_effect,
            tool.effect_by_server or NO_HINT,
            first_line(tool.description),
        )
        for tool in tools
    ]
    return output.table(rows, TOOL_HEADER)


def last_word_lines(server: McpServerView) -> list[str]:
    """Returns what a server that failed wrote to its standard error last."""
    if not server.last_words:
        return []
    return ["It wrote last to its standard error:", *text_block("\n".join(server.last_words))]


def server_lines(server: McpServerView) -> list[str]:
    """Returns what a server is, without its tools."""
    lines = [f"{server.name}: {state_text(server)}; {server.transport}: {in_one_line(server.target)}"]
    lines += [f"  {line}" for line in setting_lines(ServerSettings.of_json(server.settings))]
    if server.listed_at_ms is not None:
        called = in_one_line(" ".join(filter(None, (server.server_name, server.server_version))) or "nothing")
        lines.append(f"It calls itself {called}, and speaks the protocol {in_one_line(server.protocol)}.")
    lines += [f"Problem: {in_one_line(server.problem)}"] if server.problem is not None else []
    lines += last_word_lines(server)
    lines += [f"In its list: {in_one_line(each)}" for each in server.problems]
    if server.instructions:
        lines += ["Its instructions, which no model is shown:", *text_block(server.instructions)]
    return lines


def by_kind(tools: Sequence[McpToolView]) -> str:
    """Returns how many of each kind there are, such as `2 tools, 1 prompt`; `0 tools` if there is nothing."""
    counts = [(kind, sum(tool.kind == kind for tool in tools)) for kind in KINDS]
    return ", ".join(f"{count} {kind}{'s' * (count != 1)}" for kind, count in counts if count) or "0 tools"


def setting_lines(said: ServerSettings) -> list[str]:
    """Returns what a server is started or asked with, beside its command or address. A variable can make a harmless
    command run anything, and a header can carry a secret away."""
    lines = [f"folder: {in_one_line(said.cwd)}"] if said.cwd not in (None, str(Path.cwd())) else []
    for what, values in (("variable", said.env), ("header", said.headers)):
        lines += [f"{what} {in_one_line(name)}: {_value(value)}" for name, value in values.items()]
    lines += [f"connection: {in_one_line(said.connection_id)}"] if said.connection_id is not None else []
    if (grant := said.sampling) is not None:
        lines.append(f"may ask a model during a call: {grant.requests} times, {grant.tokens} tokens in all")
    return lines + (["may ask for the folders of a client"] if said.roots else [])


def _value(value: SettingValue) -> str:
    if isinstance(value, SecretName):
        return in_one_line(f"the secret {value.alias}" + (f"@{value.version}" if value.version != 1 else ""))
    return in_one_line(value)


def tool_lines(tool: McpToolView) -> list[str]:
    """Returns all that a person reads before they trust a tool."""
    level = f"{tool.counted_effect} (the server's hint: {tool.effect_by_server or NO_HINT})"
    rule = f", rule {tool.rule}" if tool.rule is not None else ""
    called = "a model calls it" if tool.kind == "tool" else "no model is offered it; its id is"
    lines = [f"{in_one_line(tool.name)}: {tool.state}{rule}; {called} {tool.tool_id}", f"  effect: {level}"]
    lines += [f"  pin: {tool.pin}"] if tool.pin is not None else []
    lines += [f"  listed now: {tool.found_pin}"] if tool.found_pin not in (tool.pin, None) else []
    lines += [f"  it can't be trusted: {in_one_line(tool.problem)}"] if tool.problem is not None else []
    for name, value in (tool.definition or {}).items():
        if name not in ("name", "kind") or (name == "name" and tool.kind in ("resource", "template")):
            text = value if isinstance(value, str) else output.as_json(value, indent=2)
            lines += [f"  {name}:", *text_block(text)]
    return lines


def changes_of(tool: McpToolView) -> list[FieldDiff]:
    """Returns how the definition that the server lists now differs from the trusted one."""
    return [text_diff(in_one_line(each.place), each.before, each.after) for each in tool.changes]


def change_lines(tool: McpToolView, *, color: bool) -> list[str]:
    """Returns the changes of a tool line by line, in the width of the terminal."""
    width = max(shutil.get_terminal_size().columns, 40)
    return [f"{in_one_line(tool.name)}: {tool.state}", *render_text(changes_of(tool), width, color).split("\n")]


_NEXT: Final = {
    "not_adopted": "Added elsewhere, so not started here: {0}. Read what that is with `demiurge mcp show {1}`, then "
    "take it with `demiurge mcp adopt {1}`.",
    "never_asked": "Never asked for tools: {0}. `demiurge mcp doctor {1}` asks.",
    "quarantined": "{0} changed what was trusted, which is quarantined. `demiurge mcp diff {1}` shows it; `demiurge "
    "mcp trust {1}` decides.",
    "unread": "A model sees no tool of {0}. Read them with `demiurge mcp show {1}`; then `demiurge mcp trust {1} "
    "--all`, or name the tools.",
    "new": "New tools of {0} wait: `demiurge mcp trust {1}` shows them, and asks.",
}
"""The sentences about what a person may do next. {0}: the servers; {1}: the name of one, or NAME."""


def open_questions(servers: Sequence[McpServerView]) -> Iterator[str]:
    """Yields what a person may do next about some servers, as sentences with commands."""
    for topic, sentence in _NEXT.items():
        names = [server.name for server in servers if topic in _topics(server)]
        if names:
            yield sentence.format(", ".join(names), names[0] if len(names) == 1 else "NAME")


def _topics(server: McpServerView) -> set[str]:
    states = {tool.state for tool in server.tools}
    if server.state == "not_adopted":
        return {"not_adopted"} | states & {"quarantined"}
    if server.listed_at_ms is None:
        return {"never_asked"}
    seen = states & {"trusted", "quarantined"}
    return states & {"quarantined"} | ({"new" if seen else "unread"} if "new" in states else set())
