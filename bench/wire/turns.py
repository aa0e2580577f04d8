"""What a recorded request says, as neutral items: an independent reader of the three request formats, used on what
clients sent and on what our encoders make of it alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from demiurge.wire import Item, Message, Opaque, Reasoning, Text, ToolCall, ToolOutput

__all__ = ["is_paired", "items_of", "other_parts"]

_THOUGHTS = ("reasoning", "reasoning_content", "reasoning_details")


def items_of(api: str, request: Mapping[str, Any]) -> list[Item]:
    """The system's text, the messages, calls and results of a request, in order. What a person sent beside text is left
    out; in a result it is named."""
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
    """The kinds of part in a result's content that are not text."""
    parts = value if isinstance(value, list) else []
    return {part["type"] for part in parts if part["type"] not in ("text", "input_text", "output_text")}


def _text(value: Any) -> str:
    if not isinstance(value, list):
        return value or ""
    return "".join(part.get("text") or f"[{part['type']}]" for part in value)


def _said(role: str, value: Any) -> Iterator[Item]:
    parts = value if isinstance(value, list) else [{"text": value}]
    text = "".join(part.get("text") or "" for part in parts if isinstance(part, Mapping))
    if text.strip():
        yield Message(role, (Text(text),))


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _chat(request: Mapping[str, Any]) -> Iterator[Item]:
    for message in request.get("messages", ()):
        if message["role"] == "tool":
            yield ToolOutput(message["tool_call_id"], _text(message["content"]))
            continue
        thoughts = {key: message[key] for key in _THOUGHTS if message.get(key)}
        content = message.get("content")
        if isinstance(content, list) and message["role"] == "assistant":
            kept = [part for part in content if part["type"] != "text"]
            thoughts |= {"content": kept} if kept else {}
            content = [part for part in content if part["type"] == "text"]
        if thoughts:
            yield Reasoning(raw=thoughts)
        yield from _said(message["role"], content)
        for call in message.get("tool_calls") or ():
            yield ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])


def _responses(request: Mapping[str, Any]) -> Iterator[Item]:
    entries = request.get("input")
    if request.get("instructions"):
        yield Message("system", (Text(request["instructions"]),))
    for entry in [{"role": "user", "content": entries}] if isinstance(entries, str) else entries or ():
        match entry.get("type", "message"):
            case "message":
                yield from _said(entry["role"], entry["content"])
            case "function_call":
                yield ToolCall(entry["call_id"], entry["name"], _arguments(entry["arguments"]))
            case "function_call_output":
                yield ToolOutput(entry["call_id"], _text(entry["output"]))
            case "reasoning":
                yield Reasoning(raw=entry)
            case _:
                yield Opaque(entry)


def _messages(request: Mapping[str, Any]) -> Iterator[Item]:
    yield from _said("system", request.get("system"))
    for message in request.get("messages", ()):
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block["type"]:
                case "text":
                    yield from _said(message["role"], block["text"])
                case "tool_use":
                    yield ToolCall(block["id"], block["name"], json.dumps(block["input"]))
                case "tool_result":
                    yield ToolOutput(block["tool_use_id"], _text(block.get("content")), bool(block.get("is_error")))
                case "thinking" | "redacted_thinking":
                    yield Reasoning(raw=block)
                case _ if message["role"] == "assistant":
                    yield Opaque(block)
