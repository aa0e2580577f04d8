"""Bodies and stream events of the Messages API, as tests put them together."""

from __future__ import annotations

import json
from typing import Any


def text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def call(call_id: str = "toolu_1", arguments: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "t", "input": {} if arguments is None else arguments}


def answer(*blocks: dict[str, Any], stop: Any = "end_turn", **more: Any) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "model": "m", "content": list(blocks), "stop_reason": stop, **more}


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def block(index: int, block: dict[str, Any], *deltas: dict[str, Any], stop: bool = True) -> bytes:
    body = event("content_block_start", index=index, content_block=block)
    for delta in deltas:
        body += event("content_block_delta", index=index, delta=delta)
    return body + (event("content_block_stop", index=index) if stop else b"")


def arguments(*pieces: str) -> list[dict[str, Any]]:
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def texts(*pieces: str) -> list[dict[str, Any]]:
    return [{"type": "text_delta", "text": piece} for piece in pieces]


START = event(
    "message_start",
    message={**answer(stop=None), "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1}},
)


PING = event("ping") + b": still there\n\n"


STOP = event("message_stop")


def end(reason: str | None = "tool_use") -> bytes:
    return event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 9})


def stream(*parts: bytes, stop: str | None = "tool_use") -> bytes:
    """A whole stream of these events."""
    return START + b"".join(parts) + end(stop) + STOP
