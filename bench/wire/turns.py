"""What a recorded request says, as neutral items: an independent reader of the three request formats, used on what
clients sent and on what our encoders make of it alike.

What a request gets wrong (a part that is no object, a call without a name) is read as absent: clients sent those too,
and a provider refused them. Images that are in the request itself are kept, those behind an address are not."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import Any

from demiurge.wire import Image, Item, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolOutput

__all__ = ["entries", "is_paired", "items_of", "other_parts"]

_TEXTS = ("text", "input_text", "output_text")
_BESIDE = ("caller", "namespace", "toolset_name")
_THOUGHTS = ("reasoning", "reasoning_content", "reasoning_details")


def items_of(api: str, request: Mapping[str, Any]) -> list[Item]:
    """The system's text, the messages, calls and results of a request, in order. Of what a person sent, text and images
    are kept; in a result, other parts are named."""
    return list({"chat": _chat, "responses": _responses, "messages": _messages}[api](request))


def is_paired(api: str, request: Mapping[str, Any]) -> bool:
    """Whether the results of the calls of a turn follow it, each once, before anything else is said."""
    waiting: set[str] = set()
    for item in items_of(api, request):
        if isinstance(item, ToolOutput):
            if item.id not in waiting:
                return False
            waiting.remove(item.id)
        elif isinstance(item, ToolCall):
            waiting.add(item.id)
        elif waiting and isinstance(item, Message) and item.role == "user":
            return False
    return not waiting


def other_parts(value: Any) -> set[str]:
    """The kinds of part in a result's content that are neither text nor an image that the request holds."""
    return {
        _word(part, "type") or "a part that is no object"
        for part in (value if isinstance(value, list) else [])
        if _word(_mapping(part), "type") not in _TEXTS and _image(_mapping(part)) is None
    }


def entries(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; none of what is no list."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _word(entry: Any, key: str) -> str:
    value = _mapping(entry).get(key)
    return value if isinstance(value, str) else ""


def _image(part: Mapping[str, Any]) -> Image | None:
    """The image that a part holds, in the spelling of any of the three formats."""
    source = _mapping(part.get("source"))
    if _word(source, "type") == "base64":
        return _bytes(_word(source, "media_type"), _word(source, "data"))
    place = part.get("image_url")
    url = place if isinstance(place, str) else _word(place, "url")
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        return None
    return _bytes(head.removeprefix("data:").removesuffix(";base64"), data)


def _bytes(mime: str, data: str) -> Image | None:
    """Recorders leave the data of some images out and say so in its place; then the bytes are what they say."""
    if not mime.startswith("image/"):
        return None
    try:
        return Image(mime, base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return Image(mime, data.encode())


def _output(call_id: str, value: Any, *, is_error: bool = False) -> ToolOutput:
    parts = entries(value)
    images = tuple(image for part in parts if (image := _image(part)) is not None)
    if isinstance(value, list):
        kept = (part for part in parts if _image(part) is None)
        text = "".join(_word(part, "text") or f"[{_word(part, 'type')}]" for part in kept)
    else:
        text = value if isinstance(value, str) else ""
    return ToolOutput(call_id, text, is_error, images)


def _said(role: str, value: Any) -> Iterator[Item]:
    parts = entries(value) if isinstance(value, list) else [{"text": value}]
    said: list[Part] = []
    for part in parts:
        image = _image(part) if role == "user" else None
        if image is not None:
            said.append(image)
        elif _word(part, "text").strip():
            said.append(Text(_word(part, "text")))
    if said:
        yield Message(role, tuple(said))


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _call(
    call_id: str, name: str, arguments: str, entry: Mapping[str, Any] | None = None, *, is_text: bool = False
) -> Iterator[Item]:
    """A call, as it goes back: a text that is no object (a custom tool's) wrapped. `entry`: where to look for what
    stands beside the call."""
    beside = {key: entry[key] for key in _BESIDE if entry.get(key)} if entry is not None else {}
    kind = "tool_use" if _word(entry, "type") == "tool_use" else "function_call"
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except ValueError:
        is_object = False
    if call_id and name:
        wrapped = json.dumps({"invalid_arguments": arguments})
        yield ToolCall(
            call_id,
            name,
            wrapped if is_text and not is_object else arguments,
            raw={"type": kind, **beside} if beside else None,
        )


def _chat(request: Mapping[str, Any]) -> Iterator[Item]:
    for message in entries(request.get("messages")):
        role, content = _word(message, "role"), message.get("content")
        if role == "tool":
            yield _output(_word(message, "tool_call_id"), content)
            continue
        thoughts = {key: message[key] for key in _THOUGHTS if message.get(key)}
        if isinstance(content, list) and role == "assistant":
            kept = [part for part in entries(content) if _word(part, "type") != "text"]
            thoughts |= {"content": kept} if kept else {}
            content = [part for part in entries(content) if _word(part, "type") == "text"]
        if thoughts:
            yield Reasoning(raw=thoughts)
        yield from _said(role, content)
        for call in entries(message.get("tool_calls")):
            custom, function = _mapping(call.get("custom")), _mapping(call.get("function"))
            if custom:
                yield from _call(_word(call, "id"), _word(custom, "name"), _word(custom, "input"), is_text=True)
            else:
                yield from _call(_word(call, "id"), _word(function, "name"), _arguments(function.get("arguments")))


def _responses(request: Mapping[str, Any]) -> Iterator[Item]:
    said = request.get("input")
    yield from _said("system", request.get("instructions"))
    for entry in [{"role": "user", "content": said}] if isinstance(said, str) else entries(said):
        call_id, name = _word(entry, "call_id"), _word(entry, "name")
        match entry.get("type", "message"):
            case "message":
                yield from _said(_word(entry, "role"), entry.get("content"))
            case "function_call":
                yield from _call(call_id, name, _arguments(entry.get("arguments")), entry)
            case "custom_tool_call":
                yield from _call(call_id, name, _word(entry, "input"), entry, is_text=True)
            case "function_call_output" | "custom_tool_call_output":
                yield _output(call_id, entry.get("output"))
            case "reasoning":
                yield Reasoning(raw=entry)
            case _:
                yield Opaque(entry)


def _messages(request: Mapping[str, Any]) -> Iterator[Item]:
    yield from _said("system", request.get("system"))
    for message in entries(request.get("messages")):
        role, content = _word(message, "role"), message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else entries(content):
            match _word(block, "type"):
                case "text" | "image":
                    yield from _said(role, [block])
                case "tool_use":
                    yield from _call(_word(block, "id"), _word(block, "name"), json.dumps(block.get("input")), block)
                case "tool_result":
                    is_error = bool(block.get("is_error"))
                    yield _output(_word(block, "tool_use_id"), block.get("content"), is_error=is_error)
                case "thinking" | "redacted_thinking":
                    yield Reasoning(raw=block)
                case _ if role == "assistant":
                    yield Opaque(block)
