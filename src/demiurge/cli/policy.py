"""`demiurge policy`: checks a tool policy, explains decisions of the tool policy or the world's policy, and applies
another tool policy to recorded calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click
from click.core import ParameterSource

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.missing_tool import full_id
from demiurge.bootstrap.policy_view import explain_effect, explain_tool, why_line
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.code import tool_names
from demiurge.cli.command import Command, Group
from demiurge.cli.failure import OutcomeError
from demiurge.cli.hints import runnable
from demiurge.cli.policy_observe import observe, observing_sentence
from demiurge.cli.settings import settings
from demiurge.cli.standing_rules import rule_sentence
from demiurge.cli.world import RunOptions, keep, opened, running_options
from demiurge.errors import DemiurgeError, InvalidValue, NotFound
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ids import canonical_id, checked_id
from demiurge.tools.policy import ToolPolicy, ToolPolicyContext
from demiurge.tools.policy_file import file_problems
from demiurge.values.caller import ROLES, USER, Caller
from demiurge.values.clock import SystemClock
from demiurge.world.authority.observing import MCP_TOOL
from demiurge.world.effect_kinds import TOOL
from demiurge.world.history.backtest import Backtest, backtest
from demiurge.world.manifest import OBSERVE, Manifest
from demiurge.world.unit import Unit

__all__ = ["command", "tool_lines"]


@click.group(cls=Group, name="policy")
def command() -> None:
    pass


command.add_command(observe)


@command.command(name="check", cls=Command)
@click.argument("file")
@click.option("--tools", metavar="PKG.MOD", multiple=True, help="A Python module whose tools the policy may name.")
def check(file: str, tools: tuple[str, ...]) -> None:
    """Check a tool policy FILE; prints all its mistakes, or the tools it names that are not here."""
    try:
        policy = ToolPolicy.load(file)
    except InvalidValue as error:
        raise _all_of_it(file, error) from error
    known = tool_names(tools)
    named = {*policy.allowed_to_some, *policy.require_approval_for_tools}
    missing = sorted(named - known)
    for name in missing:
        output.notice(f"The policy names {name}, which is no tool here.")
    roles = {role for rule in policy.rules for role in (*rule.roles, *rule.approvers)} | set(policy.approvers)
    unknown = sorted(roles - set(ROLES))
    for role in unknown:
        output.notice(f"The policy names the role {role}, which is none of a world's own ({', '.join(ROLES)}).")
    document = {"ok": True, "digest": policy.digest, "policy": policy.to_json(), "missing": missing}
    allows = f"it allows {len(policy.allowed_tools)} tools"
    if policy.rules:
        allows += f" to everybody, and has {len(policy.rules)} rule{'s' * (len(policy.rules) > 1)} for some callers"
    output.result(document | {"unknown_roles": unknown}, f"{file} is sound: {allows} ({policy.digest}).")


def _all_of_it(file: str, first: InvalidValue) -> DemiurgeError:
    """Returns an error with every mistake of a tool policy file, of which `first` is one."""
    found = file_problems(file)
    shown = [{"path": error.path, "wrong": error.message} for error in found]
    if len(found) < 2:
        return first
    lines = "".join(f"\n  {': '.join(filter(None, problem.values()))}" for problem in shown)
    document = {"ok": False, "problems": shown}
    return OutcomeError(first.code, f"The policy file {file} has {len(found)} problems:{lines}", document)


@command.command(name="set", cls=Command)
@click.argument("file")
@click.option("--tools", metavar="PKG.MOD", multiple=True, help="A Python module whose tools to offer as well.")
def set_(file: str, tools: tuple[str, ...]) -> None:
    """Put the tool policy in FILE in force, and remember it for this world.

    If another process has the world open it goes on under the policy at once. The policy applies to each unit with the
    next thing that happens in it. A call that waits for a person still waits, and runs only if both policies let it.
    """
    policy = ToolPolicy.load(file)
    with opened(RunOptions(tools=tools)) as (world, portal):
        portal.run(world.set_policy(policy))
        known = {spec["name"] for spec in world.manifest()["toolset"]}
        ref = portal.run(world.info())["manifest"]
    keep(RunOptions(tools=tools, policy=file))
    for name in sorted({*policy.allowed_to_some, *policy.require_approval_for_tools} - known):
        output.notice(f"The policy names {name}, which is no tool of this world.")
    output.result({"ok": True, "digest": policy.digest, "manifest": ref}, f"The policy in {file} is in force.")


@command.command(name="explain", cls=Command)
@click.argument("what", metavar="TOOL|KIND")
@click.option("--as", "roles", metavar="ROLE", multiple=True, help="A role of the caller.  [default: user]")
@click.option("--tenant", default="", metavar="ID", help="The tenant of the caller.")
@click.option("--actor", default="user", show_default=True, help="The actor who calls the tool.")
@click.option("--plan", metavar="NAME", help="A world plan that asks for the effect, such as shop/order@1.")
@click.option("--reducer", metavar="MODULE", help="The reducer of this module asks for the effect.")
@click.option("--tool", metavar="ID", help="This tool, while it runs, asks for the effect.")
@running_options
def explain(
    what: str,
    roles: tuple[str, ...],
    tenant: str,
    actor: str,
    plan: str | None,
    reducer: str | None,
    tool: str | None,
    **running: Any,
) -> None:
    """Explain whether the caller of --as, --tenant and --actor may call a TOOL in this world, and which line of its
    tool policy decides; or whether an effect of this KIND (such as http.request) may be asked for, under which grant
    and by which rule of the world's policy.

    For an effect, prints everybody who may ask for it, or the one that --plan, --reducer or --tool names.
    """
    asking = [(kind, name) for kind, name in (("plan", plan), ("reducer", reducer), ("tool", tool)) if name is not None]
    if len(asking) > 1:
        raise click.UsageError("Give only one of --plan, --reducer and --tool.")
    with opened(RunOptions(**running)) as (world, portal):
        manifest = Manifest.load(world.backend.read.manifest(), {})
        node = world.manifest()
        rules = portal.run(world.standing_rules.shown())
    if what in manifest.effects:
        source = click.get_current_context().get_parameter_source
        caller_options = [name for name in ("roles", "tenant", "actor") if source(name) is ParameterSource.COMMANDLINE]
        if caller_options:
            option = "--as" if caller_options[0] == "roles" else f"--{caller_options[0]}"
            raise click.UsageError(
                f"{option} goes with a tool: of an effect the world's policy decides, which asks for none."
            )
        document = explain_effect(manifest, what, asking[0] if asking else None, SystemClock().now_ns())
        output.result(document, *_effect_lines(document))
        return
    if asking:
        raise NotFound(
            f"There is no effect {what}; `demiurge defs ls --kind effect` lists them.", code="unknown_effect"
        )
    tool = full_id(canonical_id(what), manifest.toolset)
    if "." in what and tool not in manifest.toolset:
        lists = "`demiurge tools ls` and `demiurge defs ls --kind effect` list them"
        raise NotFound(f"There is no tool and no effect {what}; {lists}.", code="unknown_effect")
    tool = tool if tool in manifest.toolset else checked_id(what)
    document = explain_tool(node, tool, Caller(actor, tenant, roles or USER.roles))
    is_observed = document["known"] and document["tool"].startswith(MCP_TOOL)
    until_ns = node.get(OBSERVE) if is_observed else None
    until_ns = until_ns if until_ns is not None and SystemClock().now_ns() < until_ns else None
    document["observe_until_ns"] = until_ns
    document["standing_rules"] = [rule for rule in rules if rule["tool"] == document["tool"]]
    output.result(document, *tool_lines(document), *([observing_sentence(until_ns)] if until_ns is not None else []))


def _effect_lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"{document['effect']} needs a grant of type {document['cap_type']}, and " + (
        f"may be asked for by: {', '.join(document['origins'])}."
    )
    for grant in document["grants"]:
        yield f"The grant {grant['cap']} covers {output.as_json(grant['params'])}."
    for each in document["decisions"]:
        origin, rule = each["origin"], each["rule"]
        anybody = "any tool that is not read_only" if document["changes"] else "any tool"
        who = f"{origin['kind']} {origin['name']}" if origin["name"] else anybody
        under = f" under {each['cap']}" if each["cap"] else ""
        by = "" if rule is None else f" (rule {rule['index']}: {output.as_json(rule['when'])})"
        yield f"{who}{under}: {each['decision']}; {each['why']}{by}."
    if not document["decisions"]:
        yield "No plan, reducer or tool of this world asks for it; --plan, --reducer or --tool says who would."
    if document["effect"] == TOOL:
        how = runnable("`demiurge policy explain TOOL` says how.")
        yield f"Where it is allowed the tool policy decides on the tool; {how}"


def tool_lines(document: Mapping[str, Any], actor: str = "") -> Iterator[str]:
    """Yields the sentences of `explain_tool`, after the standing rules of the tool. `actor` reads them."""
    tool, approvers = document["tool"], document["approvers"]
    note = "" if document["known"] else ", and there is no such tool here"
    if document["decision"] == "require_approval":
        yield from (runnable(rule_sentence(rule, actor)) for rule in document["standing_rules"])
    yield f"{tool} ({document['effect']}): {document['decision']}; {document['why']}{note}."
    yield from (f"Also: {why_line(line)}." for line in document["rules"][1:])
    tainted = document["tainted"]
    if tainted["rules"] != document["rules"]:
        yield f"In a turn that has read untrusted text: {tainted['decision']}; {why_line(tainted['rules'][-1])}."
    if approvers:
        yield f"Somebody with the role {' and '.join(' or '.join(roles) for roles in approvers)} decides on it."


@command.command(name="backtest", cls=Command)
@click.argument("file")
@click.option("--chat", "chat_id", metavar="ID", callback=utf8_text, help="Only calls of this chat.")
@click.option(
    "--show",
    "shown",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="The most calls to name for each change.",
)
def backtest_command(file: str, chat_id: str | None, shown: int) -> None:
    """Decide every call in the journal again under the tool policy FILE, and print what would change. Runs nothing."""
    policy = ToolPolicy.load(file)
    unit = Unit(CHAT, chat_id) if chat_id is not None else None
    with opened() as (world, _):
        if unit is not None and str(unit) not in {name for name, *_ in world.journal.head()}:
            raise NotFound(f"There is no chat {chat_id}; `demiurge chat ls` lists them.", code="no_chat")
        records = world.journal.read(unit)
        done = backtest(records, world.blobs.get, policy, shown=shown)
        catalog = list(_catalog(world.manifest(), policy))
    document = {"policy": policy.digest, **_backtest_document(done), "catalog": catalog}
    output.result(document, *_backtest_lines(done, catalog))


@command.command(name="suggest", cls=Command)
@click.option("--chat", "chat_id", metavar="ID", callback=utf8_text, help="Only calls of this chat.")
@click.option("--days", type=click.IntRange(min=1), help="Only calls of the last so many days.  [default: all]")
@click.option("--out", metavar="FILE", callback=utf8_text, help="A new file for the policy, whose name ends in .toml.")
def suggest(chat_id: str | None, days: int | None, out: str | None) -> None:
    """Draft a tool policy from what was used: it allows what was called with success, and asks before changes.

    Prints the policy as TOML with comments, or writes it to --out, and says which recorded calls it would have decided
    otherwise. It denies no call that succeeded. Runs nothing; `demiurge policy set FILE` puts the file in force.
    """
    if out is not None and not out.endswith(".toml"):
        raise click.UsageError("--out needs a name that ends in .toml.")
    with opened() as (world, portal):
        found = portal.run(world.policy_suggestion(chat=chat_id, days=days))
    if found.denied_successes:
        raise OutcomeError(
            "denies_successes",
            f"The draft would deny calls that succeeded ({', '.join(found.denied_successes)}), so it is not given out.",
            found.to_json(),
        )
    lines = list(_backtest_lines(found.backtest, ()))
    document = {"ok": True, **found.to_json(), **_backtest_document(found.backtest)}
    if out is None:
        if not settings().json:
            for line in lines:
                output.notice(line)
        output.result(document, found.text.rstrip("\n"))
        return
    try:
        with open(out, "x", encoding="utf-8") as file:
            file.write(found.text)
    except FileExistsError:
        raise InvalidValue(f"There is a file {out} already; name another one.", code="exists") from None
    except OSError as error:
        raise InvalidValue(f"The file {out} can't be written: {error.strerror}.") from error
    output.result(document, f"The draft is in {out}. Read it; `demiurge policy set {out}` puts it in force.", *lines)


def _backtest_document(done: Backtest) -> dict[str, Any]:
    return {
        "calls": done.calls,
        "unreadable": done.unreadable,
        "decided": [{"recorded": was, "would_be": is_, "calls": n} for (was, is_), n in sorted(done.decided.items())],
        "changes": [asdict(change) | {"calls": [call._asdict() for call in change.calls]} for change in done.changes],
    }


def _catalog(manifest: Mapping[str, Any], policy: ToolPolicy) -> Iterator[dict[str, str]]:
    """Returns the tools of the world on which the two tool policies differ."""
    now, context = ToolPolicy.from_json(manifest["tool_policy"]), ToolPolicyContext.of(USER)
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
        by = f", by the rule {change.rule}" if change.rule is not None else ""
        yield f"{change.recorded} -> {change.would_be}: {change.tool} ({change.effect}), {change.count}{by}"
        yield from (f"  {call.unit} {call.seq}: {call.tool_call_id}" for call in change.calls)
        if change.calls and change.count > len(change.calls):
            yield f"  and {change.count - len(change.calls)} more"
    for tool in catalog:
        yield f"{tool['tool']} ({tool['effect']}): {tool['now']} now, would be {tool['would_be']}"
