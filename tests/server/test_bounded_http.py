"""One HTTP connection, without a network: when a request is late or too large, and what its client is told."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from demiurge.server import bounded_http
from demiurge.server.bounded_http import MAX_HEAD, TOO_LATE, BoundedHttp, _OnceAMinute
from demiurge.server.options import ConnectionLimits
from demiurge.server.response_wire import ResponseWire, wire_of

LIMITS = ConnectionLimits(head_s=20, body_s=30, body_rate=512)
HEAD = b"POST /x HTTP/1.1\r\nhost: a\r\n"


class Loop:
    """The running loop, with a clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def time(self) -> float:
        return self.now_s

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio.get_running_loop(), name)


class Wire(asyncio.Transport):
    """A connection that keeps what is written. `is_aborted`: it was ended at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.is_aborted, self.is_closed = b"", False, False

    def write(self, data: Any) -> None:
        self.sent += data

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


class Connection:
    """A connection to an application that keeps each request's scope, and answers with 204 if it `answers`."""

    def __init__(self, *, answers: bool = False) -> None:
        self.scopes: list[Any] = []
        self.answers, self.lost, self.loop, self.wire = answers, 0, Loop(), Wire()
        self.http = BoundedHttp(
            uvicorn.Config(self._app, interface="asgi3", log_config=None), ServerState(), {}, LIMITS, self._on_lost
        )
        self.http.loop = self.loop  # type: ignore[assignment]
        self.http.connection_made(self.wire)

    def _on_lost(self) -> None:
        self.lost += 1

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if not self.answers:
            await asyncio.Event().wait()
        while (await receive()).get("more_body", False):
            pass
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def send(self, *data: bytes) -> None:
        for each in data:
            self.http.data_received(each)
            for _ in range(5):
                await asyncio.sleep(0)

    def late_after(self) -> float:
        """The seconds from now after which the client is late."""
        assert not self.http.is_late(self.loop.now_s)
        found = self.http._late_s
        assert found is not None
        assert not self.http.is_late(found - 0.001)
        assert self.http.is_late(found)
        return found - self.loop.now_s


async def test_the_head_of_the_first_request_has_its_time_from_the_beginning() -> None:
    it = Connection()
    assert it.late_after() == 20
    it.loop.now_s += 5
    await it.send(b"GET / HT", b"TP/1.1\r\n")
    assert it.late_after() == 15


async def test_a_body_has_its_longest_pause_and_more_for_what_has_come() -> None:
    it = Connection()
    await it.send(HEAD + b"content-length: 99999\r\n\r\n")
    assert it.late_after() == 30
    it.loop.now_s += 10
    await it.send(b"x" * 1024)
    assert it.late_after() == 22
    await it.send(b"x" * 51200)
    assert it.late_after() == 30


async def test_a_request_that_came_whole_is_never_late_and_the_next_has_its_time_from_its_first_byte() -> None:
    it = Connection(answers=True)
    await it.send(HEAD + b"content-length: 1\r\n\r\n", b"x")
    assert it.wire.sent.startswith(b"HTTP/1.1 204 ")
    assert not it.http.is_late(it.loop.now_s + 10**6)
    it.loop.now_s += 100
    await it.send(b"GE")
    assert it.late_after() == 20
    waits = Connection()
    await waits.send(HEAD + b"\r\n", b"GE")
    assert not waits.http.is_late(it.loop.now_s + 10**6), "a request runs"


async def test_a_client_from_which_the_server_takes_nothing_is_not_late() -> None:
    it = Connection()
    it.http.flow.pause_reading()
    assert not it.http.is_late(1020)
    it.http.flow.resume_reading()
    assert not it.http.is_late(1049.9)
    assert it.http.is_late(1050)


@pytest.mark.parametrize(
    ("sent", "is_told"), [(b"", False), (b"GET / HT", True), (HEAD + b"content-length: 9\r\n\r\nx", True)]
)
async def test_a_late_client_is_told_so_if_it_has_begun_a_request(sent: bytes, is_told: bool) -> None:
    it = Connection()
    if sent:
        await it.send(sent)
    it.http.end(late=True)
    assert (it.wire.sent, it.wire.is_aborted) == (TOO_LATE if is_told else b"", True)
    assert TOO_LATE == (
        b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain\r\ncontent-length: 34\r\nconnection: close\r\n\r\n"
        b"The request took too long to come."
    )


async def test_a_connection_that_makes_room_is_ended_without_a_word() -> None:
    it = Connection()
    await it.send(b"GET / HT")
    it.http.end(late=False)
    assert (it.wire.sent, it.wire.is_aborted) == (b"", True)


@pytest.mark.parametrize("more", [0, 1])
async def test_a_head_may_go_on_for_64_kib(more: int) -> None:
    it = Connection()
    await it.send(HEAD + b"x-long: ", b"y" * MAX_HEAD)
    assert it.wire.sent == b""
    await it.send(b"y" * more)
    assert it.wire.sent.startswith(b"HTTP/1.1 400 ") == it.wire.is_closed == (more == 1)
    assert it.wire.sent.endswith(b"The head of the request is too large." if more else b"")


async def test_a_body_of_any_size_is_no_head_and_what_follows_it_is_left_out() -> None:
    it = Connection()
    await it.send(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    for _ in range(3):
        await it.send(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")
    await it.send(b"0\r\nx-late: 1\r\n\r\n")
    assert it.wire.sent == b""
    assert it.scopes[0]["headers"] == [(b"host", b"a"), (b"transfer-encoding", b"chunked")]


async def test_a_connection_is_known_once_a_request_on_it_was_authenticated() -> None:
    it = Connection(answers=True)
    found = [it.http.is_known]
    await it.send(HEAD + b"\r\n")
    found.append(it.http.is_known)
    it.scopes[0]["state"]["actor"] = "user"
    found.append(it.http.is_known)
    await it.send(HEAD + b"\r\n")  # also while the next request is not
    found.append(it.http.is_known)
    assert found == [False, False, True, True]


@pytest.mark.parametrize("error", [None, OSError("broken")])
async def test_a_lost_connection_is_told_to_the_server_and_to_the_response(error: Exception | None) -> None:
    it = Connection()
    await it.send(HEAD + b"\r\n")
    wire = wire_of(it.scopes[0])
    assert isinstance(wire, ResponseWire)
    assert wire.is_open
    it.http.connection_lost(error)
    assert (wire.client_left, it.lost) == (error is not None, 1)


async def test_a_client_that_sends_no_more_has_left_its_response() -> None:
    it = Connection()
    await it.send(HEAD + b"\r\n")
    wire = wire_of(it.scopes[0])
    assert wire is not None
    it.http.eof_received()
    assert (wire.client_left, wire.is_open) == (True, False)


def test_a_warning_is_logged_again_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now_s = 10.0

        def monotonic_ns(self) -> int:
            return round(self.now_s * 10**9)

    clock, once = Clock(), _OnceAMinute()
    monkeypatch.setattr(bounded_http, "_CLOCK", clock)

    def passes(text: str, level: int = logging.WARNING) -> bool:
        return once.filter(logging.LogRecord("uvicorn.error", level, "", 1, text, (), None))

    assert [passes("bad"), passes("bad"), passes("other"), passes("bad", logging.ERROR)] == [True, False, True, True]
    clock.now_s = 69.9
    assert not passes("bad")
    clock.now_s = 70.0
    assert [passes("bad"), passes("bad")] == [True, False]
    clock.now_s = 129.9
    assert not passes("bad")
