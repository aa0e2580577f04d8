"""`demiurge tools history`, `diff` and `rollback`: the approved versions of a prompt tool."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import click

from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.command import Command
from demiurge.cli.proposal_lines import diff_text, one_line, when
from demiurge.cli.settings import settings
from demiurge.cli.world import Opened, opened
from demiurge.errors import NotFound, UsageError
from demiurge.registry.prompt_tool import PromptTool
from demiurge.registry.proposal import TARGETS
from demiurge.registry.tool_diff import FieldDiff, to_json, tool_diff

__all__ = ["VERSION_COMMANDS"]

_PROPOSAL: Final = re.compile(r"p[0-9a-f]{10}")
_tool_id = click.argument("tool_id", metavar="ID", callback=utf8_text)
_layer = click.option("--layer", type=click.Choice(TARGETS), help="The layer, if the tool has versions in both.")


@click.command(name="history", cls=Command)
@_tool_id
def history(tool_id: str) -> None:
    """List the approved versions of a prompt tool, newest first."""
    with opened() as (world, portal):
        found = portal.run(world.prompt_tools.history(tool_id))
    if not found:
        raise NotFound(_no_version(tool_id), code="no_tool")
    rows = [
        (
            *(one.layer, str(one.version), one.kind, "live" if one.is_live else "-"),
            *(one_line(one.approved_by), when(one.at_ms), one.proposal, one.digest),
        )
        for one in found
    ]
    header = ("LAYER", "VERSION", "KIND", "STATE", "APPROVED BY", "AT", "PROPOSAL", "DIGEST")
    output.result({"tool": tool_id, "versions": [asdict(one) for one in found]}, *output.table(rows, header))


@click.command(name="diff", cls=Command)
@click.argument("named", metavar="ID|PID", callback=utf8_text)
@click.argument("old", metavar="[V1]", required=False, type=click.IntRange(min=1))
@click.argument("new", metavar="[V2]", required=False, type=click.IntRange(min=1))
@_layer
def diff(named: str, old: int | None, new: int | None, layer: str | None) -> None:
    """Show what a proposal changes, or the differences between two approved versions of a prompt tool.

    V2 is the newest version, and V1 the one before it, if they are not given.
    """
    with opened() as opening:
        is_proposal = old is None and layer is None and _PROPOSAL.fullmatch(named) is not None
        if is_proposal:
            about: dict[str, Any] = {"proposal": named}
            diffs = opening.portal.run(opening.world.prompt_tools.proposal_diff(named))
        else:
            about, diffs = _between(opening, named, old, new, layer)
    _show(about, diffs)


@click.command(name="rollback", cls=Command)
@_tool_id
@click.argument("version", metavar="VERSION", type=click.IntRange(min=1))
@click.option("--reason", metavar="T", required=True, callback=utf8_text, help="Why, in 20 to 2000 characters.")
@_layer
def rollback(tool_id: str, version: int, reason: str, layer: str | None) -> None:
    """Propose an approved version of a prompt tool again. It is reviewed like any other proposal."""
    with opened() as (world, portal):
        made = portal.run(world.prompt_tools.rollback(tool_id, version, reason, layer))
    output.result(asdict(made), f"{made.id} proposes version {version} of {tool_id} again: {made.state}.", made.digest)


VERSION_COMMANDS: Final = (history, diff, rollback)


def _between(
    opening: Opened, tool_id: str, old: int | None, new: int | None, layer: str | None
) -> tuple[dict[str, Any], list[FieldDiff]]:
    """Returns what the differences are about, and the differences. The first version is compared with nothing."""
    world, portal = opening
    found = [one for one in portal.run(world.prompt_tools.history(tool_id)) if layer in (None, one.layer)]
    if not found:
        raise NotFound(_no_version(tool_id), code="no_tool")
    if layer is None and len({one.layer for one in found}) > 1:
        raise UsageError(f"{tool_id} has versions in two layers: name one with --layer.", code="several_layers")
    newest = max(one.version for one in found)
    new = newest if new is None else new
    old = new - 1 if old is None else old
    about = {"tool": tool_id, "old": old or None, "new": new}
    if old:
        return about, portal.run(world.prompt_tools.diff(tool_id, old, new, layer))
    record = portal.run(world.prompt_tools.version(tool_id, new, layer))["tool"]
    return about, tool_diff(None, PromptTool.from_json(record))


def _show(about: dict[str, Any], diffs: Sequence[FieldDiff]) -> None:
    is_coloured = output.is_terminal(output.stdout()) and not os.environ.get("NO_COLOR")
    if is_coloured and not settings().json:
        output.write(diff_text(diffs, color=True))  # hidden characters of the texts are spelled out in it
    else:
        output.result({**about, "diff": to_json(diffs)}, *diff_text(diffs).split("\n"))


def _no_version(tool_id: str) -> str:
    return f"There is no approved version of a prompt tool {tool_id}; `demiurge tools ls` lists the prompt tools."
