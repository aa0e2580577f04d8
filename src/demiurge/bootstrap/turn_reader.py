"""Reads one turn of a chat: its messages and calls. Each read fetches only what is new.

Invariant: the cost of a read depends on what was added since the last one, not on the length of the chat or of the
turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice, zip_longest
from typing import Any, NamedTuple

from demiurge.bootstrap.backend.message_body import MessageBody
from demiurge.bootstrap.chat_state import ChatCell, ChatMessage, ToolAnswer, TurnState
from demiurge.bootstrap.decided_calls import CallDecision, CallDecisions
from demiurge.bootstrap.message_body import load_body, load_told, load_view
from demiurge.bootstrap.reply import ToolCallView

__all__ = ["TurnCall", "TurnReader"]


class TurnCall(NamedTuple):
    """A call as the model proposed it, `{id, name, arguments_json}`, its outcome, None while it has none, and what its
    records say about the decision on it, None if that is nothing."""

    call: Mapping[str, Any]
    outcome: ToolAnswer | None
    decided: CallDecision | None = None


class TurnReader:
    """Follows the turn of the message `request_id`; None: of the chat's last one, whichever that is at each read.

    After a read: `request_id` names the turn that was read, None when the chat has no such message; `turn` is its
    state, None for a turn before the last one; `calls` are all of its calls, in order; `words` is what the model said
    before its calls, by the place in `calls` of the first call of each answer; `answers` its messages of the model;
    `answer` the content of the last of these, empty when there is none; `max_tokens` is the chat's.
    """

    def __init__(self, cell: ChatCell, request_id: int | None = None) -> None:
        self.cell, self._wanted = cell, request_id
        self._next: int | None = None
        """The place of the first message that was not read yet; None before the first read."""
        self.max_tokens: int | None = None
        self._begin(None)

    def _begin(self, request_id: int | None) -> None:
        self.request_id = request_id
        self.turn: TurnState | None = None
        self.calls: list[TurnCall] = []
        self.words: dict[int, str] = {}
        self.answers: list[ChatMessage] = []
        self.answer = MessageBody()
        self._settled = 0
        """How many of the calls have their answers among the messages that were read."""
        self._decided: CallDecisions | None = None
        if request_id is not None:
            self._decided = CallDecisions(self.cell.backend, self.cell.chat_id, request_id)
        self._unplaced: list[CallDecision] = []
        """Decisions about calls that were not read yet."""

    async def read(self) -> list[int]:
        """Reads what is new. Returns the places in `calls` of the calls that are new, or that have a new outcome or
        decision."""
        if self._next is None:
            self._next = await self.cell.place(self._wanted)
        new = await self.cell.new_messages(self._next) if self._next is not None else None
        if new is None or self._next is None:
            return []
        wanted = self._wanted if self._wanted is not None else new.last_request_id
        found = [message for message in new.messages if message.request_id == wanted]
        if wanted != self.request_id and found:
            self._begin(wanted)
        if self._wanted is None or len(found) == len(new.messages):  # else a later turn has begun
            self._next += len(new.messages)
        else:
            self._next += len(found)
        self.turn = new.turn if new.turn is not None and new.turn.request_id == wanted else None
        self.max_tokens = new.max_tokens
        return sorted({*self._take(found), *self._take_open(), *await self._take_decided()})

    def view(self, place: int) -> ToolCallView:
        """Returns the call at this place of `calls` as it is shown."""
        call, outcome, decided = self.calls[place]
        view = ToolCallView(call["id"], call["name"], call["arguments_json"], ok=None)
        if decided is not None:
            view = replace(view, **decided.fields)
        if outcome is None:
            return view
        told = load_told(self.cell.backend, outcome.message_ref)
        return replace(
            view,
            ok=outcome.ok,
            content=told.text if told is not None else None,
            value=told.value if told is not None else None,
            result=load_view(self.cell.backend, outcome.view_ref),
            error_code=outcome.error_code,
            message=outcome.message,
            replayed=bool(outcome.replayed),
            state=outcome.state,
        )

    def _take(self, messages: Iterable[ChatMessage]) -> list[int]:
        """Pairs calls with their answers by place, since an id may come again in a later round."""
        changed: list[int] = []
        for message in messages:
            if message.role == "assistant":
                self.answers.append(message)
                self.answer = load_body(self.cell.backend, message.message_ref)
                proposed = self.answer.tool_calls
                if proposed:
                    self.words[len(self.calls)] = self.answer.text
                changed += range(len(self.calls), len(self.calls) + len(proposed))
                self.calls += [TurnCall(call, None) for call in proposed]
            elif message.tool is not None:
                if self._settled == len(self.calls):  # the answer that proposed it was erased
                    erased = {"id": message.tool.id, "name": message.tool.name, "arguments_json": ""}
                    self.calls.append(TurnCall(erased, None))
                if self._answer(self._settled, message.tool):
                    changed.append(self._settled)
                self._settled += 1
        return changed

    def _take_open(self) -> list[int]:
        """Takes the outcomes of calls of the open round, which are no messages yet. Returns their places in `calls`."""
        outcomes = self.turn.answers if self.turn is not None else ()
        places = range(self._settled, len(self.calls))
        return [
            place
            for place, outcome in zip_longest(places, outcomes)
            if place is not None and self._answer(place, outcome)
        ]

    async def _take_decided(self) -> list[int]:
        """Takes what was newly decided. Returns the places in `calls` of the calls that it is about."""
        places: list[int] = []
        if self._decided is not None and self.calls:
            self._unplaced += await self._decided.read()
        for one in [*self._unplaced]:
            calls = enumerate(self.calls)
            same = (at for at, (call, _, known) in calls if call == one.call and one.follows(known))
            for place in islice(same, 1):
                self.calls[place] = self.calls[place]._replace(decided=one)
                self._unplaced.remove(one)
                places.append(place)
        return places

    def _answer(self, place: int, outcome: ToolAnswer | None) -> bool:
        """Keeps the outcome of a call. Returns whether it is new."""
        if outcome is None or self.calls[place].outcome is not None:
            return False
        self.calls[place] = self.calls[place]._replace(outcome=outcome)
        return True
