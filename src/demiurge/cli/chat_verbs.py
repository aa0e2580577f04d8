"""The verbs of `demiurge chat`: lists, shows, renames and exports conversations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import click

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap import Reply
from demiurge.bootstrap.chat_state import ChatStanding, Failed
from demiurge.cli import output
from demiurge.cli.argument import utf8_text
from demiurge.cli.call_arguments import arguments, change_text, result_text, told_problem
from demiurge.cli.chat_claims import claims
from demiurge.cli.command import Command, Group
from demiurge.cli.following import Follower
from demiurge.cli.hints import runnable
from demiurge.cli.settings import settings
from demiurge.cli.turn import REPLAYED, reply_document
from demiurge.cli.world import Opened, opened, visits, while_it_lasts
from demiurge.errors import Unavailable
from demiurge.registry.evidence import finding_line
from demiurge.visible_text import visible_name
from demiurge.world.history.call_state import problem_text
from demiurge.world.unit import Unit

__all__ = ["DEFAULT_CHAT", "chat_summary", "verbs"]

DEFAULT_CHAT = "main"


@click.group(cls=Group, name="chat")
def verbs() -> None:
    pass


verbs.add_command(claims)


@verbs.command(name="ls", cls=Command)
def ls() -> None:
    """List the chats."""
    with opened() as (world, portal):
        keys = portal.run(world.keys(CHAT))
        chats = {key: found for key in keys if (found := portal.run(world.chat(key).standing())) is not None}
        waiting = portal.run(world.backend.read.waiting_units())
    shown = [chat_summary(key, found, waits=str(Unit(CHAT, key)) in waiting) for key, found in chats.items()]
    rows = [(c["chat_id"], str(c["messages"]), c["status"].replace("_", " "), visible_name(c["title"])) for c in shown]
    output.result({"chats": shown}, *output.table(rows, ("CHAT", "MESSAGES", "LAST TURN", "TITLE")))


@verbs.command(name="show", cls=Command)
@click.argument("chat_id", default=DEFAULT_CHAT, metavar="[CHAT_ID]", callback=utf8_text)
@click.option("-f", "--follow", "follows", is_flag=True, help="Show new messages from other terminals until Ctrl-C.")
def show(chat_id: str, follows: bool) -> None:
    """Print the conversation."""
    if follows and settings().json:
        raise click.UsageError("--follow never ends, so it can't be one JSON document; leave one of the two out.")
    if follows:
        _follow(chat_id)
        return
    with opened() as world:
        messages, last = _read(world, chat_id)
        failures = world.portal.run(world.world.chat(chat_id).failures())
        begun = world.portal.run(world.world.backend.read.begun(str(world.world.chat(chat_id).unit)))
    shown: dict[str, Any] = {
        "chat_id": chat_id,
        "messages": messages,
        "last": reply_document(chat_id, last) if last else None,
    }
    shown["failures"] = _failures_json(failures)
    shown["begun"] = begun
    lines = _lines(messages, failures)
    for effect in begun:
        lines += ["", runnable(f"({effect['tool'] or effect['kind']}: {effect['message']})")]
    if last is not None and last.is_running:
        shown["last"]["status"] = "running"
        lines += [] if begun else ["", runnable("(the turn is not over; the next `demiurge chat` goes on with it)")]
    elif last is not None and last.status == "awaiting_approval":
        lines += ["", "(awaiting approval)"]
    output.result(shown, *(lines or ["(nothing was said yet)"]))


def _follow(chat_id: str) -> None:
    follower = Follower(_lines)
    with suppress(KeyboardInterrupt):
        for world, portal in visits():
            with while_it_lasts():
                portal.run(follower.show(world.chat(chat_id), stays=world.joined))


@verbs.command(name="rename", cls=Command)
@click.argument("chat_id", metavar="CHAT_ID", callback=utf8_text)
@click.argument("title", metavar="TITLE", callback=utf8_text)
def rename(chat_id: str, title: str) -> None:
    """Give a chat another title."""
    with opened() as (world, portal):
        portal.run(world.chat(chat_id).rename(title))
    output.result({"chat_id": chat_id, "title": title.strip()}, f"Chat {chat_id} is now called {title.strip()}.")


@verbs.command(name="export", cls=Command)
@click.argument("chat_id", default=DEFAULT_CHAT, metavar="[CHAT_ID]", callback=utf8_text)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file instead of stdout.")
def export(chat_id: str, out: Path | None) -> None:
    """Print the conversation as JSON."""
    with opened() as world:
        messages, _ = _read(world, chat_id)
        failures = world.portal.run(world.world.chat(chat_id).failures())
    conversation = {"chat_id": chat_id, "messages": messages, "failures": _failures_json(failures)}
    if out is None:
        output.document(conversation)
        return
    try:
        out.write_text(output.as_json(conversation, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise Unavailable(f"{out} can't be written ({error.strerror}); choose another place.") from error
    output.result({"chat_id": chat_id, "file": str(out)}, f"Wrote {out}.")


def _read(world: Opened, chat_id: str) -> tuple[list[dict[str, Any]], Reply | None]:
    chat = world.world.chat(chat_id)
    messages = world.portal.run(chat.messages())
    return messages, world.portal.run(chat.reply()) if messages else None


def chat_summary(chat_id: str, chat: ChatStanding, *, waits: bool) -> dict[str, Any]:
    """Returns a chat's summary. `status` is that of the last turn: `done`, `failed`, `awaiting_approval` or `running`;
    `new` if there is no turn."""
    status = chat.turn.shown_status(waits=waits) if chat.turn is not None else "new"
    return {"chat_id": chat_id, "title": chat.title or "", "messages": chat.messages, "status": status}


def _failures_json(failures: Mapping[int, Failed]) -> list[dict[str, Any]]:
    return [{"request_id": request_id, **why._asdict()} for request_id, why in failures.items()]


def _lines(messages: Sequence[Mapping[str, Any]], failures: Mapping[int, Failed]) -> list[str]:
    """Returns the conversation as lines, with the reason after each failed turn."""
    lines: list[str] = []
    for request_id, turn in groupby(messages, itemgetter("request_id")):
        lines += _turn_lines(turn)
        if request_id in failures:
            lines += ["", runnable(f"(failed: {failures[request_id].message})")]
    return lines[1:]


def _turn_lines(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    lines: list[str] = []
    for message in messages:
        if "erased" in message:
            lines += _erased_lines(message)
            continue
        if message["role"] == "user":
            lines += ["", f"> {message['text']}"]
        elif message["role"] == "system":
            lines += ["", f"(the model was told: {message['text']})"]
        elif message["text"]:
            lines += ["", message["text"]]
        lines += [
            f"(evidence: {finding_line(found['line'], found['message'])})" for found in message.get("findings", ())
        ]
        if message.get("refused"):
            lines.append("(the answer was not taken)")
        for part in message.get("attachments", ()):
            lines.append(f"[{part['mime']} {part['bytes_ref']}]")
        for call in message.get("tool_calls", ()):
            lines.append(f"{output.symbol('→', '->')} {call['name']} {arguments(call['arguments_json'])}")
            if "changed_by" in call:
                lines.append(f"  {change_text(call['changed_by'], call['proposed_json'])}")
        if "tool" in message:
            tool = message["tool"]
            if tool["ok"]:
                text = result_text(tool["result"], tool.get("content"), tool.get("value"))
                text += REPLAYED if tool.get("replayed") else ""
                lines.append(f"{output.symbol('←', '<-')} {tool['name']}: {text}")
            else:
                why = told_problem(tool["error_code"], tool["message"], tool.get("content"))
                problem = problem_text(tool["error_code"], why)
                lines.append(f"{output.symbol('✗', 'x')} {tool['name']}: {problem}")
    return lines


def _erased_lines(message: Mapping[str, Any]) -> list[str]:
    """Returns the lines for a message that was erased."""
    erased = message["erased"]
    by = f" by {erased['actor']}" if erased["actor"] else ""
    why = f": {erased['why']}" if erased["why"] else ""
    text = f"(erased{by}{why})"
    if "tool" in message:
        return [f"{output.symbol('←', '<-')} {message['tool']['name']}: {text}"]
    return ["", f"> {text}" if message["role"] == "user" else text]
