"""`demiurge policy`: what a policy file says, what it says of one tool, and what it would have said before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from demiurge.apps.demiurge import CHAT
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.code import load_tools
from demiurge.cli.command import Command, Group
from demiurge.cli.world import Running, opened, running_options
from demiurge.errors import NotFound
from demiurge.tools.core import CORE_TOOLS
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ids import checked_id
from demiurge.tools.policy import ToolPolicy, ToolPolicyContext
from demiurge.world.history.backtest import Backtest, backtest
from demiurge.world.unit import Unit

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
    tool_id = checked_id(tool)
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


@command.command(name="backtest", cls=Command)
@click.argument("file")
@click.option("--chat", "chat_id", metavar="ID", callback=utf8_text, help="Look at this chat only.")
@click.option(
    "--show", "shown", type=click.IntRange(min=0), default=5, show_default=True, help="Most calls to name of a change."
)
def backtest_command(file: str, chat_id: str | None, shown: int) -> None:
    """Decide every call that the journal holds under the policy FILE, and print what would change. Runs nothing."""
    policy = ToolPolicy.load(file)
    unit = Unit(CHAT, chat_id) if chat_id is not None else None
    with opened() as (world, _):
        if unit is not None and str(unit) not in {name for name, *_ in world.journal.head()}:
            raise NotFound(f"There is no chat {chat_id}; `demiurge chat ls` lists them.", code="no_chat")
        records = world.journal.read(unit)
        done = backtest(records, world.blobs.get, policy, shown=shown)
        catalog = list(_catalog(world.manifest(), policy))
    document = {
        "policy": policy.digest,
        "calls": done.calls,
        "unreadable": done.unreadable,
        "decided": [{"recorded": was, "would_be": is_, "calls": n} for (was, is_), n in sorted(done.decided.items())],
        "changes": [asdict(change) | {"calls": [call._asdict() for call in change.calls]} for change in done.changes],
        "catalog": catalog,
    }
    output.result(document, *_backtest_lines(done, catalog))


def _catalog(manifest: Mapping[str, Any], policy: ToolPolicy) -> Iterator[dict[str, str]]:
    """The tools of the world that the two policies don't agree on."""
    now, context = ToolPolicy.from_json(manifest["tool_policy"]), ToolPolicyContext(run_id="", actor="user")
    for spec in sorted(manifest["toolset"], key=lambda spec: str(spec["name"])):
        effect = ToolEffect(spec["effect"])
        verdicts = [each.decide(context, spec["name"], effect) for each in (now, policy)]
        if verdicts[0] != verdicts[1]:
            yield {"tool": spec["name"], "effect": effect.value, "now": verdicts[0], "would_be": verdicts[1]}


def _backtest_lines(done: Backtest, catalog: Sequence[Mapping[str, str]]) -> Iterator[str]:
    changed = sum(change.count for change in done.changes)
    yield f"{done.calls} calls were decided; {changed} would be decided otherwise."
    if done.unreadable:
        yield f"{done.unreadable} can't be read any more."
    for change in done.changes:
        yield f"{change.recorded} -> {change.would_be}: {change.tool} ({change.effect}), {change.count}"
        yield from (f"  {call.unit} {call.seq}: {call.tool_call_id}" for call in change.calls)
        if change.count > len(change.calls):
            yield f"  and {change.count - len(change.calls)} more"
    for tool in catalog:
        yield f"{tool['tool']} ({tool['effect']}): {tool['now']} now, would be {tool['would_be']}"
