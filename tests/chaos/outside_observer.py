"""The world outside, in the test's process: what it saw is what really happened, whatever dies.

A model provider (Responses format, streamed, in the recorded event shapes), a counter that anybody can charge, a book
of reservations, and refunds. Nothing here forgets: every request is in `seen`, in order of arrival.

The provider has no script of its own. A user message is JSON, `{"turn": name, "rounds": [[[tool, arguments], ...],
...], "say": text, "status": int}`, and says what the model shall propose: so any process may ask, in any order, after
any crash. It answers each request anew, with ids that it never used before, as real ones do: a lost answer is lost.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Outside", "Seen"]


@dataclass(frozen=True, slots=True)
class Seen:
    """One request: `what` is `model`, `charge`, `book`, `refund`, `count` or `booked`."""

    what: str
    key: str
    body: Any


@dataclass
class Outside:
    """`watch` is called with `what` and a stage: `arrived` (nothing is done yet), `done` (done, not answered)."""

    seed: int = 0
    watch: Callable[[str, str], None] = lambda _what, _stage: None
    seen: list[Seen] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Requests to the model that a real provider would refuse."""
    pause_s: float = 0.004
    """Longest pause before and after anything is done; each is drawn anew."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._random = random.Random(self.seed)
        self._numbers = iter(range(1, 1 << 60))
        self._busy: set[int] = set()
        self._quiet = threading.Condition()
        self._mine = threading.local()
        outside = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                outside._answer(self, {})

            def do_POST(self) -> None:
                outside._answer(self, json.loads(self.rfile.read(int(self.headers["content-length"]))))

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.outside = self
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    # -- what happened ------------------------------------------------------------------------------------------------

    def of(self, what: str) -> list[Seen]:
        with self._lock:
            return [seen for seen in self.seen if seen.what == what]

    def done(self, what: str) -> Counter[str]:
        """How often each order was carried out."""
        return Counter(seen.body["order"] for seen in self.of(what))

    def quiet(self) -> None:
        """Wait until all requests that have arrived are carried out."""
        with self._quiet:
            assert self._quiet.wait_for(lambda: not self._busy, 10)

    # -- requests -----------------------------------------------------------------------------------------------------

    def begin(self) -> int:
        """Number a request that has arrived."""
        with self._quiet:
            number = next(self._numbers)
            self._busy.add(number)
            return number

    @contextmanager
    def serving(self, number: int) -> Iterator[None]:
        """In the thread that serves it."""
        self._mine.number = number
        try:
            yield
        finally:
            with self._quiet:
                self._busy.discard(number)
                self._quiet.notify_all()

    def _answer(self, handler: BaseHTTPRequestHandler, body: Mapping[str, Any]) -> None:
        what = handler.path.partition("?")[0].rsplit("/", 1)[-1]
        what = {"responses": "model"}.get(what, what)
        self.watch(what, "arrived")
        self._rest()
        if what == "model":
            status, data = self._model(handler.headers.get("idempotency-key", ""), body)
        else:
            status, data = 200, json.dumps(self._act(what, handler.path.partition("?")[2], body)).encode()
        self.watch(what, "done")
        self._rest()
        try:
            handler.send_response(status)
            handler.send_header("content-type", "text/event-stream" if what == "model" else "application/json")
            handler.send_header("content-length", str(len(data)))
            handler.end_headers()
            half = len(data) // 2
            handler.wfile.write(data[:half])
            handler.wfile.flush()
            self._rest()
            handler.wfile.write(data[half:])
        except OSError:
            pass  # whoever asked is dead

    def _rest(self) -> None:
        with self._lock:
            pause = self._random.uniform(0, self.pause_s)
        time.sleep(pause)

    def _act(self, what: str, query: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if what == "booked":  # asked after a crash: what the dead have sent before is settled first
            with self._quiet:
                mine = self._mine.number
                assert self._quiet.wait_for(lambda: min(self._busy) == mine, 10)
        with self._lock:
            self.seen.append(Seen(what, query, body))
            booked = any(seen.what == "book" and seen.body["order"] == query for seen in self.seen)
            charged = sum(seen.what == "charge" for seen in self.seen)
        return {"booked": booked} if what == "booked" else {"charged": charged}

    # -- the model ----------------------------------------------------------------------------------------------------

    def _model(self, key: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        with self._lock:
            number = next(self._numbers)
            self.seen.append(Seen("model", key, body))
        items = body["input"]
        self._check(items)
        said = max(at for at, item in enumerate(items) if item.get("role") == "user")
        script = json.loads(items[said]["content"][0]["text"])
        if script.get("status"):
            error = {"error": {"message": "This request can't be served.", "type": "invalid_request_error"}}
            return script["status"], json.dumps(error).encode()
        calls_made = sum(item.get("type") == "function_call" for item in items[said:])
        for proposed in script["rounds"]:
            if calls_made <= 0:
                return 200, _stream([_call(number, at, *call) for at, call in enumerate(proposed)])
            calls_made -= len(proposed)
        return 200, _stream([_text(number, script["say"])])

    def _check(self, items: list[dict[str, Any]]) -> None:
        calls = Counter(item["call_id"] for item in items if item.get("type") == "function_call")
        outputs = Counter(item["call_id"] for item in items if item.get("type") == "function_call_output")
        if calls != outputs or any(count > 1 for count in calls.values()):
            with self._lock:
                self.wrong.append(f"calls {dict(calls)} have the answers {dict(outputs)}")


class _Server(ThreadingHTTPServer):
    """Requests are numbered in the order in which their connections were accepted."""

    daemon_threads = True
    request_queue_size = 64
    outside: Outside

    def process_request(self, request: Any, client_address: Any) -> None:
        number = self.outside.begin()
        threading.Thread(target=self._serve, args=(number, request, client_address), daemon=True).start()

    def _serve(self, number: int, request: Any, client_address: Any) -> None:
        with self.outside.serving(number):
            self.process_request_thread(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a request that was cut off in the middle


def _call(number: int, at: int, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    name = f"{number:06}_{at}"
    return {
        "type": "function_call",
        "id": f"fc_{name}",
        "call_id": f"call_{name}",
        "name": tool,
        "arguments": json.dumps(arguments),
        "status": "completed",
    }


def _text(number: int, text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {
        "type": "message",
        "id": f"msg_{number:06}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def _stream(output: list[dict[str, Any]]) -> bytes:
    """The events of an answer, as recorded in tests/wire/golden."""
    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "status": "in_progress",
        "model": "m",
        "output": [],
    }
    events: list[dict[str, Any]] = [{"type": "response.created", "response": response}]
    for index, item in enumerate(output):
        at = {"item_id": item["id"], "output_index": index}
        empty: dict[str, Any] = {"arguments": ""} if "arguments" in item else {"content": []}
        started = {**item, "status": "in_progress", **empty}
        events.append({"type": "response.output_item.added", "output_index": index, "item": started})
        if "arguments" in item:
            half = len(item["arguments"]) // 2
            kind = "response.function_call_arguments.delta"
            halves = (item["arguments"][:half], item["arguments"][half:])
            events.extend({"type": kind, **at, "delta": delta} for delta in halves)
            done = {"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]}
            events.append(done)
        else:
            text = item["content"][0]["text"]
            for start in range(0, len(text), 2000):
                delta = {"content_index": 0, "delta": text[start : start + 2000]}
                events.append({"type": "response.output_text.delta", **at, **delta})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    finished = {**response, "status": "completed", "output": output, "usage": usage}
    events.append({"type": "response.completed", "response": finished})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
