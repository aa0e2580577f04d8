"""`demiurge tools`: the tools that a model may see, with their rules; prompt tools and their proposals; and a call of a
tool without a model."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, cast

import click

from demiurge.bootstrap import World
from demiurge.bootstrap.missing_tool import full_id, missing_tool
from demiurge.bootstrap.tool_view import core_prompt_rows, new_world_node, prompt_rows, tool_rows, tool_views
from demiurge.cli import output
from demiurge.cli.argument import parse_json, read_text, utf8_text
from demiurge.cli.call import show_call
from demiurge.cli.code import listed_tools
from demiurge.cli.command import Command, Group
from demiurge.cli.hints import runnable
from demiurge.cli.long_step import goes_on
from demiurge.cli.portal import Portal
from demiurge.cli.proposal_lines import block, one_line
from demiurge.cli.proposals import PROPOSAL_COMMANDS
from demiurge.cli.tool_arguments import tool_lines
from demiurge.cli.tool_files import export, file_problems, sync
from demiurge.cli.tool_versions import VERSION_COMMANDS
from demiurge.cli.world import RunOptions, opened, running_options
from demiurge.errors import DemiurgeError, InvalidValue, NotFound
from demiurge.tools.ids import canonical_id
from demiurge.tools.policy import ToolPolicy
from demiurge.values.caller import USER
from demiurge.wire.items import NamedTool, ToolChoice
from demiurge.world.toolset import read_toolset

__all__ = ["command"]

_WORDS = ("auto", "none", "required")

HEADER = ("ID", "EFFECT", "DECISION", "SOURCE", "TRUST", "TOKENS", "SPEC")
PROMPT_HEADER = ("PROMPT TOOL", "NAME", "LAYER", "VERSION", "DIGEST")

SHOWN_DIGITS = 12
"""The number of digits of a hash in a list."""


@click.group(cls=Group, name="tools")
def command() -> None:
    pass


for _verb in (*PROPOSAL_COMMANDS, *VERSION_COMMANDS, export, sync):
    command.add_command(_verb)


@command.command(name="ls", cls=Command)
@click.option(
    "--all", "everything", is_flag=True, help="Every tool: also the shipped ones, and those that the policy denies."
)
@running_options
def ls(everything: bool, **running: Any) -> None:
    """List the tools of this world: your own, then those of MCP servers, with effect, the policy's decision, source,
    trust, rough token cost and spec hash, then the prompt tools. What comes with Demiurge is counted, and listed with
    --all or --json. Locked (core) prompt tools can't be changed. A tool of an MCP server is pinned or quarantined.

    Where there is no world yet, these are the tools that a new one with the same options has.
    """
    options = RunOptions(**running)
    try:
        with opened(options) as (world, portal):
            found = tool_rows(world.manifest(), world.caller, with_denied=everything)
            prompts, problems = _prompt_rows(world, portal)
            problems += file_problems(world, portal)
    except NotFound as error:
        if error.code != "no_world":
            raise
        found, prompts = tool_rows(_new_world(options), USER, with_denied=everything), core_prompt_rows()
        problems = [f"{error.message} A new one{_with_options(options)} has these tools."]
    output.result({"tools": [*found, *prompts]}, *_lists(found, prompts, folded=not everything))
    for problem in problems:
        output.notice(problem)


def _new_world(options: RunOptions) -> dict[str, Any]:
    policy = ToolPolicy.load(options.policy) if options.policy is not None else None
    return new_world_node(listed_tools(options.tools), policy)


def _with_options(options: RunOptions) -> str:
    return " with the same options" if options != RunOptions() else ""


def _prompt_rows(world: World, portal: Portal) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns the prompt tools of a world, and why they can't be read. An owner of an earlier version has none."""
    try:
        return prompt_rows(portal.run(world.prompt_tools.catalog())), portal.run(world.prompt_tools.damaged())
    except DemiurgeError as error:
        return [], [] if error.code == "unknown_op" else [f"The prompt tools can't be read: {error.message}"]


def _lists(found: list[dict[str, Any]], prompts: list[dict[str, Any]], *, folded: bool) -> list[str]:
    """Returns the tables of callable tools and of prompt tools; if `folded`, with one line in place of what is
    shipped."""
    own = [tool for tool in found if not folded or tool["source"] != "shipped"]
    own_prompts = [tool for tool in prompts if not folded or not tool["locked"]]
    lines = _table(own) if own else []
    if own_prompts:
        lines += ["", *_prompt_table(own_prompts)] if lines else _prompt_table(own_prompts)
    if not folded:
        return lines
    if not own:
        lines += ["No tools of your own, and none of an MCP server: name a module with --tools."]
    counted = f"{len(found) - len(own)} shipped tools and {len(prompts) - len(own_prompts)} core prompt tools"
    return [*lines, runnable(f"and {counted}: `demiurge tools ls --all` lists them."), *_sent_lines(found)]


def _sent_lines(found: list[dict[str, Any]]) -> list[str]:
    """Returns a line that says what the requests of a message cost, and what tools on demand save."""
    described = [tool["tokens"] for tool in found if tool["sent"] == "described"]
    deferred = [tool["tokens"] for tool in found if tool["sent"] == "on_demand"]
    if not deferred:
        return []
    return [
        f"A request describes {len(described)} tools (about {sum(described)} tokens). {len(deferred)} more are found "
        f"on demand: about {sum(deferred)} tokens less in each request."
    ]


def _table(found: list[dict[str, Any]]) -> list[str]:
    rows = [
        (
            *(t["id"], t["effect"], t["decision"], t["source"], t["trust"] or "-", f"~{t['tokens']}"),
            t["spec_hash"].removeprefix("sha256:")[:SHOWN_DIGITS],
        )
        for t in found
    ]
    return output.table(rows, HEADER)


def _prompt_table(prompts: list[dict[str, Any]]) -> list[str]:
    rows = [
        (
            *(t["id"], one_line(t["name"]), "Locked (core)" if t["locked"] else t["layer"]),
            *(str(t["version"] or "-"), t["digest"].removeprefix("sha256:")[:SHOWN_DIGITS]),
        )
        for t in prompts
    ]
    return output.table(rows, PROMPT_HEADER)


@command.command(name="show", cls=Command)
@click.argument("tool_id", metavar="ID", callback=utf8_text)
@running_options
def show(tool_id: str, **running: Any) -> None:
    """Print one tool: a callable tool with its arguments, or a prompt tool with its text.

    With --json a callable tool has the schema that a model is given. Where there is no world yet, it is a callable tool
    that a new one with the same options has.
    """
    wanted_id, options = canonical_id(tool_id), RunOptions(**running)
    try:
        _show(tool_id, wanted_id, options)
    except NotFound as error:
        if error.code != "no_world":
            raise
        views = {tool["id"]: tool for tool in tool_views(_new_world(options), USER)}
        if wanted_id not in views:
            raise missing_tool(tool_id, views) from error
        output.result({"kind": "callable", **views[wanted_id]}, *tool_lines(views[wanted_id]))


def _show(tool_id: str, wanted_id: str, options: RunOptions) -> None:
    with opened(options) as (world, portal):
        views = {tool["id"]: tool for tool in tool_views(world.manifest(), world.caller, mcp_items=True)}
        if (found := full_id(wanted_id, views)) in views:
            output.result({"kind": "callable", **views[found]}, *tool_lines(views[found]))
            return
        try:
            prompt_tool = portal.run(world.prompt_tools.show(tool_id))
        except NotFound:
            raise missing_tool(tool_id, views) from None
        output.result({"kind": "prompt", **prompt_tool.to_json()}, *_prompt_tool_lines(prompt_tool.to_json()))


def _prompt_tool_lines(tool: dict[str, Any]) -> list[str]:
    layer = "Locked (core)" if tool["locked"] else f"layer {tool['layer']}, version {tool['version']}"
    lines = [f"{tool['id']}: {one_line(tool['name'])}", f"A prompt tool; {layer}; {tool['digest']}."]
    for name in ("archetype", "scope", "usageNotes", "goals", "guardrails", "prompt"):
        if tool[name]:
            lines += ["", f"{'usage notes' if name == 'usageNotes' else name}:", *block(tool[name])]
    return lines


@command.command(name="ref", cls=Command)
@click.argument("tool_ids", metavar="[TOOL...]", nargs=-1)
@click.option("--provider", metavar="P", help="The provider whose format to use; default: this world's.")
@click.option("--choice", metavar="C", callback=utf8_text, help="auto, none, required, or the TOOL to be called.")
@click.option("--strict", is_flag=True, help="Ask the provider to keep calls to the tools' schemas.")
@running_options
def ref(tool_ids: tuple[str, ...], provider: str | None, choice: str | None, strict: bool, **running: Any) -> None:
    """Store a toolset of these tools (default: all that a model may see) and print its address.

    A message whose `tools_ref` is that address narrows its chat to these tools, as far as the tool policy allows them.
    """
    chosen = NamedTool(choice) if choice is not None and choice not in _WORDS else choice
    with opened(RunOptions(provider=provider, **running), create=True) as (world, portal):
        made = portal.run(world.tools_ref(*tool_ids, tool_choice=cast("ToolChoice | None", chosen), strict=strict))
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
        with goes_on(f"Calling {output.plain(tool_id)} ...") if output.stderr().isatty() else nullcontext():
            made = portal.run(world.call(tool_id, text, call_id, connection_id=connection))
        show_call(made, portal.run(world.approvals()), options, is_last=not world.joined)
