"""`demiurge chat`: talk with an agent. `chat_verbs` holds the verbs that show, list or export conversations."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from demiurge.apps.demiurge import MAX_TOKENS
from demiurge.bootstrap import World
from demiurge.bootstrap.chat_address import address_of_chat, with_address
from demiurge.bootstrap.models import LOCALS, choose
from demiurge.bootstrap.trust.world_profile import WorldProfile, remember
from demiurge.cli import output
from demiurge.cli.argument import new_chat_id, utf8_text
from demiurge.cli.chat_settings import chat_setting_options, put_chat_settings
from demiurge.cli.chat_verbs import DEFAULT_CHAT, verbs
from demiurge.cli.command import Command, Group
from demiurge.cli.conversation import Conversation, TurnTerms, refuse_while_waiting, require_done, turn_document
from demiurge.cli.hints import runnable
from demiurge.cli.piped_text import piped_text, with_piped
from demiurge.cli.portal import Portal
from demiurge.cli.progress import ensure_local_model
from demiurge.cli.settings import Settings, settings
from demiurge.cli.world import RunOptions, keep_first, opened, policy_name, recalled, running_options
from demiurge.errors import Unavailable
from demiurge.values.refs import parse_ref

if TYPE_CHECKING:
    from demiurge.cli.terminal.decision import PersonAtTerminal

__all__ = ["command"]


def _as_json_lines(context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    """A click callback: reserves stdout for JSON, one document a line."""
    if value is not None:
        chosen = context.find_root().ensure_object(Settings)
        chosen.json = chosen.json_lines = True
    return value


NO_VERBS = {
    "list": "`list` is no verb: `demiurge chat ls` lists the chats.",
    **dict.fromkeys(
        ("del", "remove", "rm"),
        "`demiurge chat delete CHAT_ID --why TEXT` deletes a chat; `demiurge chat archive` takes it out of the lists.",
    ),
}
"""Words that are probably no chat's id, with the answer to each. With --message they are ids."""


class _ChatCommand(Command):
    """The command `chat`, which runs a verb instead if its first argument is the name of one."""

    @property
    def verbs(self) -> Group:
        return verbs

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        word, is_message = self._first_word(args)
        if word in self.verbs.commands:
            return self.verbs.make_context(info_name, args, parent, **extra)
        if word in NO_VERBS and not is_message:
            raise click.UsageError(runnable(NO_VERBS[word]), click.Context(self, parent, info_name))
        return super().make_context(info_name, args, parent, **extra)

    def _first_word(self, args: Sequence[str]) -> tuple[str | None, bool]:
        """Returns the first argument, and whether a message is sent."""
        probe = click.Context(self, ignore_unknown_options=True, resilient_parsing=True, **self.context_settings)
        with suppress(click.UsageError):
            found, _, _ = self.make_parser(probe).parse_args(list(args))
            word = found.get("chat_id")
            return word if isinstance(word, str) else None, found.get("message") is not None
        return None, False

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.verbs.format_commands(ctx, formatter)


@click.command(cls=_ChatCommand, name="chat")
@click.argument("chat_id", default=DEFAULT_CHAT, metavar="[CHAT_ID]", callback=new_chat_id)
@click.option(
    "-m", "--message", metavar="TEXT", callback=utf8_text, help="Send this message, print the answer, and exit."
)
@click.option(
    "--stdin",
    "waits_for_stdin",
    is_flag=True,
    help="With --message: wait for the text on stdin, however long it takes to come.",
)
@click.option(
    "--stream",
    type=click.Choice(["json"]),
    callback=_as_json_lines,
    help="With --message: print what happens as JSON lines; the last line is the reply.",
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
    "--tools-ref",
    metavar="REF",
    callback=utf8_text,
    help="Send the messages of this command with the stored toolset at this address; `demiurge tools ref` stores one.",
)
@click.option(
    "--no-tool-catalog", is_flag=True, help="Leave the catalog of prompt tools out of the turns of this command."
)
@chat_setting_options
@running_options
@click.option("--yes", is_flag=True, help="Approve every call that needs approval; the journal records this.")
def command(
    chat_id: str,
    message: str | None,
    waits_for_stdin: bool,
    stream: str | None,
    attach: tuple[Path, ...],
    max_tokens: int | None,
    only_tools: str | None,
    all_tools: bool,
    tools_ref: str | None,
    no_tool_catalog: bool,
    yes: bool,
    **running: Any,
) -> None:
    """Talk with the agent of a world, in the chat CHAT_ID (default: main).

    The provider is the one whose key is set (LLM_API_KEY or OPENAI_API_KEY, else ANTHROPIC_API_KEY), else the local
    model. Makes a world if there is none. Ctrl-C stops a turn, Ctrl-D leaves; /help lists the commands of a chat.

    With --message the answer alone is printed on stdout, and text that is piped in stands before the message:
    `cat notes.txt | demiurge chat -m "Summarise this."`
    """
    _require_sense(message, attach, only_tools, stream=stream, all_tools=all_tools, waits_for_stdin=waits_for_stdin)
    if message is not None:
        message = with_piped(message, piped_text(waits=waits_for_stdin))
    terms = TurnTerms(max_tokens, no_tool_catalog, parse_ref(tools_ref) if tools_ref is not None else None)
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
        else:
            put_chat_settings(world, portal, requested)
        _tell_of_owner(world, requested)
        keep_first(requested)
        if world.owned:
            with suppress(Unavailable):  # the commands shown contain the address too
                _keep_address(chat_id, chosen.provider, options.base_url)
        person = _person(world, portal, options)
        conversation = Conversation(world.chat(chat_id), portal, options, terms, yes=yes, person=person)
        output.notice(f"chat {chat_id} - {chosen.model} ({chosen.provider})")
        _tell_if_new(world, portal, chat_id)
        if message is not None:
            _one_turn(conversation, chat_id, message, attach, narrowed)
            return
        if person is None:
            conversation.take_up()
            narrowed.tell(conversation)
            conversation.converse(sys.stdin)
            return
        from demiurge.cli.terminal.talk import Talk  # only here: it takes time to load

        talk = Talk(world, portal, options, terms, person, chat_id, yes)
        with suppress(KeyboardInterrupt):
            talk.recall()
            talk.take_up()
            narrowed.tell(talk.conversation)
            talk.run()


def _require_sense(
    message: str | None,
    attach: Sequence[Path],
    only_tools: str | None,
    *,
    stream: str | None,
    all_tools: bool,
    waits_for_stdin: bool,
) -> None:
    """Raises click.UsageError for options that exclude each other."""
    for option, given in {
        "--json": settings().json and stream is None,
        "--stream": stream,
        "--stdin": waits_for_stdin,
    }.items():
        if given and message is None:
            raise click.UsageError(f"{option} is for one turn, so it needs --message.")
    if attach and message is None:
        raise click.UsageError("--attach goes with a message, so it needs --message.")
    if message is not None and not message.strip():
        raise click.UsageError("--message is empty.")
    if only_tools is not None and all_tools:
        raise click.UsageError("--only-tools and --all-tools exclude each other.")


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
        output.document(turn_document(chat_id, reply), in_one_line=settings().json_lines)


def _tell_if_new(world: World, portal: Portal, chat_id: str) -> None:
    """Says that a chat is new, if the user named it: the name may be misspelled."""
    if chat_id != DEFAULT_CHAT and portal.run(world.chat(chat_id).state()) is None:
        output.notice(f"{chat_id} is a new chat; `demiurge chat ls` lists those that exist.")


def _tell_of_owner(world: World, options: RunOptions) -> None:
    if not world.owned and options.base_url is not None:
        output.notice(
            "Another process has this world open and asks the provider, so --base-url does nothing here: "
            "end that process first."
        )


def _person(world: World, portal: Portal, options: RunOptions) -> PersonAtTerminal | None:
    """Returns the person who decides; None if nobody sits at a terminal, or stdout is for JSON."""
    if settings().json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    from demiurge.cli.terminal.decision import PersonAtTerminal  # only here: it takes time to load

    return PersonAtTerminal(world, portal, policy_name(world, options))
