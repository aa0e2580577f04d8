"""What a model is told of a chat some of whose messages were erased.

A chat outlives its messages. In the place of one that is gone stands a line that says so; a call whose answer is gone,
or the other way round, is left out with it, and so is what a provider binds to either, since no provider takes half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from demiurge.errors import NotFound
from demiurge.values.refs import Ref
from demiurge.wire.items import Item, Message, Opaque, Reasoning, Text, ToolCall, ToolOutput

__all__ = ["mended", "unless_erased"]

_GONE: tuple[Item, ...] = (Message("user", (Text("(This message was erased.)"),)),)


def unless_erased(read: Callable[[Ref], bytes], ref: Ref) -> bytes | None:
    """The blob; None for one that was erased. Raises NotFound for any other that is missing."""
    try:
        return read(ref)
    except NotFound as error:
        if error.code != "erased":
            raise
        return None


def mended(messages: Iterable[Sequence[Item] | None]) -> tuple[Item, ...]:
    """The items of messages, of which None were erased."""
    known = list(messages)
    items = [item for message in known for item in (_GONE if message is None else message)]
    if None not in known:
        return tuple(items)
    calls = {item.id for item in items if isinstance(item, ToolCall)}
    answers = {item.id for item in items if isinstance(item, ToolOutput)}
    whole = calls & answers
    return tuple(
        item
        for item in items
        if not isinstance(item, Reasoning | Opaque)
        and (not isinstance(item, ToolCall | ToolOutput) or item.id in whole)
    )
