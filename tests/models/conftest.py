"""A provider on a real loopback socket that answers from a script and counts what it was asked."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass(frozen=True)
class Seen:
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    """`chunks` are written as they are; `hang` keeps the socket open after
    them until the asker closes it, `silent` sends not even a status, `drip` is sent again and again."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    chunks: tuple[bytes, ...] = ()
    length: int | None = None
    hang: bool = False
    silent: bool = False
    drip: bytes = b""


class ScriptedServer:
    """Answers each request with the next answer of the script; the last one is repeated."""

    def __init__(self) -> None:
        self.script: list[Answer] = []
        self.seen: list[Seen] = []
        self.let_go = threading.Event()
        self.left = threading.Event()
        """Set when the asker closed a connection that hangs."""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._main = threading.Thread(target=self._accept, daemon=True)
        self._main.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    def close(self) -> None:
        self.let_go.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._main.join()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reader:
            first = reader.readline().decode().split()
            if len(first) < 2:
                return
            headers = {}
            while (line := reader.readline().decode().strip()) != "":
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            body = reader.read(int(headers.get("content-length", "0")))
            answer = self.script[min(len(self.seen), len(self.script) - 1)]
            self.seen.append(Seen(first[1], headers, json.loads(body) if body else None))
            try:
                self._write(connection, answer)
            except OSError:
                return

    def _write(self, connection: socket.socket, answer: Answer) -> None:
        if not answer.silent:
            head = {"Connection": "close", **answer.headers}
            if answer.length is not None:
                head["Content-Length"] = str(answer.length)
            lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
            connection.sendall(f"HTTP/1.1 {answer.status} X\r\n{lines}\r\n".encode())
            for chunk in answer.chunks:
                connection.sendall(chunk)
        while answer.drip and not self.let_go.wait(0.01):
            connection.sendall(answer.drip)
        while answer.hang and not self.let_go.is_set():
            readable, _, _ = select.select([connection], [], [], 0.05)
            if readable and not connection.recv(1):
                self.left.set()
                return


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    running = ScriptedServer()
    yield running
    running.close()


def _sse(*events: object) -> bytes:
    return b"".join(
        b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n" for event in events
    )


def _chat_text(*deltas: str, finish: str = "stop") -> Answer:
    """A streamed chat completion that says `deltas`."""
    said = [{"id": "c", "choices": [{"index": 0, "delta": {"content": delta}}]} for delta in deltas]
    end = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    usage = {"id": "c", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}}
    return Answer(
        headers={"Content-Type": "text/event-stream"}, chunks=(_sse(*said), _sse(end, usage), _sse(b"[DONE]"))
    )


@pytest.fixture
def answer() -> type[Answer]:
    return Answer


@pytest.fixture
def sse() -> Callable[..., bytes]:
    return _sse


@pytest.fixture
def chat_text() -> Callable[..., Answer]:
    return _chat_text
