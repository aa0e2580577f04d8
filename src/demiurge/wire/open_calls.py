"""The open calls of an answer: all but those that the provider answered in the same answer."""

from __future__ import annotations

from collections.abc import Iterable

from demiurge.wire.items import Item, ToolCall, ToolOutput

__all__ = ["open_calls"]


def open_calls(items: Iterable[Item]) -> tuple[ToolCall, ...]:
    """Returns the calls that no later output among the items answers, in order; an output answers the latest call of
    its id."""
    waiting: list[ToolCall] = []
    for item in items:
        if isinstance(item, ToolCall):
            waiting.append(item)
        elif isinstance(item, ToolOutput):
            at = next((at for at in range(len(waiting) - 1, -1, -1) if waiting[at].id == item.id), None)
            if at is not None:
                del waiting[at]
    return tuple(waiting)
