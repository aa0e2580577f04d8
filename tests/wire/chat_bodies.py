"""Bodies and stream chunks of the Chat Completions API, as tests put them together."""

from __future__ import annotations

import json
from typing import Any


def call(call_id: str = "call_1", arguments: Any = "{}", name: str = "t") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def answer(finish: str | None = "stop", **message: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "finish_reason": finish,
        "message": {"role": "assistant", "content": None, **message},
    }
    return {"id": "c_1", "object": "chat.completion", "model": "m", "choices": [choice]}


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c_1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def part(arguments: str | None = None, *, index: int | None = 0, **more: Any) -> dict[str, Any]:
    """One chunk with one fragment of a call."""
    function = {key: more.pop(key) for key in ("name",) if key in more}
    if arguments is not None:
        function["arguments"] = arguments
    where = {} if index is None else {"index": index}
    return chunk(tool_calls=[{**where, **more, "function": function}])


def stream(*chunks: dict[str, Any], done: bool = True) -> bytes:
    text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return (text + ("data: [DONE]\n\n" if done else "")).encode()
