"""The verbs of `demiurge chat`: lists, shows, renames, exports and deletes conversations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import click

from demiurge.bootstrap import Reply
from demiurge.bootstrap.chat_state import Failed
from demiurge.bootstrap.chats import ChatSummary
from demiurge.bootstrap.told_text import told_problem
from demiurge.cli import output
from demiurge.cli.argument import read_json, utf8_text
from demiurge.cli.call_arguments import arguments, change_text, result_text
from demiurge.cli.chat_claims import claims
from demiurge.cli.command import Command, Group
from demiurge.cli.erase import tell_erasure
from demiurge.cli.following import Follower
from demiurge.cli.hints import runnable
from demiurge.cli.settings import settings
from demiurge.cli.turn import REPLAYED, reply_document
from demiurge.cli.world import Opened, opened, visits, while_it_lasts
from demiurge.errors import Unavailable
from demiurge.registry.evidence import finding_line
from demiurge.visible_text import visible_name
from demiurge.world.history.call_state import problem_text

__all__ = ["DEFAULT_CHAT", "verbs"]

DEFAULT_CHAT = "main"


@click.group(cls=Group, name="chat")
def verbs() -> None:
    pass


verbs.add_command(claims)


@verbs.command(name="ls", cls=Command)
@click.option("--archived", is_flag=True, help="The chats in the archive, in place of the others.")
def ls(archived: bool) -> None:
    """List the chats, the most recently active first."""
    with opened() as (world, portal):
        chats = portal.run(world.chats(archived=archived))
    rows = [(c.id, str(c.messages), c.status.replace("_", " "), visible_name(c.name)) for c in chats]
    output.result(
        {"chats": [_summary(c) for c in chats]}, *output.table(rows, ("CHAT", "MESSAGES", "LAST TURN", "TITLE"))
    )


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


@verbs.command(name="archive", cls=Command)
@click.argument("chat_id", metavar="CHAT_ID", callback=utf8_text)
def archive(chat_id: str) -> None:
    """Put a chat away: lists leave it out.

    It comes back by `unarchive`, or when something is said in it.
    """
    with opened() as (world, portal):
        portal.run(world.chat(chat_id).archive())
    output.result(
        {"chat_id": chat_id, "archived": True},
        runnable(f"Chat {chat_id} is archived; `demiurge chat unarchive {chat_id}` takes it back."),
    )


@verbs.command(name="unarchive", cls=Command)
@click.argument("chat_id", metavar="CHAT_ID", callback=utf8_text)
def unarchive(chat_id: str) -> None:
    """Take a chat back from the archive."""
    with opened() as (world, portal):
        portal.run(world.chat(chat_id).unarchive())
    output.result({"chat_id": chat_id, "archived": False}, f"Chat {chat_id} is in the lists again.")


@verbs.command(name="delete", cls=Command)
@click.argument("chat_id", metavar="CHAT_ID", callback=utf8_text)
@click.option("--why", metavar="TEXT", required=True, callback=utf8_text, help="The reason, which is recorded.")
@click.option("--dry-run", is_flag=True, help="Only list what would go.")
def delete(chat_id: str, why: str, dry_run: bool) -> None:
    """Delete a chat: erase its messages, answers, results, attachments and title for good, with all copies of them.

    The journal records who did so and why. What other chats name too stays. This can't be undone; `archive` can.
    """
    if not why.strip():
        raise click.UsageError("--why is empty.")
    with opened() as (world, portal):
        found = portal.run(world.chat(chat_id).delete(why, dry_run=dry_run))
    verb = "Would delete" if dry_run else "Deleted"
    texts = f"{len(found.refs)} texts and files and {len(found.copies)} copies of them"
    tell_erasure(found, verb, [f"{verb} the chat {chat_id}: {texts}."], f"words of {chat_id}", dry_run=dry_run)


@verbs.command(name="export", cls=Command)
@click.argument("chat_id", default=DEFAULT_CHAT, metavar="[CHAT_ID]", callback=utf8_text)
@click.option(
    "--format", "form", type=click.Choice(("json", "markdown")), help="Default: by the end of FILE (.md), else json."
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file instead of stdout.")
def export(chat_id: str, form: str | None, out: Path | None) -> None:
    """Print the whole chat as JSON, or as Markdown for a person to read.

    With its title, times, models, tokens, cost, calls and results; images and other files are in it.
    """
    is_markdown = form == "markdown" or (form is None and out is not None and out.suffix in (".md", ".markdown"))
    if is_markdown and out is None and settings().json:
        raise click.UsageError("--json prints JSON; leave --format markdown out, or name a file with --out.")
    with opened() as (world, portal):
        found = portal.run(world.chat(chat_id).export())
    if out is None and is_markdown:
        output.write(output.plain(found.to_markdown().removesuffix("\n")))
        return
    if out is None:
        output.document(found.to_json())
        return
    try:
        text = found.to_markdown() if is_markdown else output.as_json(found.to_json(), indent=2) + "\n"
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Unavailable(f"{out} can't be written ({error.strerror}); choose another place.") from error
    output.result({"chat_id": chat_id, "file": str(out)}, f"Wrote {out}.")


@verbs.command(name="import", cls=Command)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE")
@click.option("--id", "chat_id", metavar="ID", callback=utf8_text, help="The id of the new chat; default: one is made.")
def import_(file: Path, chat_id: str | None) -> None:
    """Make a new chat from a chat that was exported as JSON.

    Its history is shown, and told to the model as imported text: nothing of it counts as done here.
    """
    document = read_json(f"@{file}")
    with opened() as (world, portal):
        made = portal.run(world.import_chat(document, chat_id)).id
        messages = len(portal.run(world.chat(made).messages()))
    output.result(
        {"chat_id": made, "messages": messages},
        runnable(f"Imported {messages} messages as the chat {made}; `demiurge chat {made}` goes on with it."),
    )


def _read(world: Opened, chat_id: str) -> tuple[list[dict[str, Any]], Reply | None]:
    chat = world.world.chat(chat_id)
    messages = world.portal.run(chat.messages())
    return messages, world.portal.run(chat.reply()) if messages else None


def _summary(chat: ChatSummary) -> dict[str, Any]:
    """Returns a chat of a list as JSON-ready data."""
    fields = asdict(chat)
    return {"chat_id": fields.pop("id"), **{name: value for name, value in fields.items() if name != "position"}}


def _failures_json(failures: Mapping[int, Failed]) -> list[dict[str, Any]]:
    return [{"request_id": request_id, **why._asdict()} for request_id, why in failures.items()]


def _lines(messages: Sequence[Mapping[str, Any]], failures: Mapping[int, Failed]) -> list[str]:
    """Returns the conversation as lines, with the reason after each failed turn."""
    lines: list[str] = []
    for request_id, turn in groupby(messages, itemgetter("request_id")):
        said = list(turn)
        lines += ["", "(imported)"] if said[0].get("imported") else []
        lines += _turn_lines(said)
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
