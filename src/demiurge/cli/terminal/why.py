"""Why a tool is allowed, asked about or denied, as lines for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from demiurge.bootstrap import World
from demiurge.bootstrap.policy_view import explain_tool
from demiurge.cli import output
from demiurge.cli.policy import tool_lines
from demiurge.cli.portal import Portal
from demiurge.tools.taint_words import taint_reason

__all__ = ["why_lines"]


def why_lines(world: World, portal: Portal, tool: str, tainted: Sequence[str] = ()) -> list[str]:
    """Returns what `demiurge policy explain` prints about the tool, for this world's caller; before it, for a call that
    is asked about because of them, the untrusted tools whose text its turn has read (`tainted`)."""
    document = explain_tool(world.manifest(), tool, world.caller)
    rules = portal.run(world.standing_rules.shown())
    document["standing_rules"] = [rule for rule in rules if rule["tool"] == document["tool"]]
    first = [f"This call is asked about because {taint_reason(tainted)}."] if tainted else []
    return [output.plain(line) for line in (*first, *tool_lines(document, world.caller.actor))]
