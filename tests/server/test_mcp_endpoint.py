"""The endpoint `/mcp` without a network: when the answer to a request counts as handed over, and what is done then."""

from __future__ import annotations

from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from demiurge.server import mcp_endpoint
from demiurge.server.mcp_endpoint import McpEndpoint, _AfterAnswer, _Answer, _received
from demiurge.server.response_wire import SCOPE_KEY
from demiurge.values.caller import USER

ANSWER = b'data: {"jsonrpc": "2.0", "id": 1, "result": {}}\n\n'
NOTICE = b'data: {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}\n\n'
STREAM, PLAIN = b"text/event-stream; charset=utf-8", b"application/json"


class Wire:
    """The connection of a response, which takes all or nothing."""

    def __init__(self, *, takes: bool = True, is_open: bool = True) -> None:
        self.takes, self.is_open, self.is_broken = takes, is_open, False

    async def has_taken_all(self) -> bool:
        return self.takes

    def break_off(self) -> None:
        self.is_broken = True


class Exchange:
    """A request to the endpoint. `told` is what its work was told: whether the answer was handed over."""

    def __init__(self, wire: Wire | None = None, method: str = "POST", *, works: bool = True) -> None:
        self.sent: list[Any] = []
        self.told: list[bool] = []
        self.after = _AfterAnswer(self._begin)
        if works:
            self.after.add(self.work)
        scope: Any = {"method": method, **({SCOPE_KEY: wire} if wire is not None else {})}
        self.answer = _Answer(scope, self._send, self.after)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        with pytest.raises(StopIteration):
            work.send(None)

    async def work(self, sent: bool) -> None:
        self.told.append(sent)

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    async def send(self, kind: bytes, *bodies: bytes, ends: bool = True) -> None:
        await self.answer.send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        for number, body in enumerate(bodies, 1):
            more = number < len(bodies) or not ends
            await self.answer.send({"type": "http.response.body", "body": body, "more_body": more})

    @property
    def bodies(self) -> list[bytes]:
        return [each["body"] for each in self.sent[1:]]


@pytest.mark.parametrize("kind", [STREAM, PLAIN])
@pytest.mark.parametrize(
    ("wire", "is_handed_over"),
    [
        (None, True),
        (Wire(), True),
        (Wire(takes=False), False),
        (Wire(is_open=False), False),
    ],
)
async def test_an_answer_is_handed_over_if_its_open_wire_has_taken_all(
    kind: bytes, wire: Wire | None, is_handed_over: bool
) -> None:
    it = Exchange(wire)
    body = ANSWER if kind == STREAM else ANSWER.removeprefix(b"data: ").strip()
    await it.send(kind, body)
    assert (it.told, it.bodies) == ([is_handed_over], [body])
    it.after.run(False)
    assert it.told == [is_handed_over], "once"


async def test_a_stream_may_have_other_messages_before_its_answer() -> None:
    it = Exchange(Wire())
    await it.send(STREAM, NOTICE, ends=False)
    assert it.told == []
    await it.answer.send({"type": "http.response.body", "body": ANSWER, "more_body": True})
    assert it.told == [True]
    await it.answer.send({"type": "http.response.body", "body": b"", "more_body": False})
    assert it.bodies == [NOTICE, ANSWER, b""]


async def test_a_stream_without_an_answer_is_broken_off_and_not_ended() -> None:
    wire = Wire()
    it = Exchange(wire)
    await it.send(STREAM, NOTICE, b"")
    assert (it.bodies, wire.is_broken, it.told) == ([NOTICE], True, [])
    unknown = Exchange(None)
    await unknown.send(STREAM, NOTICE, b"")
    assert unknown.bodies == [NOTICE]


@pytest.mark.parametrize(("method", "kind"), [("GET", STREAM), ("POST", PLAIN), ("DELETE", PLAIN)])
async def test_a_response_that_needs_no_answer_is_ended_without_one(method: str, kind: bytes) -> None:
    wire = Wire()
    it = Exchange(wire, method)
    await it.send(kind, NOTICE, b"")
    assert (it.bodies, wire.is_broken, it.told) == ([NOTICE, b""], False, [])


async def test_work_that_comes_after_the_end_of_its_request_is_begun_at_once() -> None:
    it = Exchange(works=False)
    due = [it.after.is_due]
    it.after.add(it.work)
    it.after.add(it.work)
    due.append(it.after.is_due)
    it.after.run(True)
    due.append(it.after.is_due)
    it.after.add(it.work)
    assert due == [False, True, False]
    assert it.told == [True, True, False]


class Gateway:
    """Stands in for the gateway and the SDK's manager. `noted`: how often a caller's catalog was noted."""

    def __init__(self) -> None:
        self.noted = 0

    def begin(self, _work: Coroutine[Any, Any, None]) -> None:
        pass

    async def note_catalog(self, _world: Any) -> None:
        self.noted += 1

    async def asgi_app(self, _scope: Any, _receive: Any, _send: Any) -> None:
        pass


class Callers:
    """Knows every caller."""

    async def session(self, _request: Request) -> Any:
        return SimpleNamespace(world=None, caller=USER, token=None)

    async def is_good(self, _session: Any) -> bool:
        return True


@pytest.mark.parametrize(("method", "noted"), [("tools/call", 1), ("tools/list", 0), (None, 0)])
async def test_the_catalog_is_noted_before_a_call_of_a_tool_alone(
    method: str | None, noted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_endpoint, "callers_of", lambda _request: Callers())
    monkeypatch.setattr(mcp_endpoint, "_user", lambda _session: None)
    endpoint, gateway = McpEndpoint(), Gateway()
    endpoint._running = cast(Any, (gateway, gateway))
    headers = [(b"mcp-method", method.encode())] if method is not None else []
    asked, _left = request("POST", b"{}")
    await endpoint({**asked.scope, "headers": headers}, asked.receive, cast(Any, asked.receive))
    assert gateway.noted == noted


def request(method: str, *parts: bytes | None) -> tuple[Request, list[Any]]:
    """A request whose body comes in these parts; None: its client goes. The list is what was not received yet."""
    left: list[Any] = [
        {"type": "http.request", "body": part, "more_body": number < len(parts)}
        if part is not None
        else {"type": "http.disconnect"}
        for number, part in enumerate(parts, 1)
    ]

    async def receive() -> Any:
        return left.pop(0)

    return Request({"type": "http", "method": method, "headers": []}, receive), left


async def test_a_body_is_received_whole_before_its_request_is_answered() -> None:
    given, left = request("POST", b"a", b"b", b"c")
    receive = await _received(given)
    assert receive is not None
    assert left == []
    left.append({"type": "http.disconnect"})
    found: list[Any] = [await receive() for _ in range(4)]
    assert [each.get("body") for each in found] == [b"a", b"b", b"c", None]


async def test_a_request_whose_client_goes_before_its_end_is_not_answered() -> None:
    given, _ = request("POST", b"a", None)
    assert await _received(given) is None
    given, left = request("GET", None)
    assert await _received(given) is not None
    assert len(left) == 1, "only the body of a POST is waited for"


async def test_of_a_body_that_is_too_large_no_more_is_received(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_endpoint, "MAX_BODY", 4)
    for parts, unread in ((("aa", "aa", "a", "b"), 1), (("aa", "aaa", "b"), 1)):
        given, left = request("POST", *(part.encode() for part in parts))
        assert await _received(given) is not None
        assert len(left) == unread
