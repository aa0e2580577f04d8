"""A conversation on the command line: turns, Ctrl-C, and questions to the person in between.

The main thread waits here, for the person or for a turn, so that Ctrl-C always interrupts it (see `portal`). The first
Ctrl-C of a turn stops the turn, the second one leaves; the journal records either.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from demiurge.bootstrap import Chat, Reply
from demiurge.bootstrap.backend import OnFrame
from demiurge.bootstrap.standing_rules import StandingRules
from demiurge.cli import output
from demiurge.cli.approval import GRANTED_BY_YES, SHORT, Decision
from demiurge.cli.doubt_notice import doubts_about
from demiurge.cli.failure import OutcomeError
from demiurge.cli.frame_lines import FrameLines
from demiurge.cli.portal import Portal
from demiurge.cli.question import is_question
from demiurge.cli.settings import settings
from demiurge.cli.turn import TurnView, reply_document
from demiurge.cli.turn_display import AnswerAlone, PlainDisplay, TurnDisplay
from demiurge.cli.waiting import pending_lines
from demiurge.cli.world import RunOptions
from demiurge.errors import Conflict, InvalidValue, UsageError
from demiurge.registry.evidence import finding_line
from demiurge.values.refs import Ref

__all__ = ["Conversation", "Person", "TurnTerms", "failure_of", "refuse_while_waiting", "require_done", "turn_document"]

GRANTED = Decision(True, GRANTED_BY_YES)

WAITING = ("approval_required", "The turn waits for a person's decision; see `demiurge approvals ls`.")


CUT = {
    "length": "The answer was cut at {:,} tokens: --max-tokens allows more.",
    "content_filter": "The answer was cut by the provider's content filter.",
}
"""The notices about an answer that was cut short, by its finish reason."""


class TurnTerms(NamedTuple):
    """The options that each message of a command is sent with. `max_tokens` limits each answer from now on, None keeps
    the limit of the chat; `skip_tool_catalog` leaves the catalog of prompt tools out of the turn; `tools_ref` is the
    address of a stored toolset that the message brings."""

    max_tokens: int | None = None
    skip_tool_catalog: bool = False
    tools_ref: Ref | None = None


class Person(Protocol):
    """Somebody at the terminal who decides."""

    def decide(self, pending: Mapping[str, Any]) -> Decision:
        """Returns the decision on a waiting call. Raises EOFError (later), KeyboardInterrupt (stop the turn)."""

    def answer(self, asks: Mapping[str, Any]) -> Decision | str:
        """Returns the answer to a question; a Decision rejects it. Raises as `decide`."""

    def fill_in(self, asked: Mapping[str, Any]) -> Decision | dict[str, Any]:
        """Returns the answers to the questions of a tool; a Decision rejects the call. Raises as `decide`."""

    def waiting(self) -> AbstractContextManager[None]:
        """Returns a context in which the person waits for a turn."""


Given: TypeAlias = Decision | str | dict[str, Any]
"""The thing that a person gives a waiting call: a decision, the answer to a question of the model, or the answers to
those of a tool."""


def asked(person: Person, pending: Mapping[str, Any]) -> Given:
    """Asks a person about a waiting call, in the way that it needs. Raises as `Person.decide`."""
    if pending["input"] is not None:
        return person.fill_in(pending["input"])
    return person.answer(pending["asks"]) if is_question(pending) else person.decide(pending)


class Conversation:
    """A chat on the command line. `yes` approves every call that needs approval; `running` holds the options to repeat
    in commands shown; `person` decides, if one sits at the terminal. `is_talk`: the person talks here, turn after turn;
    else stdout is for answers alone."""

    def __init__(
        self,
        chat: Chat,
        portal: Portal,
        running: RunOptions,
        terms: TurnTerms,
        *,
        yes: bool,
        person: Person | None = None,
        is_talk: bool = False,
    ) -> None:
        self.chat, self._portal, self._running, self._yes = chat, portal, running, yes
        self._terms, self._person, self._is_talk = terms, person, is_talk
        self._postponed: tuple[int, TurnView | FrameLines] | None = None
        """The turn whose decision the person postponed, and its view."""

    def _view(self, request_id: int | None = None, *, earlier: bool = False) -> TurnView | FrameLines:
        """Returns the view of the next turn, or of that of the message `request_id`; of an `earlier` one nothing is
        printed as the answer."""
        if settings().json_lines:
            return FrameLines()
        return TurnView(self.chat, request_id, self._display(earlier=earlier))

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
        """Finishes the turn that an earlier process left open, if there is one, and shows it. A turn that goes on in
        another process is shown in a talk alone."""
        chat_state = self._portal.run(self.chat.standing())
        if chat_state is None or not chat_state.is_open:
            return None
        if not self._is_talk and self.chat.backend.joined and not self._waiting():
            output.notice("Another turn of this chat goes on; the message follows it.")
            return None
        request_id = chat_state.last_request_id
        message_text = self._portal.run(self.chat.messages(request_id))[0]["text"]
        output.notice(f"Going on with the last turn: {message_text}")
        view = self._view(request_id, earlier=True)
        return self._finish(view, self._go_on(view, request_id))

    def turn(self, text: str, attachments: Sequence[Path] = ()) -> Reply:
        """Sends a message; the reply has status `awaiting_approval` only if there is no terminal to ask on."""
        view = self._view()
        terms = self._terms._asdict()

        def send(on_frame: OnFrame) -> Coroutine[Any, Any, Reply]:
            return self.chat.send(text, attachments=attachments, on_frame=on_frame, **terms)

        return self._finish(view, view.follow(send))

    def go_on(self) -> Reply:
        """Goes on with the open turn, after a decision."""
        request_id = self._portal.run(self.chat.reply()).request_id
        postponed_id, view = self._postponed or (None, None)
        if view is None or postponed_id != request_id:
            view = self._view(request_id)
        return self._finish(view, self._go_on(view, request_id))

    def use_tools(self, tools: Sequence[str] | None) -> None:
        """Sets the toolset of the chat (see `Chat.use_tools`)."""
        self._portal.run(self.chat.use_tools(tools))

    def converse(self, lines: Iterable[str]) -> None:
        """Runs one turn for each line that is not empty. Raises OutcomeError for the first turn that fails or waits."""
        for line in lines:
            if line.strip():
                require_done(self.chat.id, self.turn(line.strip()))

    def _finish(self, view: TurnView | FrameLines, work: Coroutine[Any, Any, Reply]) -> Reply:
        reply = self._wait(work)
        while reply.status == "awaiting_approval" and self._decide_all():
            reply = self._wait(self._go_on(view, reply.request_id))
        self._postponed = (reply.request_id, view) if reply.status == "awaiting_approval" else None
        self._portal.run(view.close(reply))
        if reply.status == "done" and reply.finish_reason in CUT:
            output.notice(CUT[reply.finish_reason].format(reply.max_tokens))
        if reply.findings and reply.status == "done":
            first, *more = reply.findings
            others = f" And {len(more)} more: `demiurge chat claims {self.chat.id}`." if more else ""
            output.notice(f"The evidence does not hold: {finding_line(first.line, first.message)}{others}")
        for use in reply.budgets:
            output.notice(use.says)
        for sentence in self._portal.run(doubts_about(self.chat, reply)):
            output.notice(sentence)
        if reply.status == "awaiting_approval" and not settings().json:
            self._tell_what_waits(self._waiting())
        return reply

    def _tell_what_waits(self, waiting: Sequence[Mapping[str, Any]]) -> None:
        """Says how to go on with calls that wait; in a talk their cards were shown, unless they can't be read."""
        if self._is_talk and waiting and all(pending["damaged"] is None for pending in waiting):
            output.write("\nThe call waits: /approve shows it again, /reject refuses it.")
            return
        stream = output.stdout() if self._is_talk else output.stderr()
        is_last = not (self._is_talk or self.chat.backend.joined)
        output.write("\n".join(("", *pending_lines(waiting, self._running, is_last=is_last))), stream=stream)

    def _go_on(self, view: TurnView | FrameLines, request_id: int) -> Coroutine[Any, Any, Reply]:
        return view.follow(partial(self.chat.wait, request_id))

    def _waiting(self) -> list[dict[str, Any]]:
        return self._portal.run(self.chat.backend.read.approvals(str(self.chat.unit)))

    def _decide_all(self) -> bool:
        """Asks about the calls that wait now and can be shown; returns False if nobody is here to ask, or the person
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
            decided = self.decide(pending, decision) or decided
        return decided

    def _may_ask(self, pending: Mapping[str, Any]) -> bool:
        """Returns whether the call can be decided here. `--yes` answers no question of the model."""
        if is_question(pending):
            is_shown = pending["asks"] is not None or (pending["input"] is not None and pending["damaged"] is None)
            return self._person is not None and is_shown
        return pending["damaged"] is None and (self._yes or self._person is not None)

    def _asked(self, pending: Mapping[str, Any]) -> Given:
        if self._person is None or (self._yes and not is_question(pending)):
            return GRANTED
        return asked(self._person, pending)

    def decide(self, pending: Mapping[str, Any], decision: Given) -> bool:
        """Submits a decision or an answer; returns False, with a notice, if the policy requires another person's, or if
        the decision does not fit the call."""
        run, name = self.chat.backend.run, pending["tool"]
        try:
            if isinstance(decision, str):
                self._portal.run(run.answer(pending["id"], decision))
            elif isinstance(decision, dict):
                self._portal.run(run.answer(pending["id"], None, decision))
            elif decision.rule is not None:
                pattern, calls, lasts_s = decision.rule
                rules = StandingRules(self.chat.backend)
                made = self._portal.run(rules.allow(pending["id"], pattern, count=calls, lasts_s=lasts_s))
                how = f"`demiurge approvals forget {made['id'][:SHORT]}` ends the rule"
                output.notice(f"{name} is allowed in {pending['unit']}, {calls} times in all; {how}.")
            else:
                self._portal.run(run.decide(pending["id"], *decision[:3]))
        except (UsageError, InvalidValue) as error:
            if isinstance(error, UsageError) and error.code != "not_an_approver":
                raise
            output.notice(error.message)
            return False
        if decision is GRANTED:
            output.notice(f"{name} is allowed by --yes.")
        return True

    def _wait(self, work: Coroutine[Any, Any, Reply]) -> Reply:
        running = self._portal.start(work)
        with self._person.waiting() if self._person is not None else nullcontext():
            try:
                return self._portal.wait(running)
            except KeyboardInterrupt:
                self._stop()
                return self._portal.wait(running)

    def _stop(self) -> None:
        output.notice("Stopping the turn; Ctrl-C again leaves.")
        self._portal.run(self.chat.cancel())


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
