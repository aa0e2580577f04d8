"""`demiurge approvals`: calls that wait for a person, and the standing rules that allow some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

import click

from demiurge.apps.demiurge import CALLS, CHAT
from demiurge.bootstrap import World
from demiurge.bootstrap.call import CallOutcome, call_outcome
from demiurge.bootstrap.chat_address import address_of_chat
from demiurge.bootstrap.standing_rules import COUNT, LASTS_S
from demiurge.cli import output
from demiurge.cli.approval import SHORT
from demiurge.cli.argument import read_text, utf8_text
from demiurge.cli.call import call_document, show_call
from demiurge.cli.call_arguments import arguments as shown_arguments
from demiurge.cli.command import Command, Group
from demiurge.cli.conversation import failure_of
from demiurge.cli.failure import OutcomeError
from demiurge.cli.question import choice_text, question_summary
from demiurge.cli.settings import settings
from demiurge.cli.standing_rules import COLUMNS, pattern_of, rule_row
from demiurge.cli.tool_questions import fields_given, input_summary, json_given
from demiurge.cli.turn import TurnView, reply_document
from demiurge.cli.turn_display import PlainDisplay
from demiurge.cli.waiting import decision_lines, pending_lines
from demiurge.cli.world import Opened, RunOptions, opened, policy_name, recalled, running_options
from demiurge.errors import NotFound, UsageError
from demiurge.tools.taint_words import taint_reason
from demiurge.visible_text import visible_name
from demiurge.world.authority.standing_rule import MAX_CALLS
from demiurge.world.unit import Unit

__all__ = ["command"]

SHORTEST = 6
"""The number of characters of an id that are required: a shorter text, or an empty variable, may mean another call."""

COLUMNS_OF_CALLS = ("ID", "UNIT", "TOOL", "ARGUMENTS OR QUESTION")

LOOKED_BACK = 5000
"""The number of records in which a decision is looked for that somebody else took first."""


def _utf8(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        utf8_text(context, parameter, value)
    return values


@click.group(cls=Group, name="approvals")
def command() -> None:
    pass


@command.command(name="ls", cls=Command)
def ls() -> None:
    """List the calls that wait."""
    with opened() as (world, portal):
        waiting = portal.run(world.approvals())
    rows = [((a["id"] or "?")[:SHORT], visible_name(a["unit"]), a.get("tool", "?"), _shown(a)) for a in waiting]
    lines = output.table(rows, COLUMNS_OF_CALLS) if rows else ["Nothing waits for approval."]
    lines = [*lines, *(f"{a['id'][:SHORT]}: asked because {_tainted_by(a)}." for a in _tainted(waiting))]
    damaged = [pending["damaged"] for pending in waiting if pending["damaged"] is not None]
    if not damaged:
        output.result({"approvals": waiting}, *lines)
        return
    if not settings().json:
        output.write(output.plain("\n".join(lines)))
    raise OutcomeError("damaged", _damage(waiting), {"approvals": waiting})


@command.command(name="show", cls=Command)
@click.argument("approval_id", metavar="ID")
def show(approval_id: str) -> None:
    """Show one waiting call in full. ID may be shortened.

    On a terminal this is the card that a chat shows, else JSON, as for a tool that this world does not have at hand.
    """
    with opened() as (world, portal):
        pending = _find(portal.run(world.approvals()), approval_id)
        if pending["damaged"] is not None:
            raise OutcomeError("damaged", _damage([pending]), pending)
        is_known = any(spec["name"] == pending["tool"] for spec in world.manifest()["toolset"])
        if settings().json or not output.is_terminal(output.stdout()) or not is_known:
            output.document(pending)
        else:
            _show_card(world, pending)


@command.command(name="approve", cls=Command)
@click.argument("approval_id", metavar="ID")
@click.option("--reason", default="", metavar="T", callback=utf8_text, help="Why; it is journaled.")
@click.option(
    "--arguments", metavar="JSON", callback=utf8_text, help="Run it with these arguments instead (JSON, @file or @-)."
)
@running_options
def approve(approval_id: str, reason: str, arguments: str | None, **running: Any) -> None:
    """Allow the call ID (it may be shortened), run it, and show its result."""
    changed = read_text(arguments) if arguments is not None else None
    _decide(approval_id, approve=True, reason=reason, running=RunOptions(**running), arguments_json=changed)


@command.command(name="reject", cls=Command)
@click.argument("approval_id", metavar="ID")
@click.option(
    "--reason", default="", metavar="T", callback=utf8_text, help="Why; it is journaled, and the model is told."
)
@running_options
def reject(approval_id: str, reason: str, **running: Any) -> None:
    """Refuse the call ID (it may be shortened), and show the model's answer to that."""
    _decide(approval_id, approve=False, reason=reason, running=RunOptions(**running))


@command.command(name="answer", cls=Command)
@click.argument("approval_id", metavar="ID")
@click.argument("text", metavar="[TEXT]", required=False, callback=utf8_text)
@click.option("--choice", metavar="N", type=click.IntRange(min=1), help="The choice with this number, from 1.")
@click.option("--field", "fields", metavar="NAME=VALUE", multiple=True, callback=_utf8, help="A field of a form.")
@click.option("--content", metavar="JSON", callback=utf8_text, help="All fields of a form (JSON, @file or @-).")
@click.option("--done", "action", flag_value="accept", help="What the tool asks for was done at its address.")
@click.option("--decline", "action", flag_value="decline", help="Refuse to answer; the tool is told.")
@click.option("--cancel", "action", flag_value="cancel", help="Leave the question; the tool is told.")
@running_options
def answer(
    approval_id: str,
    text: str | None,
    choice: int | None,
    fields: tuple[str, ...],
    content: str | None,
    action: str | None,
    **options: Any,
) -> None:
    """Answer the question ID (it may be shortened) of the model or of a tool, and show what comes of it.

    The model takes a TEXT or a choice, a tool's form takes --field or --content.
    """
    if sum((text is not None, choice is not None, bool(fields), content is not None, action is not None)) != 1:
        raise click.UsageError(
            "Give either the TEXT of the answer or --choice, --field, --content, --done, --decline, --cancel."
        )
    running = RunOptions(**options)
    read = read_text(content) if content is not None else None
    with opened(_as_its_chat(approval_id, running), create=False) as opening:
        world, portal = opening
        pending = _to_decide(opening, approval_id)
        if choice is not None and pending.get("asks") is not None:
            text = choice_text(pending["asks"], choice)
        given: dict[str, Any] | None = {"action": action} if action is not None else None
        if read is not None:
            given = json_given(read)
        elif fields:
            given = fields_given(pending.get("input"), fields)
        said = text if text is not None or given is not None else f"choice {choice}"
        portal.run(world.backend.run.answer(pending["id"], said, given))
        outcome = {"id": pending["id"], "decision": "answered", "unit": pending["unit"]}
        _go_on(opening, Unit.parse(pending["unit"]), outcome, running)


@command.command(name="allow", cls=Command)
@click.argument("approval_id", metavar="ID")
@click.option("--any", "any_of", metavar="NAME", multiple=True, callback=_utf8, help="This argument may be anything.")
@click.option("--like", "likes", metavar="NAME=TEXT", multiple=True, callback=_utf8, help="* stands for all but /.")
@click.option("--count", default=COUNT, show_default=True, type=click.IntRange(1, MAX_CALLS), help="Calls in all.")
@click.option("--hours", default=LASTS_S / 3600, show_default=True, type=click.FloatRange(0, 720, min_open=True))
@click.option("--reason", default="", metavar="T", callback=utf8_text, help="Why; it is journaled.")
@running_options
def allow(
    approval_id: str,
    any_of: tuple[str, ...],
    likes: tuple[str, ...],
    count: int,
    hours: float,
    reason: str,
    **options: Any,
) -> None:
    """Allow the call ID and further ones of its chat with the same arguments, and run it.

    `--any` and `--like` widen single arguments; `demiurge approvals rules` lists the rule.
    """
    running = RunOptions(**options)
    with opened(_as_its_chat(approval_id, running), create=False) as opening:
        world, portal = opening
        pending = _to_decide(opening, approval_id)
        if "tool" in pending:
            _require_tool(portal.run(world.info())["tools"], pending["tool"])
        widened = (any_of or likes) and "arguments_json" in pending
        pattern = pattern_of(pending["arguments_json"], any_of, likes) if widened else None
        made = portal.run(
            world.standing_rules.allow(pending["id"], pattern, count=count, lasts_s=hours * 3600, reason=reason)
        )
        outcome = {"id": pending["id"], "decision": "approved", "unit": pending["unit"], "rule": made["id"]}
        if not settings().json:
            how = f"`demiurge approvals forget {made['id'][:SHORT]}` ends the rule"
            output.notice(
                f"{pending['tool']} is allowed in {visible_name(pending['unit'])}, {count} times in all; {how}."
            )
        _go_on(opening, Unit.parse(pending["unit"]), outcome, running)


@command.command(name="rules", cls=Command)
def rules() -> None:
    """List the standing rules that hold."""
    with opened() as (world, portal):
        found = portal.run(world.standing_rules.list())
    lines = output.table([rule_row(rule) for rule in found], COLUMNS) if found else ["No standing rule holds."]
    output.result({"rules": found}, *lines)


@command.command(name="forget", cls=Command)
@click.argument("rule_id", metavar="ID")
def forget(rule_id: str) -> None:
    """End the standing rule ID (it may be shortened)."""
    with opened(create=False) as (world, portal):
        found = [rule for rule in portal.run(world.standing_rules.list()) if rule["id"].startswith(rule_id)]
        if len(rule_id) < SHORTEST or len(found) != 1:
            raise NotFound(f"No standing rule {rule_id}; `demiurge approvals rules` lists them.", code="no_rule")
        portal.run(world.standing_rules.forget(found[0]["id"]))
    output.result({"id": found[0]["id"], "ended": True}, f"The rule {found[0]['id'][:SHORT]} is ended.")


def _decide(
    approval_id: str, *, approve: bool, reason: str, running: RunOptions, arguments_json: str | None = None
) -> None:
    with opened(_as_its_chat(approval_id, running), create=False) as opening:
        world, portal = opening
        pending = _to_decide(opening, approval_id)
        if approve and "tool" in pending:
            _require_tool(portal.run(world.info())["tools"], pending["tool"])
        portal.run(world.decide(pending["id"], approve=approve, reason=reason, arguments_json=arguments_json))
        outcome = {"id": pending["id"], "decision": "approved" if approve else "rejected", "unit": pending["unit"]}
        if not settings().json:
            output.notice(f"{pending.get('tool', 'The call')} is {outcome['decision']}.")
        _go_on(opening, Unit.parse(pending["unit"]), outcome, running)


def _as_its_chat(approval_id: str, running: RunOptions) -> RunOptions:
    """Returns the options with the provider and address of the call's chat."""
    profile = recalled(running)
    if running.base_url is not None or not profile.addresses:
        return running
    with opened() as opening:
        unit = Unit.parse(_to_decide(opening, approval_id)["unit"])
    address = address_of_chat(profile.addresses, unit.key) if unit.module == CHAT else None
    return replace(running, provider=address.provider, base_url=address.base_url) if address is not None else running


def _go_on(opening: Opened, unit: Unit, outcome: Mapping[str, str], running: RunOptions) -> None:
    """Runs the unit until it waits again, and shows the outcome."""
    world, portal = opening
    if not world.caller.has("agent"):
        output.result(outcome, f"{unit} goes on; you may decide here, and not watch what runs.")
        return
    if unit.module == CALLS:
        portal.run(world.settle(unit))
        waiting = portal.run(world.approvals(unit))
        called = portal.run(call_outcome(world.backend, unit.key))
        _show_call(called, outcome, waiting, running, is_last=not world.joined)
        return
    if unit.module != CHAT:
        portal.run(world.settle(unit))
        output.result(outcome, f"{unit} went on.")
        return
    chat = world.chat(unit.key)
    request_id = portal.run(chat.reply()).request_id
    view = TurnView(chat, request_id, PlainDisplay(quiet=settings().json))
    reply = portal.run(view.follow(partial(chat.wait, request_id)))
    portal.run(view.close(reply))
    shown = {**outcome, "reply": reply_document(chat.id, reply)}
    if reply.status == "failed":
        raise OutcomeError(*failure_of(reply), shown)
    if settings().json:
        output.document(shown)
    elif reply.status == "awaiting_approval":
        waiting = portal.run(world.approvals(unit))
        output.write("\n".join(pending_lines(waiting, running, is_last=not world.joined)))


def _show_call(
    called: CallOutcome,
    outcome: Mapping[str, str],
    waiting: Sequence[Mapping[str, Any]],
    running: RunOptions,
    *,
    is_last: bool,
) -> None:
    approved = outcome["decision"] in ("approved", "answered")
    if not settings().json:
        if approved:
            show_call(called, waiting, running, is_last=is_last)
        return
    shown = {**outcome, "call": call_document(called)}
    if approved and not called.ok:
        raise OutcomeError(called.error_code or called.status, called.message, shown)
    output.document(shown)


def _show_card(world: World, pending: Mapping[str, Any]) -> None:
    from demiurge.cli.terminal.card import card_facts, card_lines, more_facts  # only here: it takes time to load
    from demiurge.cli.terminal.screen import Screen

    running, screen = RunOptions(), Screen(output.stdout())
    if pending["asks"] is not None or pending["input"] is not None:
        output.write("\n".join(pending_lines([pending], running, is_last=not world.joined)))
        return
    screen.print(card_lines(screen, pending, card_facts(world, pending, policy_name(world, running))))
    output.write("\n".join((*more_facts(pending), *decision_lines(pending, running))))


def _tainted(waiting: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [pending for pending in waiting if pending.get("tainted")]


def _tainted_by(pending: Mapping[str, Any]) -> str:
    return taint_reason(pending["tainted"])


def _shown(pending: Mapping[str, Any]) -> str:
    """Returns the arguments of a waiting call, as far as they can be read."""
    known = [shown_arguments(pending["arguments_json"])] if pending["arguments_json"] is not None else []
    if pending["asks"] is not None:
        known = [question_summary(pending["asks"])]
    if pending["input"] is not None:
        known = [input_summary(pending["input"])]
    return " ".join([*known, *(["(damaged)"] if pending["damaged"] is not None else [])])


def _damage(waiting: Sequence[Mapping[str, Any]]) -> str:
    """Returns one sentence about each call that cannot be read."""
    sentences = []
    for pending in waiting:
        if pending["id"] is None:
            sentences.append(f"Whether more calls of {pending['unit']} wait can't be told: {pending['damaged']}")
        elif pending["damaged"] is not None:
            what = "its arguments can't be read" if pending["arguments_json"] is None else "its unit can't be read"
            where = f"{pending['id'][:SHORT]} ({pending['tool']} in {pending['unit']})"
            sentences.append(f"The call {where} waits, and {what}: {pending['damaged']}")
    return "\n".join(sentences)


def _find(waiting: Sequence[dict[str, Any]], approval_id: str) -> dict[str, Any]:
    if len(approval_id) < SHORTEST:
        why = f"An id has to be given with its first {SHORTEST} characters at least"
        raise UsageError(f"{why}; `demiurge approvals ls` shows them.", code="too_short")
    found = [pending for pending in waiting if (pending["id"] or "").startswith(approval_id)]
    if len(found) > 1:
        raise UsageError(f"{approval_id} is the beginning of {len(found)} ids; give more of it.", code="ambiguous")
    if not found:
        raise NotFound(f"No call {approval_id} waits for approval; `demiurge approvals ls` lists those that do.")
    return found[0]


def _to_decide(opening: Opened, approval_id: str) -> dict[str, Any]:
    """Returns the waiting call with this id. If somebody decided it meanwhile, returns its `{id, unit}` alone: the
    world then says who was first."""
    world, portal = opening
    try:
        return _find(portal.run(world.approvals()), approval_id)
    except NotFound:
        for record in world.journal.views(from_seq=max(0, portal.run(_length(world)) - LOOKED_BACK)):
            decides = record["kind"] in ("approval", "decision")
            if decides and record["body"]["intent"].hex().startswith(approval_id):
                return {"id": record["body"]["intent"].hex(), "unit": record["unit"]}
        raise


async def _length(world: World) -> int:
    async with aclosing(world.backend.read.appends()) as appends:
        return int((await anext(appends))["length"])


def _require_tool(here: Sequence[str], tool: str) -> None:
    """Raises NotFound if the tool is missing here: a call that cannot run would use up its approval."""
    if tool not in here:
        raise NotFound(f"The tool {tool} is not here; name the module that has it with --tools.", code="tool_missing")
