"""`demiurge chat`: talk with an agent, and show, list or export conversations."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import click

from demiurge.apps.demiurge import CHAT, MAX_TOKENS
from demiurge.bootstrap import Reply, World
from demiurge.bootstrap.chat_address import address_of_chat, with_address
from demiurge.bootstrap.chat_state import ChatStanding, Failed
from demiurge.bootstrap.erased_message import is_erased_line
from demiurge.bootstrap.models import LOCALS, choose
from demiurge.bootstrap.trust.world_profile import WorldProfile, remember
from demiurge.bootstrap.typed_lines import TypedLines
from demiurge.cli import output
from demiurge.cli.argument import new_chat_id, utf8_text
from demiurge.cli.call_arguments import arguments
from demiurge.cli.chat_claims import claims
from demiurge.cli.command import Command, Group
from demiurge.cli.conversation import Conversation, TurnTerms, refuse_while_waiting, require_done
from demiurge.cli.following import Follower
from demiurge.cli.progress import ensure_local_model
from demiurge.cli.settings import settings
from demiurge.cli.turn import REPLAYED, reply_document
from demiurge.cli.world import Opened, RunOptions, keep_first, opened, recalled, running_options, visits, while_it_lasts
from demiurge.errors import DemiurgeError, Unavailable
from demiurge.world.unit import Unit

__all__ = ["command"]

DEFAULT_CHAT = "main"


class _ChatCommand(Command):
    """The command `chat`, which runs a verb instead if its first argument is the name of one."""

    @property
    def verbs(self) -> Group:
        return _verbs

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if self._first_word(args) in self.verbs.commands:
            return self.verbs.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def _first_word(self, args: Sequence[str]) -> str | None:
        probe = click.Context(self, ignore_unknown_options=True, resilient_parsing=True, **self.context_settings)
        with suppress(click.UsageError):
            found, _, _ = self.make_parser(probe).parse_args(list(args))
            word = found.get("chat_id")
            return word if isinstance(word, str) else None
        return None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.verbs.format_commands(ctx, formatter)


@click.command(cls=_ChatCommand, name="chat")
@click.argument("chat_id", default=DEFAULT_CHAT, metavar="[CHAT_ID]", callback=new_chat_id)
@click.option(
    "-m", "--message", metavar="TEXT", callback=utf8_text, help="Send this message, print the answer, and exit."
)
@click.option(
    "--attach",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Send this image (PNG, JPEG, GIF, WebP) or sound (WAV, MP3) with the message; may be repeated.",
)
@click.option("--model", metavar="M", help="The model, in place of the provider's default.")
@click.option(
    "--provider", metavar="P", help="openai-responses, openai-chat, openai-chat-json, anthropic, local or local-json."
)
@click.option("--system", metavar="@FILE|TEXT", help="The system prompt.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"The most tokens of an answer, from now on in this chat (default: the manifest's setting, {MAX_TOKENS}).",
)
@click.option(
    "--only-tools",
    metavar="ID,...",
    callback=utf8_text,
    help="Let the model call only these tools, from now on in this chat.",
)
@click.option(
    "--all-tools", is_flag=True, help="End --only-tools: allow all tools of the tool policy, from now on in this chat."
)
@click.option(
    "--no-tool-catalog", is_flag=True, help="Leave the catalog of prompt tools out of the turns of this command."
)
@running_options
@click.option("--yes", is_flag=True, help="Approve every call that needs approval; the journal records this.")
def command(
    chat_id: str,
    message: str | None,
    attach: tuple[Path, ...],
    max_tokens: int | None,
    only_tools: str | None,
    all_tools: bool,
    no_tool_catalog: bool,
    yes: bool,
    **running: Any,
) -> None:
    """Talk with the agent of a world, in the chat CHAT_ID (default: main).

    The provider is the one whose key is set (LLM_API_KEY or OPENAI_API_KEY, else ANTHROPIC_API_KEY), else the local
    model. Makes a world if there is none. Ctrl-C stops a turn, Ctrl-D leaves.
    """
    if message is None and settings().json:
        raise click.UsageError("--json prints one document, so it needs --message.")
    if attach and message is None:
        raise click.UsageError("--attach goes with a message, so it needs --message.")
    if message is not None and not message.strip():
        raise click.UsageError("--message is empty.")
    if only_tools is not None and all_tools:
        raise click.UsageError("--only-tools and --all-tools exclude each other.")
    narrowed = _Narrowed(only_tools.split(",") if only_tools is not None else None, all_tools)
    requested = RunOptions(**running)
    options = _as_before(chat_id, requested)
    is_served = settings().url() is not None
    if not is_served:
        chosen = choose(os.environ, wanted=options.provider, model=options.model, base_url=options.base_url)
        if chosen.provider in LOCALS:
            ensure_local_model()
    with opened(options, create=True) as (world, portal):
        if is_served:
            chosen = world.choice
        _tell_of_owner(world, requested)
        keep_first(requested)
        if world.owned:
            with suppress(Unavailable):  # the commands shown contain the address too
                _keep_address(chat_id, chosen.provider, options.base_url)
        terms = TurnTerms(max_tokens=max_tokens, skip_tool_catalog=no_tool_catalog)
        conversation = Conversation(world.chat(chat_id), portal, options, terms, yes=yes)
        output.notice(f"chat {chat_id} - {chosen.model} ({chosen.provider})")
        if message is not None:
            _one_turn(conversation, chat_id, message, attach, narrowed)
            return
        conversation.take_up()
        narrowed.tell(conversation)
        with nullcontext() if is_served else _history(settings().folder(), world):
            conversation.converse(_prompt())


def _as_before(chat_id: str, requested: RunOptions) -> RunOptions:
    """Returns the options with the provider and address that this chat used before, unless the user names a provider or
    an address."""
    if requested.base_url is not None or requested.provider is not None:
        return requested
    address = address_of_chat(recalled(requested).addresses, chat_id)
    if address is None:
        return requested
    output.notice(
        f"As before, this chat asks {address.provider} at {address.base_url}; --provider asks at the usual place."
    )
    return replace(requested, provider=address.provider, base_url=address.base_url)


def _keep_address(chat_id: str, provider: str, base_url: str | None) -> None:
    def change(profile: WorldProfile) -> WorldProfile:
        return replace(profile, addresses=with_address(profile.addresses, chat_id, provider, base_url))

    remember(os.environ, settings().folder(), change)


class _Narrowed(NamedTuple):
    """A change of the chat's toolset: `tools`, or with `all_tools` no toolset of its own; else no change."""

    tools: Sequence[str] | None
    all_tools: bool

    def tell(self, conversation: Conversation) -> None:
        if self.tools is not None or self.all_tools:
            conversation.use_tools(self.tools)


def _one_turn(
    conversation: Conversation, chat_id: str, message: str, attachments: Sequence[Path], narrowed: _Narrowed
) -> None:
    earlier = conversation.take_up()
    if earlier is not None and earlier.status == "awaiting_approval":
        raise refuse_while_waiting(chat_id)
    narrowed.tell(conversation)
    reply = conversation.turn(message, attachments)
    require_done(chat_id, reply)
    if settings().json:
        output.document(reply_document(chat_id, reply))


def _tell_of_owner(world: World, options: RunOptions) -> None:
    if not world.owned and options.base_url is not None:
        output.notice(
            "Another process has this world open and asks the provider, so --base-url does nothing here: "
            "end that process first."
        )


def _prompt() -> str:
    """Returns the prompt with its colour codes marked, because readline counts the columns of a prompt."""
    plain = "> "
    start, _, end = output.paint(plain, bold=True).partition(plain)
    return f"\x01{start}\x02{plain}\x01{end}\x02" if start and _has_readline() else plain


def _has_readline() -> bool:
    return find_spec("readline") is not None


@contextmanager
def _history(folder: Path, world: World) -> Iterator[None]:
    """Enables line editing with the lines typed in this world before, if Python has readline. New lines are saved at
    the end, except lines that were erased meanwhile.

    Raises Unavailable if the history's path is not a file of the user's own.
    """
    if not sys.stdin.isatty() or not _has_readline():
        yield
        return
    typed = TypedLines(folder)
    typed.add([])
    readline = import_module("readline")  # not on every system, and importing it changes `input`
    readline.clear_history()
    for line in typed.read():
        readline.add_history(line)
    before = readline.get_current_history_length()
    try:
        yield
    finally:
        after = readline.get_current_history_length()
        new = [line for at in range(before, after) if (line := readline.get_history_item(at + 1))]
        with suppress(DemiurgeError):
            is_erased = is_erased_line(world.backend)
            typed.add(line for line in new if not is_erased(line))


@click.group(cls=Group, name="chat")
def _verbs() -> None:
    pass


_verbs.add_command(claims)


@_verbs.command(name="ls", cls=Command)
def ls() -> None:
    """List the chats."""
    with opened() as (world, portal):
        keys = portal.run(world.keys(CHAT))
        chats = {key: found for key in keys if (found := portal.run(world.chat(key).standing())) is not None}
        waiting = portal.run(world.backend.read.waiting_units())
    shown = [_summary(key, found, waits=str(Unit(CHAT, key)) in waiting) for key, found in chats.items()]
    rows = [(c["chat_id"], str(c["messages"]), c["status"].replace("_", " "), c["title"]) for c in shown]
    output.result({"chats": shown}, *output.table(rows, ("CHAT", "MESSAGES", "LAST TURN", "TITLE")))


@_verbs.command(name="show", cls=Command)
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
    shown["failures"] = [{"request_id": request_id, **why._asdict()} for request_id, why in failures.items()]
    shown["begun"] = begun
    lines = _lines(messages, failures)
    lines += [line for effect in begun for line in ("", f"({effect['tool'] or effect['kind']}: {effect['message']})")]
    if last is not None and last.is_running:
        shown["last"]["status"] = "running"
        lines += [] if begun else ["", "(the turn is not over; the next `demiurge chat` goes on with it)"]
    elif last is not None and last.status == "awaiting_approval":
        lines += ["", "(awaiting approval)"]
    output.result(shown, *(lines or ["(nothing was said yet)"]))


def _follow(chat_id: str) -> None:
    follower = Follower(_lines)
    with suppress(KeyboardInterrupt):
        for world, portal in visits():
            with while_it_lasts():
                portal.run(follower.show(world.chat(chat_id), stays=world.joined))


@_verbs.command(name="rename", cls=Command)
@click.argument("chat_id", metavar="CHAT_ID", callback=utf8_text)
@click.argument("title", metavar="TITLE", callback=utf8_text)
def rename(chat_id: str, title: str) -> None:
    """Give a chat another title."""
    with opened() as (world, portal):
        portal.run(world.chat(chat_id).rename(title))
    output.result({"chat_id": chat_id, "title": title.strip()}, f"Chat {chat_id} is now called {title.strip()}.")


@_verbs.command(name="export", cls=Command)
@click.argument("chat_id", default=DEFAULT_CHAT, metavar="[CHAT_ID]", callback=utf8_text)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file instead of stdout.")
def export(chat_id: str, out: Path | None) -> None:
    """Print the conversation as JSON."""
    with opened() as world:
        messages, _ = _read(world, chat_id)
    conversation = {"chat_id": chat_id, "messages": messages}
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


def _summary(chat_id: str, chat: ChatStanding, *, waits: bool) -> dict[str, Any]:
    """Returns a chat's summary. `status` is that of the last turn: `done`, `failed`, `awaiting_approval` or `running`;
    `new` if there is no turn."""
    status = chat.turn.shown_status(waits=waits) if chat.turn is not None else "new"
    return {"chat_id": chat_id, "title": chat.title or "", "messages": chat.messages, "status": status}


def _lines(messages: Sequence[Mapping[str, Any]], failures: Mapping[int, Failed]) -> list[str]:
    """Returns the conversation as lines, with the reason after each failed turn."""
    lines: list[str] = []
    for request_id, turn in groupby(messages, itemgetter("request_id")):
        lines += _turn_lines(turn)
        if request_id in failures:
            lines += ["", f"(failed: {failures[request_id].message})"]
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
        for part in message.get("attachments", ()):
            lines.append(f"[{part['mime']} {part['bytes_ref']}]")
        for call in message.get("tool_calls", ()):
            lines.append(f"{output.symbol('→', '->')} {call['name']} {arguments(call['arguments_json'])}")
        if "tool" in message:
            tool = message["tool"]
            if tool["ok"]:
                text = output.as_json(tool["result"]) + (REPLAYED if tool.get("replayed") else "")
                lines.append(f"{output.symbol('←', '<-')} {tool['name']}: {text}")
            else:
                lines.append(f"{output.symbol('✗', 'x')} {tool['name']}: {tool['error_code']}: {tool['message']}")
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
