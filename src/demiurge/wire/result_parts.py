"""Parts of tools' results in a request: where each format takes them, and what stands for those it does not take.

A format that takes text only as the result of a call gets the parts in a message of the user right after the results
of that answer, which says of which call each part is. A part that the model cannot take at all is a sentence with its
name, type and size. So is a part for which a request has no room: the parts of the newest results are sent first,
because a long run of screenshots must not end a chat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from demiurge.tools.parts import Audio, File, Image, part_node, part_text
from demiurge.tools.record import ToolExecResult
from demiurge.wire.attachments import MAX_REQUEST_BYTES
from demiurge.wire.items import Item, Message, Part, Text, ToolOutput

__all__ = ["MAX_SENT_PARTS", "describe_parts", "fit_parts", "move_parts", "output_of"]

MAX_SENT_PARTS = 20
"""The most parts of tools' results in one request."""

_NO_SIGHT = "It is not shown to you: you take no such input."
_NO_ROOM = "It is not shown to you again: the request has no room for it."


def output_of(result: ToolExecResult) -> ToolOutput:
    """Returns the answer of a runner as an item for the model."""
    images = tuple(part for part in result.parts if isinstance(part, Image))
    files = tuple(part for part in result.parts if not isinstance(part, Image))
    return ToolOutput(result.tool_call_id, result.content, not result.ok, images, files, result.untrusted)


def describe_parts(items: Iterable[Item], takes: Sequence[type[Image | Audio]]) -> list[Item]:
    """Returns the items with a sentence in place of each part of a result that is not of the types in `takes`."""
    kinds = tuple(takes)
    return [
        _without(item, [part for part in item.parts if not isinstance(part, kinds)], _NO_SIGHT)
        if isinstance(item, ToolOutput) and item.parts
        else item
        for item in items
    ]


def fit_parts(items: Iterable[Item], most_bytes: int = MAX_REQUEST_BYTES) -> list[Item]:
    """Returns the items with as many parts of results as fit in a request beside the attachments of messages, those of
    the newest results first: at most `most_bytes` in all, and MAX_SENT_PARTS."""
    fitted = list(items)
    left = most_bytes - sum(
        len(part.data)
        for item in fitted
        if isinstance(item, Message)
        for part in item.content
        if not isinstance(part, Text)
    )
    count = 0
    for index in range(len(fitted) - 1, -1, -1):
        item = fitted[index]
        if not isinstance(item, ToolOutput) or not item.parts:
            continue
        too_much: list[Image | Audio | File] = []
        for part in item.parts:
            count, left = count + 1, left - len(part.data)
            if left < 0 or count > MAX_SENT_PARTS:
                count, left = count - 1, left + len(part.data)
                too_much.append(part)
        fitted[index] = _without(item, too_much, _NO_ROOM)
    return fitted


def move_parts(items: Iterable[Item], kinds: tuple[type[Image | Audio], ...]) -> list[Item]:
    """Returns the items with the parts of these types in a message of the user, after all results of the answer."""
    moved: list[Item] = []
    pending: list[Part] = []
    for item in items:
        if not isinstance(item, ToolOutput):
            moved += _as_message(pending)
            pending = []
            moved.append(item)
            continue
        parts = [part for part in item.parts if not isinstance(part, File) and isinstance(part, kinds)]
        if parts:
            pending += [Text(f"From the result of the call {item.id}:"), *parts]
            item = _less(item, parts)
        moved.append(item)
    return moved + _as_message(pending)


def _as_message(parts: Sequence[Part]) -> list[Item]:
    return [Message("user", tuple(parts))] if parts else []


def _without(item: ToolOutput, parts: Sequence[Image | Audio | File], why: str) -> ToolOutput:
    """Returns the result with a sentence in place of each of `parts`."""
    if not parts:
        return item
    sentences = [_sentence(part, why) for part in parts]
    content = "\n\n".join((*((item.content,) if item.content else ()), *sentences))
    return replace(_less(item, parts), content=content)


def _less(item: ToolOutput, parts: Sequence[Image | Audio | File]) -> ToolOutput:
    """Returns the result without these of its parts."""
    gone = set(map(id, parts))
    return replace(
        item,
        images=tuple(part for part in item.images if id(part) not in gone),
        files=tuple(part for part in item.files if id(part) not in gone),
    )


def _sentence(part: Image | Audio | File, why: str) -> str:
    node = part_node(part, "")
    more = "" if isinstance(part, File) else why
    return part_text(node["kind"], node["mime"], node["size"], node["name"], more)
