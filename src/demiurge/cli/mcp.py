"""`demiurge mcp`: the MCP servers of a world and the trust in their tools, and the world as an MCP server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from demiurge.bootstrap.backend.mcp_views import McpServerView
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command, Group
from demiurge.cli.failure import OutcomeError
from demiurge.cli.hints import runnable
from demiurge.cli.mcp_asking import asked
from demiurge.cli.mcp_doctor import doctor, mend_of
from demiurge.cli.mcp_import import import_
from demiurge.cli.mcp_lines import (
    in_one_line,
    last_word_lines,
    open_questions,
    server_lines,
    server_table,
    tool_lines,
    tool_table,
)
from demiurge.cli.mcp_scan import scan
from demiurge.cli.mcp_serve import serve
from demiurge.cli.mcp_settings import limit_options, settings_of
from demiurge.cli.mcp_trust import chosen_tools, diff, note_read, trust, untrust
from demiurge.cli.settings import settings
from demiurge.cli.world import Opened, opened
from demiurge.mcp.settings import ServerSettings

__all__ = ["command"]

NONE_YET = "There is no MCP server yet; `demiurge mcp add NAME -- COMMAND` adds one."


@click.group(cls=Group, name="mcp")
def command() -> None:
    pass


server_name = click.argument("name", metavar="NAME", callback=utf8_text)


class AddCommand(Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if "--" in args:
                raise
            where = "Options of the server's command stand behind `--`: NAME -- COMMAND OPTION"
            raise click.UsageError(f"{error.format_message()} {where}.", error.ctx) from None


@command.command(name="add", cls=AddCommand)
@server_name
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", metavar="URL", callback=utf8_text, help="The address of a server that runs elsewhere.")
@click.option("--env", metavar="K=V", multiple=True, help="A variable of its environment, or K=secret:NAME.")
@click.option("--header", "headers", metavar="H", multiple=True, help="'Name: value', or 'Name: secret:NAME'.")
@click.option("--cwd", metavar="DIR", callback=utf8_text, help="The folder that the command runs in; else this one.")
@click.option("--connection", metavar="ID", callback=utf8_text, help="The connection whose credentials it gets.")
@limit_options
def add(
    name: str,
    words: tuple[str, ...],
    url: str | None,
    env: tuple[str, ...],
    headers: tuple[str, ...],
    cwd: str | None,
    connection: str | None,
    **limits: Any,
) -> None:
    """Add the MCP server NAME, connect once, and print the tools that it lists. No model sees any of them yet.

    The command after `--` is started on this machine with your rights, whenever a tool of it is called. A key or a
    token is never an argument: put it into your vault with `demiurge secrets set NAME`, and name it as secret:NAME. A
    world is made where there is none.
    """
    settings().folder()  # refuses the address of a server: a command is added on the machine that runs it
    said = settings_of(name, words, url, env=env, headers=headers, cwd=cwd, connection=connection, limits=limits)
    with opened(create=True) as opening:
        opening.portal.run(opening.world.mcp.add(said))
        _connect(opening, name, "is added")


@command.command(name="ls", cls=Command)
def ls() -> None:
    """List the MCP servers: state, how many of their tools are trusted, quarantined and new, and what runs.

    Starts nothing: it prints what the servers listed last. `demiurge mcp doctor` asks them again.
    """
    with opened() as (world, portal):
        found = portal.run(world.mcp.list())
    lines = server_table(found) if found else [runnable(NONE_YET)]
    output.result({"servers": [asdict(server) for server in found]}, *lines)
    _say_next(found)


@command.command(name="show", cls=Command)
@server_name
@click.argument("tools", metavar="[TOOL...]", nargs=-1)
def show(name: str, tools: tuple[str, ...]) -> None:
    """Print a server, and the whole text and schema of its tools as it listed them last. Starts nothing.

    The words of the server stand behind a bar, with hidden characters spelled out.
    """
    with opened() as (world, portal):
        server = portal.run(world.mcp.show(name))
    chosen = chosen_tools(server, tools)
    note_read(chosen)
    parts = [[] if tools else server_lines(server), *(tool_lines(tool) for tool in chosen)]
    lines = [line for part in parts if part for line in ("", *part)][1:]
    output.result(asdict(server) | {"tools": [asdict(tool) for tool in chosen]}, *lines)
    _say_next([server])


@command.command(name="rm", cls=Command)
@server_name
def rm(name: str) -> None:
    """Remove a server: no model sees a tool of it any more, and it is not started again."""
    with opened() as (world, portal):
        portal.run(world.mcp.remove(name))
    output.result({"name": name, "removed": True}, f"{name} is removed.")


@command.command(name="adopt", cls=Command)
@server_name
def adopt(name: str) -> None:
    """Let a server that was added elsewhere run on this machine, with the settings that it has now.

    A world that was copied, shared or found brings its servers with it; none is started before you say so. Read what
    this one starts first: `demiurge mcp show NAME`.
    """
    settings().folder()
    with opened() as opening:
        opening.portal.run(opening.world.mcp.adopt(name))
        _connect(opening, name, "is adopted")


def _connect(opening: Opened, name: str, done: str) -> None:
    """Has a server list its tools, and prints them. Raises OutcomeError if it does not answer."""
    server, problem = asked(opening, name)
    if problem is not None:
        message = f"{name} {done}, but it did not list its tools: {problem.message}"
        if ServerSettings.of_json(server.settings).transport == "stdio":
            again = f"`demiurge mcp doctor {name}` asks again; for another command, first `demiurge mcp rm {name}`."
            message += f" {runnable(again)}"
        message = f"{message} {mend_of(server, problem.message)}".rstrip()
        raise OutcomeError(problem.code, "\n".join([message, *last_word_lines(server)]), asdict(server))
    note_read(server.tools)
    output.result(asdict(server), *server_lines(server), "", *tool_table(server.tools))
    _say_next([server])


def _say_next(servers: Sequence[McpServerView]) -> None:
    for sentence in open_questions(servers):
        output.notice(in_one_line(sentence))


for _verb in (import_, diff, trust, untrust, doctor, scan, serve):
    command.add_command(_verb)
