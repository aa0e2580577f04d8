"""The calls that a server has recorded, by the ids that a browser knows.

A browser sees the public part of a call's arguments and result, and posts it back with the next message. The model gets
the record instead: the call as the model made it, and the text of its result.
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
    """A call with its exact arguments, and the output that the model got; None if it has none yet."""

    call: ToolCall = field(repr=False)
    output: ToolOutput | None = field(default=None, repr=False)


CallRecord: TypeAlias = Callable[[str], RecordedCall | None]
"""Returns the call that was shown under an id in this conversation, or None. It must know only calls of this
conversation: a client that posts an id receives nothing, but the model reads the record."""


def recorded_calls(items: Iterable[Item]) -> CallRecord:
    """Returns the calls of a conversation that was stored as items, such as `Turn.items`.

    Raises InvalidValue for two calls with the same id, because a browser's id would be ambiguous.
    """
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
