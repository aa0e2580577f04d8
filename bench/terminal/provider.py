"""A provider on a loopback socket that proposes as many calls as the last message asks for: "200 7", the second number
naming the turn."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["AT_ONCE", "serving"]

AT_ONCE = 50
"""Most calls of one answer."""


def _answer(items: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The output items that come next."""
    said = max(at for at, item in enumerate(items) if item.get("role") == "user")
    words = items[said]["content"]
    text = words if isinstance(words, str) else words[0]["text"]
    wanted, number = (int(word) for word in text.split()[:2])
    done = sum(item["type"] == "function_call" for item in items[said:])
    if done >= wanted:
        part = {"type": "output_text", "text": "All done.", "annotations": []}
        return [{"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [part]}]
    return [_call(number, at) for at in range(done, min(wanted, done + AT_ONCE))]


def _call(number: int, at: int) -> dict[str, Any]:
    named = {"name": "add", "arguments": json.dumps({"a": number, "b": at}), "call_id": f"call_{number}_{at}"}
    return {"type": "function_call", "id": f"fc_{number}_{at}", "status": "completed", **named}


def _streamed(output: list[dict[str, Any]]) -> bytes:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    whole = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": output, "usage": usage}
    event = {"type": "response.completed", "response": whole}
    return f"event: response.completed\ndata: {json.dumps(event)}\n\n".encode()


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = _streamed(_answer([item for item in body["input"] if item.get("role") != "system"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@contextmanager
def serving() -> Iterator[str]:
    """The address of a provider that listens while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
