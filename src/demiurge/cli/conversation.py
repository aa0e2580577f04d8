"""A conversation at the terminal: turns, Ctrl-C, and questions to the person in between.

The main thread waits here, for the person or for a turn, so that Ctrl-C always interrupts it (see `portal`). The first
Ctrl-C of a turn stops the turn, the second one leaves; the journal records either.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

from demiurge.bootstrap import Chat, Reply
from demiurge.cli import output
from demiurge.cli.approval import Decision, ask
from demiurge.cli.failure import OutcomeError
from demiurge.cli.frame_lines import FrameLines
from demiurge.cli.portal import Portal
from demiurge.cli.question import ask_question, is_question
from demiurge.cli.settings import settings
from demiurge.cli.turn import TurnView, reply_document
from demiurge.cli.turn_display import AnswerAlone, PlainDisplay, TurnDisplay
from demiurge.cli.waiting import pending_lines
from demiurge.cli.world import RunOptions
from demiurge.errors import Conflict, DemiurgeError, UsageError

__all__ = ["Conversation", "TurnTerms", "failure_of", "refuse_while_waiting", "require_done", "turn_document"]

GRANTED = Decision(True, "granted by --yes")

WAITING = ("approval_required", "The turn waits for a person's decision; see `demiurge approvals ls`.")


CUT = {
    "length": "The answer was cut at {:,} tokens: --max-tokens allows more.",
    "content_filter": "The answer was cut by the provider's content filter.",
}
"""The notices about an answer that was cut short, by its finish reason."""


class TurnTerms(NamedTuple):
    """The options that each message of a command is sent with. `max_tokens` limits each answer from now on, None keeps
    the limit of the chat; `skip_tool_catalog` leaves the catalog of prompt tools out of the turn."""

    max_tokens: int | None = None
    skip_tool_catalog: bool = False


class Conversation:
    """A chat at the terminal. `yes` approves every call that needs approval; `running` holds the options to repeat in
    commands shown. `is_talk`: a person talks here, turn after turn; else stdout is for answers alone."""

    def __init__(
        self, chat: Chat, portal: Portal, running: RunOptions, terms: TurnTerms, *, yes: bool, is_talk: bool
    ) -> None:
        self._chat, self._portal, self._running, self._yes = chat, portal, running, yes
        self._terms = terms
        self._terminal = output.is_terminal(sys.stdin) and output.is_terminal(sys.stdout) and not settings().json
        self._is_talk = is_talk and self._terminal

    def _view(self, *, earlier: bool = False) -> TurnView | FrameLines:
        """Returns the view of the next turn; of an `earlier` one nothing is printed as the answer."""
        if settings().json_lines:
            return FrameLines()
        return TurnView(self._chat, display=self._display(earlier=earlier))

    def _display(self, *, earlier: bool) -> TurnDisplay:
        if settings().json:
            return PlainDisplay(quiet=True)
        answers = output.stderr if earlier and not self._is_talk else output.stdout
        activity = output.stdout if self._is_talk else output.stderr
        if output.is_terminal(answers()):
            from demiurge.cli.terminal.styled_display import styled_display  # only here: it takes time to load

            return styled_display(answers(), activity())
        if earlier or self._is_talk:
            return PlainDisplay(answers=answers, activity=activity)
        return AnswerAlone(activity=activity)

    def take_up(self) -> Reply | None:
        """Finishes the turn that an earlier process left open, if there is one, and shows it."""
        chat_state = self._portal.run(self._chat.standing())
        if chat_state is None or not chat_state.is_open:
            return None
        message_text = self._portal.run(self._chat.messages(chat_state.last_request_id))[0]["text"]
        output.notice(f"Going on with the last turn: {message_text}")
        return self._finish(self._view(earlier=True), None)

    def turn(self, text: str, attachments: Sequence[Path] = ()) -> Reply:
        """Sends a message; the reply has status `awaiting_approval` only if there is no terminal to ask on."""
        return self._finish(self._view(), text, attachments)

    def use_tools(self, tools: Sequence[str] | None) -> None:
        """Sets the toolset of the chat (see `Chat.use_tools`)."""
        self._portal.run(self._chat.use_tools(tools))

    def lines(self, prompt: str) -> Iterator[str]:
        """Yields the person's lines until Ctrl-D, two Ctrl-C in a row, or the end of the input."""
        stopped = False
        while True:
            try:
                line = input(prompt) if self._terminal else sys.stdin.readline()
            except EOFError:
                output.write("")
                return
            except KeyboardInterrupt:
                output.write("")
                if stopped:
                    return
                stopped = True
                output.notice("Ctrl-C again, or Ctrl-D, leaves.")
                continue
            if not line and not self._terminal:
                return
            stopped = False
            if line.strip():
                yield line.strip()

    def converse(self, prompt: str) -> None:
        """Runs one turn after another. On a terminal a failed turn is shown and the next may follow, and Ctrl-C can
        leave."""
        with suppress(KeyboardInterrupt) if self._terminal else nullcontext():
            self._converse(prompt)

    def _converse(self, prompt: str) -> None:
        for line in self.lines(prompt):
            try:
                reply = self.turn(line)
                if not (self._terminal and reply.status == "awaiting_approval"):  # a person postponed the decision
                    require_done(self._chat.id, reply)
            except DemiurgeError as error:
                if not self._terminal:
                    raise
                output.complain(str(error))
            if self._terminal:
                output.write("")

    def _finish(self, view: TurnView | FrameLines, text: str | None, attachments: Sequence[Path] = ()) -> Reply:
        reply = self._wait(self._go_on(view, text, attachments))
        while reply.status == "awaiting_approval" and self._decide_all():
            reply = self._wait(self._go_on(view, None))
        self._portal.run(view.close(reply))
        if reply.status == "done" and reply.finish_reason in CUT:
            output.notice(CUT[reply.finish_reason].format(reply.max_tokens))
        for use in reply.budgets:
            output.notice(use.says)
        if reply.status == "awaiting_approval" and not settings().json:
            waiting = self._waiting()
            stream = output.stdout() if self._is_talk else output.stderr()
            output.write("\n".join(("", *pending_lines(waiting, self._running))), stream=stream)
        return reply

    async def _go_on(self, view: TurnView | FrameLines, text: str | None, attachments: Sequence[Path] = ()) -> Reply:
        if text is not None:
            unsent_text = text
            terms = self._terms._asdict()
            return await view.follow(
                lambda on_frame: self._chat.send(unsent_text, attachments=attachments, on_frame=on_frame, **terms)
            )
        await view.follow(self._chat.resume)
        return await self._chat.reply()

    def _waiting(self) -> list[dict[str, Any]]:
        return self._portal.run(self._chat.backend.read.approvals(str(self._chat.unit)))

    def _decide_all(self) -> bool:
        """Asks about the calls that wait now and can be shown; returns False if there is no terminal, or the person
        postpones the decision."""
        waiting = [pending for pending in self._waiting() if self._may_ask(pending)]
        if not waiting:
            return False
        decided = False
        for pending in waiting:
            try:
                decision = self._asked(pending)
            except EOFError:
                output.write("")
                return False
            except KeyboardInterrupt:
                output.write("")
                self._stop()
                return True
            decided = self._decide(pending, decision) or decided
        return decided

    def _may_ask(self, pending: Mapping[str, Any]) -> bool:
        """Returns whether the call can be decided here. `--yes` answers no question of the model."""
        if is_question(pending):
            return self._terminal and pending["asks"] is not None
        return pending["damaged"] is None and (self._yes or self._terminal)

    def _asked(self, pending: Mapping[str, Any]) -> Decision | str:
        if is_question(pending):
            return ask_question(pending["asks"])
        return GRANTED if self._yes else ask(pending)

    def _decide(self, pending: Mapping[str, Any], decision: Decision | str) -> bool:
        """Submits a decision or an answer; returns False, with a notice, if the policy requires another person's."""
        run = self._chat.backend.run
        try:
            if isinstance(decision, str):
                self._portal.run(run.answer(pending["id"], decision))
                return True
            self._portal.run(run.decide(pending["id"], decision.approve, decision.reason))
        except UsageError as error:
            if error.code != "not_an_approver":
                raise
            output.notice(error.message)
            return False
        if decision is GRANTED:
            output.notice(f"{pending['tool']} is allowed by --yes.")
        return True

    def _wait(self, work: Coroutine[Any, Any, Reply]) -> Reply:
        running = self._portal.start(work)
        try:
            return self._portal.wait(running)
        except KeyboardInterrupt:
            self._stop()
            return self._portal.wait(running)

    def _stop(self) -> None:
        output.notice("Stopping the turn; Ctrl-C again leaves.")
        self._portal.run(self._chat.cancel())


def turn_document(chat_id: str, reply: Reply) -> dict[str, Any]:
    """Returns a reply as JSON; among JSON lines it has the `type` that tells it from the frames."""
    return ({"type": "reply"} if settings().json_lines else {}) | reply_document(chat_id, reply)


def require_done(chat_id: str, reply: Reply) -> None:
    """Raises OutcomeError for a turn that failed, or that waits for a person."""
    if reply.status == "failed":
        raise OutcomeError(*failure_of(reply), turn_document(chat_id, reply))
    if reply.status == "awaiting_approval":
        raise OutcomeError(*WAITING, turn_document(chat_id, reply))


def failure_of(reply: Reply) -> tuple[str, str]:
    """Returns code and sentence of a failed turn."""
    return reply.error_code or "failed", reply.message or "The turn failed."


def refuse_while_waiting(chat_id: str) -> Conflict:
    """Returns the error for a message that cannot be sent because the turn before it waits for approval."""
    return Conflict(
        f"The message was not sent: the last turn of chat {chat_id} waits for a decision; "
        "decide it with `demiurge approvals approve`, `answer` or `reject`, or say --yes.",
        code="chat_busy",
    )
