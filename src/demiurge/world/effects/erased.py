"""What a model is told of a chat some of whose messages were erased.

A chat outlives its messages. In the place of an erased message stands a line in the same role that says so, and in the
place of an erased result such a line as the answer to its call. A call whose answer is not there, or the other way
round, is left out, and so is what a provider binds to either, since no provider takes half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demiurge.errors import NotFound
from demiurge.values.refs import Ref
from demiurge.values.vector import Vector
from demiurge.wire.items import Item, Message, Opaque, Reasoning, Text, ToolCall, ToolOutput
from demiurge.world.cell import Cell

__all__ = ["Gone", "erased_message", "mended", "unless_erased"]

_SAID = "(This message was erased.)"
_ROLES = ("system", "developer", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Gone:
    """A message that was erased; `call_id` is the call that it answered, None for one that is no tool's result."""

    role: str = "user"
    call_id: str | None = None

    @property
    def stand_in(self) -> Item:
        """The item that is sent in its place."""
        if self.call_id is not None:
            return ToolOutput(self.call_id, _SAID)
        return Message(self.role, (Text(_SAID),))


def unless_erased(read: Callable[[Ref], bytes], ref: Ref) -> bytes | None:
    """The blob; None for one that was erased. Raises NotFound for any other that is missing."""
    try:
        return read(ref)
    except NotFound as error:
        if error.code != "erased":
            raise
        return None


def erased_message(cell: Cell | None, settings: Mapping[str, Any], ref: Ref) -> Gone:
    """What a chat still knows of its message at `ref`: its state keeps the role of each message, and the call that a
    result answers. A message that the state does not name counts as a user's."""
    if ref == settings.get("system_ref"):
        return Gone("system")
    messages = (cell or {}).get("messages")
    for message in messages if isinstance(messages, Vector) else ():
        if isinstance(message, Mapping) and message.get("message_ref") == ref:
            role, tool = message.get("role"), message.get("tool")
            return Gone("tool", tool["id"]) if tool else Gone(role if role in _ROLES else "user")
    return Gone()


def mended(messages: Iterable[Sequence[Item] | Gone]) -> tuple[Item, ...]:
    """The items of messages, some of which are gone. What comes of it never ends with an assistant's line in the place
    of a message: some providers take no request that does."""
    known = list(messages)
    items: list[Item] = []
    for message in known:
        items += [message.stand_in] if isinstance(message, Gone) else message
    if not any(isinstance(message, Gone) for message in known):
        return tuple(items)
    calls = {item.id for item in items if isinstance(item, ToolCall)}
    answers = {item.id for item in items if isinstance(item, ToolOutput)}
    whole = calls & answers
    kept: list[Item] = [
        item
        for item in items
        if not isinstance(item, Reasoning | Opaque)
        and (not isinstance(item, ToolCall | ToolOutput) or item.id in whole)
    ]
    if kept and kept[-1] == Gone("assistant").stand_in:
        kept[-1] = Gone().stand_in
    return tuple(kept)
