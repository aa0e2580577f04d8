"""A talk at the terminal: messages and slash commands, one after the other, until the person leaves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from demiurge.bootstrap import Reply, World
from demiurge.bootstrap.erased_message import is_erased_line
from demiurge.bootstrap.models import LOCALS, Choice
from demiurge.bootstrap.typed_lines import TypedLines
from demiurge.cli import output
from demiurge.cli.conversation import Conversation, TurnTerms, require_done
from demiurge.cli.hints import runnable
from demiurge.cli.portal import Portal
from demiurge.cli.progress import ensure_local_model
from demiurge.cli.settings import settings
from demiurge.cli.terminal.completion import ChatCompleter
from demiurge.cli.terminal.decision import PersonAtTerminal
from demiurge.cli.terminal.history import WorldHistory
from demiurge.cli.terminal.input_line import InputLine, MessageLine, PlainLine
from demiurge.cli.terminal.last_turn import clipped, last_turn
from demiurge.cli.terminal.screen import Screen
from demiurge.cli.terminal.slash_commands import COMMANDS, command_of, message_of, unknown_command
from demiurge.cli.world import RunOptions
from demiurge.errors import DemiurgeError

__all__ = ["Talk"]

NARROW: Final = 80
"""Below so many columns the line under the input leaves the provider out."""


@dataclass
class Talk:
    """The state of a talk: the chat that messages go to, the model that answers, the files for the next message.
    `tokens` and `cost` are sums since the talk began; `unpriced` counts answers of unknown cost."""

    world: World
    portal: Portal
    options: RunOptions
    terms: TurnTerms
    person: PersonAtTerminal
    chat_id: str
    yes: bool = False
    attachments: list[Path] = field(default_factory=list)
    tokens: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0

    def __post_init__(self) -> None:
        self.screen = Screen(output.stdout())
        self.choice: Choice = self.world.choice
        self.switch(self.chat_id)

    def switch(self, chat_id: str, choice: Choice | None = None) -> None:
        """Goes on in another chat, or with another model. Fetches the local model if it is chosen."""
        if choice is not None:
            if choice.provider in LOCALS and settings().url() is None:
                ensure_local_model()
            self.choice = choice
        self.chat_id = chat_id
        chat = replace(self.world.chat(chat_id), choice=self.choice)
        self.conversation = Conversation(
            chat, self.portal, self.options, self.terms, yes=self.yes, person=self.person, is_talk=True
        )

    def show(self, *what: RenderableType | str) -> None:
        """Prints something below what was said; texts are taken as they are, without markup."""
        for each in what:
            self.screen.print(self.screen.lines(Text(runnable(each)) if isinstance(each, str) else each))

    def recall(self) -> None:
        """Shows the last turn of the chat again, if it is over, and says how much was said before it."""
        try:
            lines = self.portal.run(last_turn(self.conversation.chat))
        except DemiurgeError as error:
            output.notice(f"The last turn can't be shown: {error.message}")
            return
        for line in lines:
            self.screen.print(clipped(self.screen, line))

    def take_up(self) -> None:
        """Finishes the turn that was left open, if there is one."""
        self._counted(self.conversation.take_up())

    def run(self) -> None:
        """Talks until Ctrl-D, `/quit`, or Ctrl-C twice. Raises KeyboardInterrupt for the second one of a turn."""
        line = self._line()
        stopped = False
        while True:
            try:
                text = line.read().strip()
            except EOFError:
                return
            except KeyboardInterrupt:
                if stopped:
                    return
                stopped = True
                output.notice("Ctrl-C again, or Ctrl-D, leaves.")
                continue
            stopped = False
            try:
                if text:
                    self._take(text)
            except EOFError:
                return

    def _take(self, text: str) -> None:
        """Runs a command or a turn. A failure is shown. Raises EOFError (`/quit`), KeyboardInterrupt."""
        found = command_of(text)
        try:
            if found is None:
                self._turn(message_of(text))
            elif found[0] in COMMANDS:
                COMMANDS[found[0]].run(self, found[1])
            else:
                self.show(unknown_command(found[0]))
        except DemiurgeError as error:
            output.complain(str(error))
            if found is None and self.attachments:
                output.notice(f"Still attached: {self.attached()}. /attach clear takes the files back.")
        output.write("")

    def attached(self) -> str:
        """Returns the names of the files that go with the next message; empty if there are none."""
        return ", ".join(map(str, self.attachments))

    def _turn(self, text: str) -> None:
        reply = self._counted(self.conversation.turn(text, self.attachments))
        self.attachments.clear()
        if reply is not None and reply.status != "awaiting_approval":  # else the person has postponed the decision
            require_done(self.chat_id, reply)

    def go_on(self) -> None:
        """Goes on with the chat's open turn, after a decision."""
        self._counted(self.conversation.go_on())

    def _counted(self, reply: Reply | None) -> Reply | None:
        if reply is not None:
            self.tokens += reply.prompt_tokens + reply.completion_tokens
            self.unpriced += reply.cost_usd is None
            self.cost += Decimal(reply.cost_usd or 0)
        return reply

    def _line(self) -> InputLine:
        if not self.screen.is_terminal:
            return PlainLine()
        return MessageLine(self.portal, self._history(), ChatCompleter(self), self.below)

    def _history(self) -> WorldHistory | None:
        if settings().url() is not None:
            return None
        typed = TypedLines(settings().folder())
        typed.read()  # a file that can't be used is told now
        return WorldHistory(typed, is_erased_line(self.world.backend))

    def below(self) -> str:
        """Returns the line under the input: chat, model, tokens and cost of this talk, files for the next message."""
        dot = output.symbol("·", "-")
        model = self.choice.model + (f" ({self.choice.provider})" if self.screen.width >= NARROW else "")
        parts = [f"chat {self.chat_id}", model]
        if self.tokens:
            at_least = "at least " if self.unpriced and self.cost else ""
            cost = f" ({at_least}${self.cost.normalize():f})" if self.cost else ""
            parts.append(f"{self.tokens:,} tokens{cost} in this talk")
        if self.attachments:
            parts.append(f"{len(self.attachments)} file{'s' * (len(self.attachments) > 1)} attached")
        text = f" {dot} ".join(parts)
        return text if len(text) < self.screen.width else text[: self.screen.width - 2] + output.symbol("…", ".")
