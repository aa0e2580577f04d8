"""A model provider on a loopback socket: it says what a test tells it to, in the recorded Responses shapes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "wire" / "golden"
ASKS_FOR_TITLE = "Name the conversation that the next message begins"
LONGEST_S = 30.0
"""How long an answer is held at most."""


@dataclass(frozen=True)
class Answer:
    """What the provider says to one request; a `held` answer comes when the test lets it go, if ever."""

    body: bytes
    status: int = 200
    kind: str = "text/event-stream"
    held: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


REFUSED_TITLE = Answer(b'{"error": {"message": "This test names no chats."}}', 400, "application/json")


def asks_for_title(body: Any) -> bool:
    """Returns whether the JSON body of a request asks a model for the title of a chat."""
    return ASKS_FOR_TITLE in json.dumps(body)


def responses(*items: Mapping[str, Any], held: bool = False) -> Answer:
    """A streamed answer of the Responses API with these output items."""
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    whole = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": items, "usage": usage}
    events: list[dict[str, Any]] = []
    for item in items:
        if item["type"] == "message":
            place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            for word in item["content"][0]["text"].split(" "):
                events.append({"type": "response.output_text.delta", "delta": word, **place})
                events.append({"type": "response.output_text.delta", "delta": " ", **place})
            events.pop()
    events.append({"type": "response.completed", "response": whole})
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Answer(body.encode(), held=held)


def text(said: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": said, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def call(name: str, arguments: Mapping[str, Any], call_id: str = "call_1") -> dict[str, Any]:
    named = {"name": name, "arguments": json.dumps(arguments), "call_id": call_id}
    return {"type": "function_call", "id": f"fc_{call_id}", "status": "completed", **named}


def recorded(name: str) -> Answer:
    """A recording of tests/wire/golden."""
    golden = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    kind = "text/event-stream" if golden["stream"] else "application/json"
    return Answer(golden["body"].encode(), golden["status"], kind)


@dataclass
class Provider:
    """Answers in order; the last answer again and again. Its functions make answers and their parts. A request for the
    title of a chat takes no answer of the script: it is answered with `title`, or refused."""

    answer = staticmethod(responses)
    text = staticmethod(text)
    call = staticmethod(call)
    recorded = staticmethod(recorded)
    raw = Answer

    url: str = ""
    title: str | None = None
    script: list[Answer] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)

    def say(self, *answers: Answer) -> None:
        self.script[:] = answers
        self.seen.clear()
        self.asked.clear()

    def named(self, body: Any) -> Answer | None:
        """The answer to a request for a title; None for any other request."""
        if not asks_for_title(body):
            return None
        return REFUSED_TITLE if self.title is None else responses(text(self.title))

    def next(self, body: Any, key: str) -> Answer:
        self.seen.append(body)
        self.keys.append(key)
        self.asked.set()
        return self.script[min(len(self.seen), len(self.script)) - 1]


@contextmanager
def serving(provider: Provider | None = None) -> Iterator[Provider]:
    """A provider that listens while the block runs."""
    running = provider if provider is not None else Provider()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = running.named(body) or running.next(body, self.headers.get("authorization", ""))
            if answer.held:
                running.let_go.wait(LONGEST_S)
            try:
                self.send_response(answer.status)
                self.send_header("content-type", answer.kind)
                self.send_header("content-length", str(len(answer.body)))
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)
            except OSError:
                return  # the asker has gone, which is what some tests are about

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    running.url = f"http://127.0.0.1:{server.server_port}/v1"
    yield running
    running.let_go.set()
    server.shutdown()
    server.server_close()
    thread.join()
