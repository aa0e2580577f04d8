"""The chats of a world as a list: what each is called, how it stands, and when something happened in it last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from demiurge.apps.demiurge import CHAT
from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.chat_state import ChatCell, ChatStanding, TurnStatus
from demiurge.world.unit import Unit

__all__ = ["ChatSummary", "each_chat", "summary_of"]


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """A chat of a list. `title` is what a person or the model called it, "" for none; `name` is the title, or for want
    of one "Untitled, 24 Nov 15:38", by this machine's clock.

    `messages` is their number, `last_request_id` the number of the last message of a person (0: none), `status` that of
    the last turn, `new` without one; `waiting`: a call of the chat waits for a person. `created_at_ms` and
    `first_message_at_ms` are times in milliseconds since 1970, None if unknown or if there was none. `position` is that
    of the chat's last record in the journal, in a list."""

    id: str
    title: str
    name: str
    messages: int
    last_request_id: int
    status: TurnStatus | Literal["new"]
    waiting: bool
    archived: bool
    created_at_ms: int | None
    first_message_at_ms: int | None
    position: int | None


async def each_chat(
    backend: Backend, prefix: str = "", before: int | None = None, *, archived: bool = False
) -> AsyncIterator[ChatSummary]:
    """Yields the chats whose ids begin with `prefix`, the most recently active first; with `before` only those whose
    last record has a lower position. `archived`: those in the archive, else those that are not. A chat is read when it
    is asked for."""
    heads = await asyncio.to_thread(backend.read.heads, f"{CHAT}/{prefix}")
    waiting = await backend.read.waiting_units()
    lacking = (await backend.read.info()).get("lacking", ())
    for head in sorted(heads, key=lambda head: -head.position):
        if before is not None and head.position >= before:
            continue
        key = Unit.parse(head.unit).key
        standing = await ChatCell(backend, key).standing(lacking)
        if standing is not None and not standing.deleted and standing.archived == archived:
            yield summary_of(key, standing, waiting=head.unit in waiting, position=head.position)


def summary_of(chat_id: str, standing: ChatStanding, *, waiting: bool, position: int | None = None) -> ChatSummary:
    """Returns a chat by how it stands. `waiting`: a call of it waits for a person."""
    return ChatSummary(
        chat_id,
        standing.title,
        standing.name,
        standing.messages,
        standing.last_request_id,
        standing.turn.shown_status(waits=waiting) if standing.turn is not None else "new",
        waiting,
        standing.archived,
        standing.created_at_ms,
        standing.first_message_at_ms,
        position,
    )
