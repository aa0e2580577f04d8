"""The state of a conversation, derived from its items.

Invariant: the items are the whole state. A loop stores nothing else between two requests, so a caller with the items
can continue: after a failure, after a person's decision, in another process. Rounds and repeated calls are counted from
the items too, so continuing does not evade a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from demiurge.tools.errors import ToolErrorCode, failure_answer, failure_text
from demiurge.tools.ids import canonical_id
from demiurge.wire.items import Item, Message, ToolCall, ToolOutput
from demiurge.wire.rounds import call_identity

__all__ = ["ConversationState", "read"]


@dataclass(frozen=True, slots=True)
class ConversationState:
    """The state of a conversation. `rounds`: the model's answers since a person's last message. `calls`: the calls of
    the last answer, `outputs` their results so far, `seen` the identities of the calls of earlier answers."""

    items: tuple[Item, ...]
    rounds: int
    calls: tuple[ToolCall, ...]
    outputs: Mapping[str, ToolOutput]
    seen: frozenset[str]
    spoken: int
    """The number of items up to the end of the last answer."""

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        return tuple(call for call in self.calls if call.id not in self.outputs)

    @property
    def is_waiting(self) -> bool:
        """Returns whether there are items that the model has not answered yet."""
        return bool(self.open_calls) or len(self.items) > self.spoken

    def has_read(self, is_untrusted: Callable[[str], bool]) -> bool:
        """Returns whether the last answer was given with a result of an untrusted tool in sight: one that says so, or
        that a call of such a tool has. `is_untrusted` takes a tool's id."""
        names: dict[str, str] = {}
        for item in self.items[: self.spoken]:
            if isinstance(item, ToolCall):
                names[item.id] = canonical_id(item.name)
            elif isinstance(item, ToolOutput) and (item.untrusted or is_untrusted(names.get(item.id, ""))):
                return True
        return False

    def with_outputs(self, outputs: Mapping[str, ToolOutput]) -> tuple[Item, ...]:
        """Returns the conversation with these results added, all in the order of their calls."""
        known = {**self.outputs, **outputs}
        return (*self.items[: self.spoken], *(known[call.id] for call in self.calls if call.id in known))


def read(items: Iterable[Item]) -> ConversationState:
    """Returns the state of a conversation. A call without a result before a later message is answered as `cancelled`,
    since it will not run."""
    reader = _Reader()
    for item in items:
        reader.take(item)
    return reader.state()


@dataclass(slots=True)
class _Reader:
    items: list[Item] = field(default_factory=list)
    rounds: int = 0
    calls: list[ToolCall] = field(default_factory=list)
    outputs: dict[str, ToolOutput] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    spoken: int = 0
    speaking: bool = False

    def take(self, item: Item) -> None:
        if isinstance(item, ToolOutput):
            self.speaking = False
            self.outputs[item.id] = item
        elif isinstance(item, Message) and item.role != "assistant":
            self._close()
            if item.role == "user":
                self.rounds, self.seen = 0, set()
        elif not self.speaking:
            self._close()
            self.speaking = True
            self.rounds += 1
        self.items.append(item)
        if self.speaking:
            self.spoken = len(self.items)
        if isinstance(item, ToolCall):
            self.calls.append(item)

    def state(self) -> ConversationState:
        calls, seen = tuple(self.calls), frozenset(self.seen)
        return ConversationState(tuple(self.items), self.rounds, calls, dict(self.outputs), seen, self.spoken)

    def _close(self) -> None:
        """Ends the last answer."""
        cut = {call.id: _cancelled(call) for call in self.calls if call.id not in self.outputs}
        if cut:
            self.items = list(self.state().with_outputs(cut))
        self.seen.update(call_identity(call.name, call.arguments_json) for call in self.calls)
        self.calls, self.outputs, self.speaking = [], {}, False


def _cancelled(call: ToolCall) -> ToolOutput:
    text = failure_text(failure_answer(ToolErrorCode.CANCELLED))
    return ToolOutput(call.id, text, is_error=True)
