"""`demiurge policy`: what a policy file says, and what it says of one tool."""

from __future__ import annotations

from typing import Any

import click

from demiurge.cli import output
from demiurge.cli.command import Command, Group
from demiurge.cli.world import Running, load_tools, opened, running_options
from demiurge.errors import InvalidValue
from demiurge.tools.core import CORE_TOOLS
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ids import UNNAMED, canonical_id
from demiurge.tools.policy import ToolPolicy, ToolPolicyContext

__all__ = ["command"]

SENTENCES = {
    "deny": "no line of the policy allows it",
    "allowed_tools": "it is among allowed_tools, and no line asks for approval",
    "require_approval_for_tools": "it is among require_approval_for_tools",
    "require_approval_for_effects": "its effect is among require_approval_for_effects",
}


@click.group(cls=Group, name="policy")
def command() -> None:
    pass


@command.command(name="check", cls=Command)
@click.argument("file")
@click.option("--tools", metavar="PKG.MOD", multiple=True, help="A Python module whose tools the policy may name.")
def check(file: str, tools: tuple[str, ...]) -> None:
    """Read a policy FILE and say what is wrong with it, or which tools it names that are not here."""
    policy = ToolPolicy.load(file)
    known = {tool.name for tool in (*CORE_TOOLS, *load_tools(tools))}
    named = (*policy.allowed_tools, *policy.require_approval_for_tools)
    missing = sorted({name for name in named if name not in known})
    for name in missing:
        output.notice(f"The policy names {name}, which is no tool here.")
    document = {"ok": True, "digest": policy.digest, "policy": policy.to_json(), "missing": missing}
    output.result(document, f"{file} is sound: it allows {len(policy.allowed_tools)} tools ({policy.digest}).")


@command.command(name="explain", cls=Command)
@click.argument("tool")
@click.option("--actor", default="user", show_default=True, help="Who would call it.")
@running_options
def explain(tool: str, actor: str, **running: Any) -> None:
    """Say whether TOOL may be called in this world, and by which line of its policy."""
    tool_id = canonical_id(tool)
    if tool_id == UNNAMED:
        raise InvalidValue(f"{tool!r} is no tool id: 1 to 64 letters, digits, '_' or '-'.", code="bad_tool_id")
    with opened(Running(**running)) as (world, _):
        node = world.manifest()
    policy = ToolPolicy.from_json(node["tool_policy"])
    specs = {spec["name"]: spec for spec in node["toolset"]}
    effect = ToolEffect(specs[tool_id]["effect"]) if tool_id in specs else ToolEffect.EXTERNAL_SIDE_EFFECT
    decision = policy.decide(ToolPolicyContext(run_id="", actor=actor), tool_id, effect)
    rule = None if decision == "deny" else policy.rule(tool_id, effect)
    why = SENTENCES["deny" if rule is None else rule["rule"]]
    document = {
        "tool": tool_id,
        "known": tool_id in specs,
        "effect": effect.value,
        "decision": decision,
        "rule": rule,
        "why": why,
        "policy": policy.digest,
    }
    there = "" if tool_id in specs else ", and there is no such tool here"
    output.result(document, f"{tool_id} ({effect.value}): {decision}; {why}{there}.")
