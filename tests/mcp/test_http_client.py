"""The HTTP client under a server's connection: what stands for a failed request, what is noted of it, and what is read
of an answer."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from demiurge.errors import Unavailable
from demiurge.mcp.flow import CallNote, noting
from demiurge.mcp.http_client import BoundedHttpClient

URL = "https://mcp.example:8443/mcp"
LIMIT = 100

Handler = Callable[[httpx2.Request], httpx2.Response]


@asynccontextmanager
async def client_of(handler: Handler, url: str = URL) -> AsyncIterator[BoundedHttpClient]:
    """A client whose requests `handler` answers in place of a network."""
    async with BoundedHttpClient(url, LIMIT, {"x-own": "1"}, None) as client:
        client._transport = httpx2.MockTransport(handler)
        client._mounts = {}
        yield client


def failing(error: Exception) -> Handler:
    def handler(_request: httpx2.Request) -> httpx2.Response:
        raise error

    return handler


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def answering(status: int = 200, kind: str = "application/json", body: bytes = b"{}", **headers: str) -> Handler:
    named = {"content-type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return lambda _request: httpx2.Response(status, headers=named, content=body)


async def noted(handler: Handler, url: str = URL, method: str = "POST") -> CallNote:
    note = CallNote()
    async with client_of(handler) as client:
        with noting(note):
            await client.request(method, url)
    return note


CERTIFICATE = ssl.SSLCertVerificationError()
CERTIFICATE.verify_message = "self-signed certificate"


@pytest.mark.parametrize(
    ("error", "is_sent", "why"),
    [
        (caused(httpx2.ConnectError("x"), socket.gaierror()), False, "The network does not know the name mcp.example."),
        (
            caused(httpx2.ConnectError("x"), ConnectionRefusedError()),
            False,
            "Nothing listens at mcp.example:8443.",
        ),
        (httpx2.ConnectTimeout("x"), False, "mcp.example:8443 did not answer in time."),
        (httpx2.PoolTimeout("x"), False, "mcp.example:8443 did not answer in time."),
        (
            caused(httpx2.ConnectError("x"), CERTIFICATE),
            False,
            "The certificate of mcp.example:8443 is not accepted: self-signed certificate.",
        ),
        (
            caused(httpx2.ConnectError("x"), ssl.SSLError()),
            False,
            "mcp.example:8443 does not speak TLS, which an https address needs.",
        ),
        (httpx2.ReadTimeout("x"), True, "mcp.example:8443 did not answer in time."),
        (httpx2.ReadError("secret words"), True, "The request to mcp.example:8443 failed: ReadError."),
        (httpx2.InvalidURL("secret words"), True, "The request to mcp.example:8443 failed: InvalidURL."),
        (ValueError("secret words"), True, "The request to mcp.example:8443 failed: ValueError."),
        (Unavailable("The token is not here.", code="x"), True, "The token is not here."),
    ],
)
async def test_a_failed_request_is_an_answer_and_its_reason_a_sentence(
    error: Exception, is_sent: bool, why: str
) -> None:
    note = CallNote()
    async with client_of(failing(error)) as client:
        with noting(note):
            answer = await client.post(URL)
        assert client.last_problem == why
    assert (answer.status_code, answer.headers["content-type"]) == (502, "application/json")
    said = {"code": -32000, "message": "the request failed"}
    assert json.loads(answer.content) == {"jsonrpc": "2.0", "id": None, "error": said}
    assert note == CallNote(sent=is_sent, is_answer=False, problem=why)


@pytest.mark.parametrize(("url", "port"), [("https://mcp.example/mcp", 443), ("http://mcp.example/mcp", 80)])
async def test_the_port_of_an_address_without_one_is_said(url: str, port: int) -> None:
    async with client_of(failing(caused(httpx2.ConnectError("x"), ConnectionRefusedError())), url) as client:
        await client.post(url)
        assert client.last_problem == f"Nothing listens at mcp.example:{port}."


class Login(httpx2.Auth):
    """A login that asks another address first."""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        yield httpx2.Request("POST", "https://elsewhere.example/secret")
        yield request


async def test_an_address_that_the_server_named_is_not_said() -> None:
    async with client_of(failing(httpx2.ConnectError("x"))) as client:
        client.auth = Login()
        note = CallNote(sent=True)
        with noting(note):
            await client.post(URL)
        assert client.last_problem == "A request to another address of the server failed: ConnectError."
    assert note.sent, "the failure of another address says nothing about the endpoint"


async def test_an_unexpected_error_of_a_stream_is_raised() -> None:
    async with client_of(failing(ValueError("x"))) as client:
        with pytest.raises(ValueError, match="x"):
            await client.get(URL)


async def test_the_first_problem_of_a_call_is_kept() -> None:
    note = CallNote(problem="The first.")
    async with client_of(failing(httpx2.ReadTimeout("x"))) as client:
        with noting(note):
            await client.post(URL)
    assert note.problem == "The first."


async def test_a_connection_makes_sixty_streams_at_most() -> None:
    async with client_of(answering(kind="text/event-stream", body=b"")) as client:
        for _ in range(60):
            assert (await client.get(URL)).status_code == 200
        with pytest.raises(httpx2.ConnectError, match="too many streams"):
            await client.get(URL)
        assert (await client.post(URL)).status_code == 200


async def test_requests_ask_for_answers_that_are_not_compressed() -> None:
    seen: list[httpx2.Headers] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.headers)
        return httpx2.Response(200, headers={"content-encoding": "gzip", "content-type": "application/json"})

    async with client_of(handler) as client:
        assert (await client.post(URL)).status_code == 502
        assert client.last_problem == "The request to mcp.example:8443 failed: DecodingError."
    assert (seen[0]["accept-encoding"], seen[0]["x-own"]) == ("identity", "1")


@pytest.mark.parametrize("coding", ["", "identity", "Identity"])
async def test_an_answer_that_is_not_compressed_is_read(coding: str) -> None:
    assert not (await noted(answering(content_encoding=coding))).problem


@pytest.mark.parametrize(
    ("handler", "url", "expected"),
    [
        (answering(), URL, CallNote(sent=True, taken=True)),
        (answering(kind="Application/JSON; charset=utf-8"), URL, CallNote(sent=True, taken=True)),
        (answering(kind="text/event-stream", body=b""), URL, CallNote(sent=True, taken=True)),
        (answering(202, "text/plain"), URL, CallNote(sent=True, taken=True, is_answer=False)),
        (answering(200, "text/html"), URL, CallNote(sent=True, taken=True, is_answer=False)),
        (answering(299), URL, CallNote(sent=True, taken=True, is_answer=False)),
        (answering(300), URL, CallNote(sent=True, is_answer=False)),
        (answering(399), URL, CallNote(sent=True, is_answer=False)),
        (answering(400), URL, CallNote(sent=True, status=400)),
        (answering(404, "text/html"), URL, CallNote(sent=True, status=404, is_answer=False)),
        (answering(503), URL, CallNote(sent=True, status=503)),
        (answering(), "https://mcp.example:8443/token", CallNote(sent=True, taken=True)),
        (answering(401), "https://login.example/token", CallNote()),
        (answering(401), "http://mcp.example:8443/mcp", CallNote()),
        (answering(401), "https://mcp.example/mcp", CallNote()),
    ],
)
async def test_an_answer_is_noted_with_its_status_and_its_kind(handler: Handler, url: str, expected: CallNote) -> None:
    assert await noted(handler, url) == expected


@pytest.mark.parametrize(("url", "status"), [(URL, 503), ("https://login.example/token", None)])
async def test_the_status_of_the_last_error_of_the_endpoint_is_kept(url: str, status: int | None) -> None:
    async with client_of(answering(503)) as client:
        await client.post(url)
        assert client.last_status == status


async def test_a_failure_after_an_answer_has_begun_is_not_noted() -> None:
    note = CallNote(sent=True, taken=True)
    async with client_of(failing(httpx2.ConnectError("x"))) as client:
        with noting(note):
            await client.post(URL)
    assert note == CallNote(sent=True, taken=True)


def events(*sizes: int) -> bytes:
    """A stream of events, each with so many bytes without its empty line."""
    return b"".join(b"d" * size + b"\n\n" for size in sizes)


@pytest.mark.parametrize(
    ("kind", "body", "is_read"),
    [
        ("application/json", b"x" * 100, True),
        ("application/json", b"x" * 101, False),
        ("text/event-stream", events(*[98] * 4), True),
        ("text/event-stream", events(*[98] * 4) + b"d", False),
    ],
)
async def test_an_answer_is_read_up_to_its_limit(kind: str, body: bytes, is_read: bool) -> None:
    note = CallNote()
    async with client_of(
        lambda _request: stream_of(kind, [body[n : n + 50] for n in range(0, len(body), 50)])
    ) as client:
        with noting(note):
            answer = await client.post(URL)
    assert (answer.status_code, note.too_large) == ((200, False) if is_read else (502, True))


@pytest.mark.parametrize(
    ("chunks", "is_read"),
    [
        ([b"d" * 98 + b"\n\n"] * 6, True),
        ([b"d" * 101, b"\n\n"], False),
        ([b"d" * 60 + b"\r\n\r\n" + b"d" * 60, b"d" * 30], True),
        ([b"d" * 60, b"d" * 41], False),
    ],
)
async def test_a_stream_without_an_end_is_bounded_from_one_event_to_the_next(
    chunks: list[bytes], is_read: bool
) -> None:
    """A stream that a client opened with GET has no limit as a whole, and none here for one event."""
    async with client_of(lambda _request: stream_of("text/event-stream", chunks)) as client:
        assert (await client.get(URL)).status_code == 200
        listening = await client.post(URL, headers={"mcp-method": "subscriptions/listen"})
        assert listening.status_code == 200
        other: Any = await client.post(URL, headers={"mcp-method": "tools/call"})
        assert other.status_code == (200 if is_read and sum(map(len, chunks)) <= 4 * LIMIT else 502)


async def test_an_answer_that_ends_early_is_an_error_of_the_stream() -> None:
    async with client_of(lambda _request: stream_of("application/json", [b"{", httpx2.ReadError("x")])) as client:
        assert (await client.post(URL)).status_code == 502
        assert client.last_problem == "The request to mcp.example:8443 failed: StreamError."


def stream_of(kind: str, chunks: list[Any]) -> httpx2.Response:
    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    return httpx2.Response(200, headers={"content-type": kind}, content=body())
