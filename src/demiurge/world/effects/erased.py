"""The request to a model for a chat some of whose messages were erased.

A chat outlives its messages. An erased message is replaced by a line in the same role that says so, an erased result by
such a line as the answer to its call. A call without its answer, or an answer without its call, is left out, and so are
provider items bound to either, since no provider accepts half of a pair.
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

__all__ = ["Erased", "erased_message", "unless_erased", "without_erased"]

_STAND_IN_TEXT = "(This message was erased.)"
_ROLES = ("system", "developer", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Erased:
    """An erased message. `call_id` is the call that it answered, None if it is not a tool's result."""

    role: str = "user"
    call_id: str | None = None

    @property
    def stand_in(self) -> Item:
        """The item that is sent in its place."""
        if self.call_id is not None:
            return ToolOutput(self.call_id, _STAND_IN_TEXT)
        return Message(self.role, (Text(_STAND_IN_TEXT),))


def unless_erased(read: Callable[[Ref], bytes], ref: Ref) -> bytes | None:
    """Returns the blob, or None if it was erased. Raises NotFound if it is missing for another reason."""
    try:
        return read(ref)
    except NotFound as error:
        if error.code != "erased":
            raise
        return None


def erased_message(cell: Cell | None, settings: Mapping[str, Any], ref: Ref) -> Erased:
    """Returns what a chat still knows of its message at `ref`: its state keeps the role of each message, the catalog
    text of its turn, and the call that a result answers. A message that the state does not name counts as a user's."""
    turn = (cell or {}).get("turn")
    if ref in (settings.get("system_ref"), turn.get("catalog_ref") if isinstance(turn, Mapping) else None):
        return Erased("system")
    messages = (cell or {}).get("messages")
    for message in messages if isinstance(messages, Vector) else ():
        if isinstance(message, Mapping) and message.get("message_ref") == ref:
            role, tool = message.get("role"), message.get("tool")
            return Erased("tool", tool["id"]) if tool else Erased(role if role in _ROLES else "user")
    return Erased()


def without_erased(messages: Iterable[Sequence[Item] | Erased]) -> tuple[Item, ...]:
    """Returns the items of messages, with stand-ins for those that are gone. They never end with an assistant's
    stand-in, because some providers accept no such request."""
    known = list(messages)
    items: list[Item] = []
    for message in known:
        items += [message.stand_in] if isinstance(message, Erased) else message
    if not any(isinstance(message, Erased) for message in known):
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
    if kept and kept[-1] == Erased("assistant").stand_in:
        kept[-1] = Erased().stand_in
    return tuple(kept)
