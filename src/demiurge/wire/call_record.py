"""The calls that a server has recorded, by the id that a browser knows them under.

A browser is shown the public part of a call's arguments and of its result, and posts that back with the next message.
What goes to the model instead is what the record holds: the call as the model made it, and the text that it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from demiurge.errors import InvalidValue
from demiurge.tools.ids import canonical_call_id
from demiurge.wire.items import Item, ToolCall, ToolOutput

__all__ = ["CallRecord", "RecordedCall", "recorded_calls"]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call with its exact arguments, and the output that the model was given; None for one that has none yet."""

    call: ToolCall = field(repr=False)
    output: ToolOutput | None = field(default=None, repr=False)


CallRecord: TypeAlias = Callable[[str], RecordedCall | None]
"""Gives the call that was shown under an id in this conversation, or None. It must know calls of this conversation and
of nobody else's: whoever posts an id is given nothing, but the model reads what the record holds."""


def recorded_calls(items: Iterable[Item]) -> CallRecord:
    """The calls of a conversation that was kept as items, such as `Turn.items`.

    Raises InvalidValue for two calls with the same id: nobody could tell which of them a browser means."""
    calls: dict[str, ToolCall] = {}
    outputs: dict[str, ToolOutput] = {}
    for item in items:
        if isinstance(item, ToolCall):
            shown = canonical_call_id(item.id)
            if shown in calls:
                raise InvalidValue("two calls have the same id; an agent loop makes ids unique", path="items")
            calls[shown] = item
        elif isinstance(item, ToolOutput):
            outputs[canonical_call_id(item.id)] = item
    found = {shown: RecordedCall(call, outputs.get(shown)) for shown, call in calls.items()}
    return found.get
