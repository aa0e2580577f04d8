"""How a chat stands in lists: its title, the time of its first message, and whether it is archived.

A title is a blob of its own (`title_ref`), so that it can be erased; the record keeps its address alone. An event of
another client may state it in `title` instead. No step reads a title, so erasing one leaves replay whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.world.reducer import ReducerContext, Step

__all__ = ["archived", "created", "renamed", "spoken_to"]

FIRST_MESSAGE_AT = "demiurge/FirstMessageAt@1"
"""When a chat got its first message. Older definitions lack it."""


def created(value: Mapping[str, Any]) -> Step:
    """Returns the step that makes a chat."""
    state = {"title": value["title"], "created_at_ms": value["created_at_ms"], "last_request_id": 0}
    return Step(set={**state, **_titled(value)})


def renamed(state: Mapping[str, Any], value: Mapping[str, Any], _context: ReducerContext) -> Step:
    """Returns the step that gives a chat another title."""
    before = {"title_ref": None} if state.get("title_ref") else {}
    return Step(set={"title": value["title"], **before, **_titled(value)})


def archived(_state: Mapping[str, Any], value: Mapping[str, Any], _context: ReducerContext) -> Step:
    """Returns the step that archives a chat, or takes it back into the lists."""
    return Step(set={"archived": value["archived"] or None})


def spoken_to(state: Mapping[str, Any], context: ReducerContext) -> dict[str, Any]:
    """Returns the fields that a message changes: the first one dates the chat, and any takes it from the archive."""
    back = {"archived": None} if state.get("archived") else {}
    if state["last_request_id"] == 0 and FIRST_MESSAGE_AT in context.schemas:
        return {"first_message_at_ms": context.stamp.time_ns // 1_000_000, **back}
    return back


def _titled(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"title_ref": value["title_ref"]} if value.get("title_ref") else {}
