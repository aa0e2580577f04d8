"""`demiurge tools`: the tools that a model may see, with their rules; and a call of a tool without a model."""

from __future__ import annotations

from typing import Any, cast

import click

from demiurge.bootstrap.tool_view import tool_views
from demiurge.cli import output
from demiurge.cli.argument import parse_json, read_text, utf8_text
from demiurge.cli.call import show_call
from demiurge.cli.command import Command, Group
from demiurge.cli.tool_files import export, file_problems, sync
from demiurge.cli.world import RunOptions, opened, running_options
from demiurge.errors import InvalidValue, NotFound
from demiurge.tools.ids import canonical_id
from demiurge.wire.items import NamedTool, ToolChoice
from demiurge.world.toolset import read_toolset

__all__ = ["command"]

_WORDS = ("auto", "none", "required")

HEADER = ("ID", "EFFECT", "DECISION", "SOURCE", "TOKENS", "SPEC")


@click.group(cls=Group, name="tools")
def command() -> None:
    pass


command.add_command(export)
command.add_command(sync)


@command.command(name="ls", cls=Command)
@click.option("--all", "everything", is_flag=True, help="Include tools that the policy denies.")
@running_options
def ls(everything: bool, **running: Any) -> None:
    """List the tools of this world: effect, the policy's decision, source, rough token cost, spec hash."""
    with opened(RunOptions(**running)) as (world, portal):
        listed, problems = tool_views(world.manifest(), world.caller), file_problems(world, portal)
    names = ("id", "effect", "decision", "why", "source", "tokens", "spec_hash")
    found = [{name: tool[name] for name in names} for tool in listed if everything or tool["decision"] != "deny"]
    rows = [
        (
            t["id"],
            t["effect"],
            t["decision"],
            t["source"],
            f"~{t['tokens']}",
            t["spec_hash"].removeprefix("sha256:")[:12],
        )
        for t in found
    ]
    output.result({"tools": found}, *output.table(rows, HEADER))
    for problem in problems:
        output.notice(problem)


@command.command(name="show", cls=Command)
@click.argument("tool_id", metavar="ID")
@running_options
def show(tool_id: str, **running: Any) -> None:
    """Print one tool as JSON, with the schema that a model is given."""
    wanted_id = canonical_id(tool_id)
    for tool in _tools(RunOptions(**running)):
        if tool["id"] == wanted_id:
            output.document(tool)
            return
    raise NotFound(f"There is no tool {tool_id} here; `demiurge tools ls --all` lists them.", code="no_tool")


@command.command(name="ref", cls=Command)
@click.argument("tool_ids", metavar="[TOOL...]", nargs=-1)
@click.option("--provider", metavar="P", help="The provider whose format to use; default: this world's.")
@click.option("--choice", metavar="C", callback=utf8_text, help="auto, none, required, or the TOOL to be called.")
@running_options
def ref(tool_ids: tuple[str, ...], provider: str | None, choice: str | None, **running: Any) -> None:
    """Store a toolset of these tools (default: all that a model may see) and print its address.

    A message whose `tools_ref` is that address narrows its chat to these tools, as far as the tool policy allows them.
    """
    chosen = NamedTool(choice) if choice is not None and choice not in _WORDS else choice
    with opened(RunOptions(provider=provider, **running), create=True) as (world, portal):
        made = portal.run(world.tools_ref(*tool_ids, tool_choice=cast("ToolChoice | None", chosen)))
        stored = read_toolset(world.blobs.get(made))
        output.document({"hash": made, "provider": stored.provider, "tools": [name for name, _ in stored.entries]})


@command.command(name="call", cls=Command)
@click.argument("tool_id", metavar="ID")
@click.argument("arguments", metavar="ARGS", default="{}")
@click.option(
    "--call-id",
    metavar="C",
    callback=utf8_text,
    help="An id for this call; a second call with the same id does not run.",
)
@click.option("--connection", metavar="ID", callback=utf8_text, help="The connection, for a tool that needs one.")
@running_options
def call(tool_id: str, arguments: str, call_id: str | None, connection: str | None, **running: Any) -> None:
    """Call the tool ID with ARGS (JSON, @file or @-): decided, run and recorded as a model's call would be.

    No chat sees the call. Fails if the call fails, or if a person has to decide first; then it prints how, and the call
    runs once it is approved.
    """
    text, options = read_text(arguments), RunOptions(**running)
    where = "ARGS" if not arguments.startswith("@") else arguments
    if not isinstance(parse_json(text, where), dict):
        raise InvalidValue(f'{where}: a tool takes a JSON object, such as {{"city": "Rome"}}.', code="invalid_json")
    with opened(options, create=True) as (world, portal):
        made = portal.run(world.call(tool_id, text, call_id, connection_id=connection))
        show_call(made, portal.run(world.approvals()), options)


def _tools(running: RunOptions) -> list[dict[str, Any]]:
    with opened(running) as (world, _):
        return tool_views(world.manifest(), world.caller)
