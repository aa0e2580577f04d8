"""Reads one turn of a chat: its messages and calls, each time only what is new.

Invariant: a read costs what came since the last one, however long the chat and the turn are. Messages are only ever
added to a chat, in the order of their request ids, so a place in the list stays what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from demiurge.apps.demiurge import CHAT
from demiurge.values.projection import Only

if TYPE_CHECKING:
    from demiurge.bootstrap.world import World

__all__ = ["TURN", "TurnCall", "TurnReader", "first_message"]

TURN: Final[Mapping[str, Only]] = {"request_id": "all", "status": "all", "code": "all", "message": "all"}
"""The part of a turn in a chat's state that says how it stands."""


class TurnCall(NamedTuple):
    """A call as the model proposed it, `{id, name, arguments_json}`, and its outcome in the chat's state, `{ok,
    error_code, message, view_ref}`, None while it has none."""

    call: Mapping[str, Any]
    outcome: Mapping[str, Any] | None


class TurnReader:
    """Follows the turn of the message `request_id`; None: of the chat's last one, whichever that is at each read.
    `load` gives the content of a message by its ref.

    After a read: `request_id` names the turn that was read, None when the chat has no such message; `turn` is how it
    stands, None for a turn before the last one; `calls` are all of its calls, in order; `answers` its messages of the
    model; `answer` the content of the last of these, empty when there is none; `max_tokens` is the chat's.
    """

    def __init__(
        self, world: World, chat_id: str, load: Callable[[str], Mapping[str, Any]], request_id: int | None = None
    ) -> None:
        self._world, self._chat_id, self._load, self._wanted = world, chat_id, load, request_id
        self._next: int | None = None
        """The place of the first message that was not read yet; None before the first read."""
        self.max_tokens: int | None = None
        self._begin(None)

    def _begin(self, request_id: int | None) -> None:
        self.request_id = request_id
        self.turn: Mapping[str, Any] | None = None
        self.calls: list[TurnCall] = []
        self.answers: list[Mapping[str, Any]] = []
        self.answer: Mapping[str, Any] = {}
        self._settled = 0
        """How many of the calls have their answers among the messages that were read."""

    async def read(self) -> list[int]:
        """The places in `calls` of those that are new, or have their outcome now."""
        if self._next is None:
            self._next = await first_message(self._world, self._chat_id, self._wanted)
            if self._next is None:
                return []
        turn: Only = {**TURN, "calls": "all"}
        only: Only = {"last_request_id": "all", "max_tokens": "all", "turn": turn, "messages": (self._next, None)}
        state = await self._world.state(CHAT, self._chat_id, only=only)
        if state is None:
            return []
        wanted = self._wanted if self._wanted is not None else state["last_request_id"]
        found = [message for message in state["messages"] if message["request_id"] == wanted]
        if wanted != self.request_id and found:
            self._begin(wanted)
        if self._wanted is None or len(found) == len(state["messages"]):  # else a later turn has begun
            self._next += len(state["messages"])
        else:
            self._next += len(found)
        is_current = state["turn"] is not None and state["turn"]["request_id"] == wanted
        self.turn = state["turn"] if is_current else None
        self.max_tokens = state["max_tokens"]
        return sorted({*self._take(found), *self._take_open()})

    def _take(self, messages: list[Mapping[str, Any]]) -> list[int]:
        """Calls are paired with their answers by place: an id may come again in a later round."""
        changed: list[int] = []
        for message in messages:
            if message["role"] == "assistant":
                self.answers.append(message)
                self.answer = self._load(message["message_ref"])
                proposed = self.answer.get("tool_calls", ())
                changed += range(len(self.calls), len(self.calls) + len(proposed))
                self.calls += [TurnCall(call, None) for call in proposed]
            elif message["tool"] is not None:
                if self._settled == len(self.calls):  # the answer that proposed it was erased
                    erased = {"id": message["tool"]["id"], "name": message["tool"]["name"], "arguments_json": ""}
                    self.calls.append(TurnCall(erased, None))
                if self._answer(self._settled, message["tool"]):
                    changed.append(self._settled)
                self._settled += 1
        return changed

    def _take_open(self) -> list[int]:
        """Takes the outcomes of calls of the open round, which are no messages yet. Returns their places in `calls`."""
        noted = self.turn["calls"] if self.turn is not None else ()
        places = range(self._settled, len(self.calls))
        return [
            place
            for place, call in zip_longest(places, noted)
            if place is not None and call is not None and self._answer(place, call["outcome"])
        ]

    def _answer(self, place: int, outcome: Mapping[str, Any] | None) -> bool:
        """Keeps the outcome of a call. Returns whether it is new."""
        if outcome is None or self.calls[place].outcome is not None:
            return False
        self.calls[place] = self.calls[place]._replace(outcome=outcome)
        return True


async def first_message(world: World, chat_id: str, request_id: int | None) -> int | None:
    """The place of the first message with this request id (None: the last one's) or a later one; None for a chat that
    was never made."""
    state = await world.state(CHAT, chat_id, only={"last_request_id": "all", "messages": "length"})
    if state is None:
        return None
    wanted = request_id if request_id is not None else state["last_request_id"]
    low, high = 0, state["messages"]
    while low < high:
        middle = (low + high) // 2
        found = await world.state(CHAT, chat_id, only={"messages": (middle, middle + 1)})
        if found is not None and found["messages"][0]["request_id"] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
