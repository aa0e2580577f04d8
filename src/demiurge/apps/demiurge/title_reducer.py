"""The reducer of titles: the model that answered the first turn of a chat is asked once what the chat is called.

The request has a cell of its own, with the chat's id as its key: nobody waits for it, and a chat goes on whatever comes
of it. It holds the chat's first message and no tools. The title is a blob of its own, so that it can be erased.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from demiurge.errors import InvalidValue
from demiurge.values import canonical_json
from demiurge.values.refs import Ref, ref_of
from demiurge.visible_text import INVISIBLE
from demiurge.wire.items import Message, Text
from demiurge.world.messages import expand, user_blob
from demiurge.world.reducer import Emit, ReducerContext, Step

__all__ = ["reduce", "title_in"]

LONGEST = 80
"""The most characters of a title by a model."""

MAX_TOKENS = 256
"""The most tokens of an answer; a model that thinks first needs most of them for that."""

INSTRUCTION = user_blob(
    "Name the conversation that the next message begins, in at most six words of its language. Don't answer the "
    "message. Write the name alone, without quotation marks.",
    role="system",
)

AROUND = " \t\"'`*_#.:\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}\N{DOUBLE LOW-9 QUOTATION MARK}«»"
"""The characters that models write around a name."""

State = Mapping[str, Any]
Event = Mapping[str, Any]


def reduce(state: State | None, event: Event, context: ReducerContext) -> Step:
    """One step of the request for a title."""
    tag, value = event["$tag"], event["$value"]
    if context.origin == "external":
        return Step()
    if tag == "Asked":
        return _asked(value, context) if state is None else Step()
    if state is None or state["status"] != "asked":
        return Step()
    if tag == "Done":
        return _done(value["output_ref"], context)
    return Step(set={"status": "failed", **{name: value[name] for name in ("code", "message")}})


def title_in(text: str) -> str:
    """Returns the title in a model's answer: its first line, without what stands around a name; "" for none."""
    lines = (" ".join(INVISIBLE.sub(" ", line).split()).strip(AROUND) for line in text.splitlines())
    title = next(filter(None, lines), "")
    return title if len(title) <= LONGEST else re.sub(r"\s+\S*$", "", title[:LONGEST]).strip(AROUND)


def _asked(value: Event, context: ReducerContext) -> Step:
    named = {name: value[name] for name in ("provider", "model")}
    request = {"chat_id": context.key, "message_refs": [ref_of(INSTRUCTION), value["message_ref"]], **named}
    request |= {"temperature": context.settings["temperature"], "max_tokens": MAX_TOKENS}
    return Step(
        set={**named, "status": "asked"},
        events=[Emit("demiurge/TitleRequested@1", request)],
        blobs=[INSTRUCTION],
    )


def _done(output_ref: Ref, context: ReducerContext) -> Step:
    try:
        items = expand(context.blob(output_ref), context.blob)
    except InvalidValue:
        items = []
    said = [part.text for item in items if isinstance(item, Message) for part in item.content if isinstance(part, Text)]
    title = title_in("".join(said))
    if not title:
        return Step(set={"status": "failed", "code": "no_title", "output_ref": output_ref})
    of = [context.key, context.stamp.time_ns // 1_000_000]
    blob = canonical_json.encode({**canonical_json.parse_object(user_blob(title)), "title_of": of})
    titled = {"$tag": "ChatTitled", "$value": {"chat_id": context.key, "title_ref": ref_of(blob)}}
    return Step(
        set={"status": "done", "output_ref": output_ref, "title_ref": ref_of(blob)},
        events=[Emit("demiurge/ChatEvent@1", titled)],
        blobs=[blob],
    )
