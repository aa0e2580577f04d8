"""The content of a message, as it is shown to people, and the cut of what a model was told about a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic_core import from_json

from demiurge.errors import DemiurgeError
from demiurge.tools.execution.portable import portable

__all__ = ["MOST_TOLD", "MessageBody", "json_size", "told", "told_ref"]

MOST_TOLD: Final = 4000
"""The most characters of a text, and the most bytes of a value as JSON, that a frame or a trace has of a result."""


@dataclass(frozen=True, slots=True)
class MessageBody:
    """The content of a message. `attachments` are `{type, mime, bytes_ref}`, `tool_calls` are `{id, name,
    arguments_json}`; `erased` is None, or `{actor, why, at_ms}` of a message that was erased. `skip_tool_catalog`: the
    sender asked for a turn without the catalog of the tools in its prompt. `verbatim_ref`: of a tool's result, the blob
    of its source's own answer. `value`: of a tool's result, the whole value as its tool returned it, JSON-ready; None
    if there is none, or `text` is the value, or while it is in the blob `value_ref` (`with_value`).

    For a caller who does not see records, `attachments` are `{type}` and `arguments_json` is None."""

    text: str = ""
    attachments: Sequence[Mapping[str, Any]] = ()
    tool_calls: Sequence[Mapping[str, Any]] = ()
    erased: Mapping[str, Any] | None = None
    skip_tool_catalog: bool = False
    verbatim_ref: str | None = None
    value: Any = None
    value_ref: str | None = None

    @classmethod
    def decode(cls, node: Mapping[str, Any]) -> MessageBody:
        content = node.get("content", "")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        text = "".join(part["text"] for part in parts if part.get("type") == "text")
        attached = [part for part in parts if part.get("type") != "text"]
        skips = node.get("skip_tool_catalog") is True
        calls, verbatim = node.get("tool_calls") or (), node.get("verbatim_ref")
        at = node.get("value_at")
        value = portable(from_json(text[at:])) if at is not None else None
        named = {"verbatim_ref": verbatim, "value_ref": node.get("value_ref")}
        return cls(text, attached, calls, skip_tool_catalog=skips, value=value, **named)

    def with_value(self, get: Callable[[str], bytes]) -> MessageBody:
        """Returns the content with its value, which `get` reads if it is in a blob of its own."""
        return self if self.value_ref is None else replace(self, value=portable(from_json(get(self.value_ref))))

    @classmethod
    def of_redacted(cls, message: Mapping[str, Any]) -> MessageBody:
        """Returns the content of a redacted message, as the call `read.message` answers it."""
        attached = [{"type": kind} for kind in message["attachments"]]
        calls = [{**call, "arguments_json": None} for call in message["tool_calls"]]
        return cls(message["text"], attached, calls, skip_tool_catalog=message["skip_tool_catalog"])


def told(body: MessageBody, get: Callable[[str], bytes] | None = None) -> dict[str, Any]:
    """Returns what a model was told about a call and the tool's whole value, `{content, value}`, in a size for a frame,
    a trace or a line of a stream. Of a longer text only the beginning, with the number of its characters as
    `content_cut`; in place of a longer value None, with the number of its bytes as JSON as `value_cut`. `get` reads a
    value that is in a blob of its own; one that can't be read is None."""
    shown: dict[str, Any] = {"content": body.text[:MOST_TOLD], "value": None}
    if len(body.text) > MOST_TOLD:
        shown["content_cut"] = len(body.text)
    stored: bytes | None = None
    with suppress(DemiurgeError):  # the content is shown all the same
        stored = get(body.value_ref) if get is not None and body.value_ref is not None else None
    size = len(stored) if stored is not None else json_size(body.value)
    if size > MOST_TOLD:
        shown["value_cut"] = size
    else:
        shown["value"] = portable(from_json(stored)) if stored is not None else body.value
    return shown


def told_ref(kind: str, body: Mapping[str, Any]) -> str | None:
    """Returns the address of the message for the model that a record of this kind names, as the receipt of a call does;
    None for any other record."""
    payload = body.get("payload") if kind == "receipt" else None
    ref = payload.get("message_ref") if isinstance(payload, Mapping) else None
    return str(ref) if ref is not None else None


def json_size(value: Any) -> int:
    """Returns the number of bytes of a value as compact JSON in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
