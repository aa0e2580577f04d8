"""The slash commands of a talk: their names, their words of help, and what each does.

A message may begin with a slash too: `//` stands for one slash, and a first word with another slash in it, such as
`/etc/hosts`, is no command.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.text import Text

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.cost import DAYS, cost_with_budgets
from demiurge.bootstrap.message_body import read_attachment
from demiurge.bootstrap.models import Choice
from demiurge.bootstrap.system_prompt import checked_system_prompt
from demiurge.bootstrap.tool_view import tool_views
from demiurge.bootstrap.trace_view import records_of_chat, trace_trees
from demiurge.bootstrap.undo import undo_turn
from demiurge.cli import output
from demiurge.cli.approval import Decision, describe
from demiurge.cli.argument import read_text
from demiurge.cli.chat_settings import prompt_lines, put_chat_settings
from demiurge.cli.conversation import Given, asked
from demiurge.cli.cost import COST_TABLES, cost_lines
from demiurge.cli.hints import runnable
from demiurge.cli.terminal.tool_table import plain_table, tool_list, tool_page
from demiurge.cli.terminal.why import why_lines
from demiurge.cli.trace import trace_lines
from demiurge.cli.world import RunOptions
from demiurge.errors import Conflict, InvalidValue, NotFound
from demiurge.models.providers import PROVIDERS
from demiurge.tools.ids import canonical_id
from demiurge.values.clock import SystemClock
from demiurge.visible_text import visible_name
from demiurge.world.unit import Unit

if TYPE_CHECKING:
    from demiurge.cli.terminal.talk import Talk

__all__ = ["COMMANDS", "SlashCommand", "command_of", "message_of", "unknown_command"]

COMMAND: Final = re.compile(r"/([A-Za-z][A-Za-z_-]*)?(?:\s+(.*))?", re.DOTALL)
SHORTEST_ID: Final = 6
CLOSE: Final = 0.7
"""How alike a word and a command are at least, from 0 to 1, if the command is suggested."""

NEW_CHATS: Final = 10_000


class SlashCommand(NamedTuple):
    """A command: its arguments and a line of help for `/help`; `run` gets the text after the command."""

    arguments: str
    help: str
    run: Callable[[Talk, str], None]


def command_of(text: str) -> tuple[str, str] | None:
    """Returns the name of a slash command and the text after it; None if `text` is a message."""
    found = None if text.startswith("//") else COMMAND.fullmatch(text)
    return None if found is None else ((found[1] or "help").lower(), (found[2] or "").strip())


def message_of(text: str) -> str:
    """Returns the message that `text` stands for: `//` at its beginning stands for one slash."""
    return text[1:] if text.startswith("//") else text


def unknown_command(name: str) -> str:
    """Returns what to say about a command that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=CLOSE)
    meant = f" Did you mean /{near[0]}?" if near else ""
    return f"There is no command /{output.plain(name)}.{meant} /help lists them; // at the beginning sends a slash."


def _help(talk: Talk, _: str) -> None:
    table = plain_table(None, None)
    for name, command in COMMANDS.items():
        table.add_row(f"/{name} {command.arguments}".strip(), command.help)
    keys = "Enter sends. Alt-Enter, or \\ before Enter, begins a new line. A paste is one message.\n"
    keys += (
        "Ctrl-C stops a turn or clears the line; again it leaves, as Ctrl-D does. // sends a message with a slash.\n"
    )
    keys += runnable("If nobody knows whether a call took effect, `demiurge doubts ls` lists it and says what to do.")
    talk.show(table, "", Text(keys, style="dim"))


def _approve(talk: Talk, text: str) -> None:
    """Shows the card of a waiting call. Another chat's call is decided here, and its turn goes on there."""
    for pending in _waiting(talk, text):
        if pending["damaged"] is not None:
            raise Conflict(f"This call can't be shown, so nobody can allow it: {pending['damaged']}", code="damaged")
        try:
            decided = asked(talk.person, pending)
        except (EOFError, KeyboardInterrupt):
            talk.show("", "Nothing was decided; /approve shows the call again.")
            return
        _submit(talk, pending, decided)


def _reject(talk: Talk, text: str) -> None:
    first, _, rest = text.partition(" ")
    known = {pending["id"] for pending in talk.portal.run(talk.world.approvals()) if pending["id"]}
    is_named = len(first) >= SHORTEST_ID and any(one.startswith(first) for one in known)
    for pending in _waiting(talk, first if is_named else ""):
        talk.show(f"Refused: {describe(pending)}")
        _submit(talk, pending, Decision(False, rest if is_named else text))


def _submit(talk: Talk, pending: Mapping[str, Any], decision: Given) -> None:
    unit = Unit.parse(pending["unit"])
    if talk.conversation.decide(pending, decision):
        if unit == talk.conversation.chat.unit:
            talk.go_on()
        else:
            talk.portal.run(talk.world.settle(unit))
            talk.show(f"{unit} goes on.")


def _waiting(talk: Talk, text: str) -> list[dict[str, Any]]:
    """Returns the first waiting call of this chat, or that with the id that begins with `text`. Raises NotFound."""
    if not text:
        found = talk.portal.run(talk.world.approvals(talk.conversation.chat.unit))
        if not found:
            others = len(talk.portal.run(talk.world.approvals()))
            wait = "call waits" if others == 1 else "calls wait"
            elsewhere = f" {others} {wait} elsewhere: `demiurge approvals ls`." if others else ""
            raise NotFound(f"Nothing waits for a decision in this chat.{elsewhere}", code="nothing_waits")
        return found[:1]
    every = talk.portal.run(talk.world.approvals())
    found = [one for one in every if len(text) >= SHORTEST_ID and (one["id"] or "").startswith(text)]
    if len(found) != 1:
        raise NotFound(f"No one call {text} waits; `demiurge approvals ls` lists those that do.", code="no_call")
    return found


def _why(talk: Talk, text: str) -> None:
    """Explains the policy's decision on a tool; on the last call of the chat if none is named."""
    tool = canonical_id(text) if text else _last_tool(talk)
    talk.show(*why_lines(talk.world, talk.portal, tool))


def _last_tool(talk: Talk) -> str:
    waiting = talk.portal.run(talk.world.approvals(talk.conversation.chat.unit))
    if waiting:
        return str(waiting[0]["tool"])
    calls = talk.portal.run(talk.conversation.chat.reply()).tool_calls
    if not calls:
        raise NotFound("The last turn called no tool: name one, as in /why workspace__write.", code="no_call")
    return calls[-1].name


def _tools(talk: Talk, text: str) -> None:
    views = tool_views(talk.world.manifest(), talk.world.caller)
    exact = [view for view in views if text and view["id"] == canonical_id(text)]
    if exact:
        talk.show(*tool_page(exact[0]))
        return
    found = [view for view in views if text in view["id"] and (text or view["decision"] != "deny")]
    if not found:
        raise NotFound(f"No tool here has {text!r} in its name; /tools lists them.", code="no_tool")
    talk.show(*tool_list(talk.screen, found, folded=not text))


def _cost(talk: Talk, text: str) -> None:
    if text and text not in COST_TABLES:
        raise InvalidValue(f"Say one of {', '.join(COST_TABLES)}, or nothing.", code="bad_table")
    today = datetime.fromtimestamp(SystemClock().now_ns() / 1e9, UTC).date()
    chat_id = None if text else talk.chat_id
    document = talk.portal.run(cost_with_budgets(talk.world.backend, today, DAYS, chat_id))
    talk.show(*cost_lines(document, text or "model", chat_id))


def _attach(talk: Talk, text: str) -> None:
    if text == "clear":
        talk.attachments.clear()
    elif text:
        path = Path(os.path.expanduser(text.strip("'\"")))
        if not os.path.isfile(path):
            raise NotFound(f"There is no file {path}.", code="no_file")
        read_attachment(path)  # refused now, before a message is
        talk.attachments.append(path)
    names = talk.attached()
    talk.show(f"With the next message: {names}" if names else "No file goes with the next message; /attach FILE.")


def _model(talk: Talk, text: str) -> None:
    if text:
        provider, slash, model = text.partition("/")
        chosen = Choice(provider, model) if slash and provider in PROVIDERS else Choice(talk.choice.provider, text)
        if text in PROVIDERS:
            chosen = Choice(text, PROVIDERS[text].default_model)
        talk.switch(talk.chat_id, chosen)
    talk.show(f"{talk.choice.model} ({talk.choice.provider}) answers the next message.")


def _system(talk: Talk, text: str) -> None:
    if text:
        put_chat_settings(talk.world, talk.portal, RunOptions(system=checked_system_prompt(read_text(text))))
    talk.show(*prompt_lines(talk.portal.run(talk.world.system_prompt())))


def _new(talk: Talk, text: str) -> None:
    known = set(talk.portal.run(talk.world.keys(CHAT)))
    if text in known:
        raise Conflict(f"There is a chat {text} already; /chats {text} goes on with it.", code="exists")
    talk.switch(text or next(f"chat-{n}" for n in range(1, NEW_CHATS) if f"chat-{n}" not in known))
    talk.show(f"The next message begins the chat {talk.chat_id}.")


def _chats(talk: Talk, text: str) -> None:
    known = talk.portal.run(talk.world.keys(CHAT))
    if text:
        if text not in known:
            raise NotFound(f"There is no chat {text}; /new {text} begins it.", code="chat_unknown")
        talk.switch(text)
        talk.show(f"Messages go to the chat {text} now.")
        talk.recall()
        talk.take_up()
        return
    table = plain_table("chat", "messages", "last turn", "title")
    for chat in talk.portal.run(talk.world.chats()):
        mark = "* " if chat.id == talk.chat_id else ""
        table.add_row(mark + chat.id, str(chat.messages), chat.status.replace("_", " "), visible_name(chat.name))
    talk.show(table)


def _trace(talk: Talk, text: str) -> None:
    if text and not text.isdecimal():
        raise InvalidValue("Say how many events to show, as in /trace 3.", code="bad_number")
    roots = records_of_chat(talk.world.backend, talk.chat_id, int(text or 1))[::-1]
    trees = talk.portal.run(trace_trees(talk.world.backend, roots))
    output.write("\n".join(trace_lines(trees)))


def _undo(talk: Talk, _: str) -> None:
    undone = talk.portal.run(undo_turn(talk.world, talk.chat_id))
    talk.show(*undone.sentences())


def _quit(_talk: Talk, _: str) -> None:
    raise EOFError


COMMANDS: Final[Mapping[str, SlashCommand]] = {
    "help": SlashCommand("", "List the commands and keys.", _help),
    "approve": SlashCommand("[ID]", "Show the call that waits, and decide on it.", _approve),
    "reject": SlashCommand("[ID] [REASON]", "Refuse the call that waits; the model is told the reason.", _reject),
    "why": SlashCommand("[TOOL]", "Say why a tool runs, asks or is denied; by default the last one called.", _why),
    "tools": SlashCommand("[NAME]", "List the tools, or show one.", _tools),
    "cost": SlashCommand("[TABLE]", "Say what this chat cost; of the world by chat, day, model or tool.", _cost),
    "attach": SlashCommand("[FILE]", "Send a file with the next message; clear takes them back.", _attach),
    "model": SlashCommand("[MODEL]", "Let another model answer: MODEL, PROVIDER or PROVIDER/MODEL.", _model),
    "system": SlashCommand("[TEXT]", "Show the system prompt of all chats, or set it: TEXT or @FILE.", _system),
    "new": SlashCommand("[CHAT]", "Begin another chat.", _new),
    "chats": SlashCommand("[CHAT]", "List the chats, or go on with one.", _chats),
    "trace": SlashCommand("[N]", "Show what the last message caused; of the last N events.", _trace),
    "undo": SlashCommand("", "Take back what the last turn changed in workspaces.", _undo),
    "quit": SlashCommand("", "Leave.", _quit),
}
"""The commands by name, in the order of `/help`."""
