"""The parts of a chat besides its turns: its title, the time of its first message, its place in the archive, its
deletion, its own toolset, and a history that was imported.

A title is a blob of its own (`title_ref`), so that it can be erased; the record keeps its address alone. An event of
another client may state it in `title` instead. No step reads a title, so erasing one leaves replay whole.

A chat without a title asks for one when its first turn is done (`title_reducer`), if the setting `titles` is `always`,
or `auto` and its provider one of those that `auto` asks. The request is made of the first message (`title_from`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.wire.attachments import attached
from demiurge.wire.items import Item, Message
from demiurge.world.messages import attachment_refs, expand
from demiurge.world.reducer import Emit, ReducerContext, Step
from demiurge.world.toolset import read_toolset

__all__ = [
    "MAX_REQUEST_ID",
    "OPEN",
    "archived",
    "asked_title",
    "created",
    "deleted",
    "imported",
    "not_taken",
    "renamed",
    "spoken_to",
    "titled",
    "tools_set",
]

MAX_REQUEST_ID = (1 << 53) - 1

OPEN = ("model", "tools")
"""Statuses of a turn that is still going on; the others are `done` and `failed`."""

SPEAKERS = ("user", "assistant")
"""The roles in an imported history: calls and their results are told in the model's words."""

NAMING = ("anthropic", "openai-chat", "openai-chat-json", "openai-responses")
"""The providers that `auto` asks for titles: models that answer in a second, and not those of this machine."""

LONGEST_NAMED = 8000
"""The most bytes of a first message that a model is asked to name: the request is meant to be cheap."""

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


def deleted(state: Mapping[str, Any], value: Mapping[str, Any], _context: ReducerContext) -> Step:
    """Returns the step that closes a chat for good. Its words are erased after it."""
    turn = state["turn"]
    if turn is not None and turn["status"] in OPEN:
        why = "The last turn of this chat is still going on: stop it first."
        return Step(events=[not_taken(value, "chat_busy", why)])
    return Step(set={"deleted": True, "title_from": None})


def titled(state: Mapping[str, Any], value: Mapping[str, Any], _context: ReducerContext) -> Step:
    """Returns the step that takes a title of the model, unless the chat has one by now, or is deleted."""
    if state["title"] or state.get("title_ref") or state.get("deleted"):
        return Step()
    return Step(set={"title_ref": value["title_ref"]})


def tools_set(state: Mapping[str, Any], value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Returns the step that gives a chat a toolset of its own, or takes it away."""
    if state["turn"] is not None and state["turn"]["status"] in OPEN:
        return Step(events=[not_taken(value, "chat_busy", "The last turn of this chat is still going on.")])
    given = value["tools_ref"]
    try:
        if given is not None:
            read_toolset(context.blob(given))
    except InvalidValue as error:
        return Step(events=[not_taken(value, "bad_toolset", f"The blob is not a toolset: {error}.")])
    return Step(set={"tools_ref": given, "own_tools_ref": given, "tool_choice": value["tool_choice"]})


def asked_title(state: Mapping[str, Any], chat_id: str) -> tuple[dict[str, Any], list[Emit]]:
    """Returns the fields that change when a turn is done, and the event that asks for a title."""
    message_ref = state.get("title_from")
    if message_ref is None:
        return {}, []
    if state["title"] or state.get("title_ref"):
        return {"title_from": None}, []
    asked = {"chat_id": chat_id, "message_ref": message_ref, "provider": state["provider"], "model": state["model"]}
    return {"title_from": None}, [Emit("demiurge/TitleEvent@1", {"$tag": "Asked", "$value": asked})]


def spoken_to(
    state: Mapping[str, Any], value: Mapping[str, Any], message: bytes, context: ReducerContext
) -> dict[str, Any]:
    """Returns the fields that a message changes, besides the turn: the first one dates the chat and may name it, and
    any takes it from the archive."""
    changed: dict[str, Any] = {"archived": None} if state.get("archived") else {}
    if state["last_request_id"] == 0:
        if FIRST_MESSAGE_AT in context.schemas:
            changed["first_message_at_ms"] = context.stamp.time_ns // 1_000_000
        titles = context.settings.get("titles")
        names = titles == "always" or (titles == "auto" and value["provider"] in NAMING)
        if names and len(message) <= LONGEST_NAMED and not attachment_refs(message):
            changed["title_from"] = value["message_ref"]
    return changed


def imported(state: Mapping[str, Any], value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Returns the step that gives a new chat the history of another one. Its messages are told to the model, and none
    of them is a turn: nothing in them was called, answered or paid for here."""
    if state["messages"] or state["last_request_id"]:
        return Step(
            events=[not_taken(value, "chat_used", "A history is imported into a new chat; this one has messages.")]
        )
    blobs: list[bytes] = []
    last = 0
    for message in value["messages"]:
        try:
            items = expand(context.blob(message["message_ref"]), context.blob)
        except InvalidValue as error:
            return Step(events=[not_taken(value, "bad_message", f"The blob is not a message: {error}.")])
        if message["role"] not in SPEAKERS or not _is_said_by(items, message["role"]):
            why = "A message of an imported history is a user's or the model's, and proposes no call."
            return Step(events=[not_taken(value, "bad_message", why)])
        if not last <= message["request_id"] <= MAX_REQUEST_ID or message["request_id"] < 1:
            return Step(events=[not_taken(value, "bad_request_id", "The request ids of a history go up from 1.")])
        last = message["request_id"]
        blobs += [part.data for part in attached(items)]
    began = {"first_message_at_ms": value["first_message_at_ms"]} if value["first_message_at_ms"] is not None else {}
    return Step(
        set={"last_request_id": last, **began},
        append={"messages": [{**message, "imported": True} for message in value["messages"]]},
        blobs=list(dict.fromkeys(blobs)),
    )


def not_taken(value: Mapping[str, Any], code: str, message: str) -> Emit:
    """Returns the event about an event that is not taken: recorded and visible, with round 0 so that no turn is
    touched."""
    failed = {"chat_id": value["chat_id"], "request_id": value.get("request_id", 0), "round": 0}
    return Emit("demiurge/ChatFailed@1", {**failed, "code": code, "message": message})


def _is_said_by(items: Sequence[Item], role: str) -> bool:
    return bool(items) and all(isinstance(item, Message) and item.role == role for item in items)


def _titled(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"title_ref": value["title_ref"]} if value.get("title_ref") else {}
