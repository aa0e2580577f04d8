"""The command line, run in this process or in one of its own, and a provider on a loopback socket to talk to."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from demiurge.cli import main

GOLDEN = Path(__file__).parent.parent / "wire" / "golden"
KEY = "sk-test-0123456789abcdef"
QUICK = 30.0


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What was printed, which must be one JSON document and nothing else."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Answer:
    """What the provider says to one request; a `held` answer comes when the test lets it go, if ever."""

    body: bytes
    status: int = 200
    kind: str = "text/event-stream"
    held: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


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
    """Answers in order; the last answer again and again. Its functions make answers and their parts."""

    answer = staticmethod(responses)
    text = staticmethod(text)
    call = staticmethod(call)
    recorded = staticmethod(recorded)
    raw = Answer

    url: str = ""
    script: list[Answer] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)

    def say(self, *answers: Answer) -> None:
        self.script[:] = answers
        self.seen.clear()
        self.asked.clear()

    def next(self, body: Any, key: str) -> Answer:
        self.seen.append(body)
        self.keys.append(key)
        self.asked.set()
        return self.script[min(len(self.seen), len(self.script)) - 1]


@pytest.fixture
def provider() -> Iterator[Provider]:
    running = Provider()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = running.next(body, self.headers.get("authorization", ""))
            if answer.held:
                running.let_go.wait(QUICK)
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


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Where the test's world is, or will be."""
    return tmp_path / "world"


@pytest.fixture
def environment(world: Path, provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What commands find in the environment: a key, the provider, the world; nothing of the machine's own."""
    for name in ("OPENAI_API_KEY", "DEMIURGE_LOCAL_MODEL", "NO_COLOR", "DEMIURGE_FAULTS"):
        monkeypatch.delenv(name, raising=False)
    given = {
        "LLM_API_KEY": KEY,
        "OPENAI_BASE_URL": provider.url,
        "DEMIURGE_WORLD": str(world),
        "DEMIURGE_CACHE": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return dict(os.environ)


@pytest.fixture(autouse=True)
def _quiet_logging() -> Iterator[None]:
    """Each run sets its own logging up."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)


Run = Callable[..., Done]


@pytest.fixture
def demiurge(environment: dict[str, str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process: `demiurge("blob", "put", "x", stdin=b"...")`."""

    def run(*arguments: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        out, err = capfd.readouterr()
        assert isinstance(leaving.value.code, int)
        return Done(leaving.value.code, out, err)

    return run


@dataclass(frozen=True)
class Processes:
    """Commands in processes of their own; `given` is added to their environment."""

    environment: Mapping[str, str]

    def __call__(self, *arguments: str, stdin: str = "", given: Mapping[str, str] | None = None) -> Done:
        return self.finish(self.start(*arguments, given=given), stdin)

    def start(self, *arguments: str, given: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "demiurge.cli", *arguments]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | options
        return subprocess.Popen(command, env={**self.environment, **(given or {})}, text=True, **pipes)

    def finish(self, process: subprocess.Popen[str], stdin: str | None = None) -> Done:
        out, err = process.communicate(stdin, timeout=QUICK)
        return Done(process.returncode, out, err)


@pytest.fixture
def process(environment: dict[str, str]) -> Processes:
    return Processes(environment)
