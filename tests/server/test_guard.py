"""The guard in front of the routes: what it refuses, the headers that it adds, and its line of the access log."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from demiurge.server.errors import Refused
from demiurge.server.guard import Guard
from demiurge.server.options import ServeOptions

OPTIONS = ServeOptions(host="10.0.0.9", names=("Demiurge.Example",), max_body=10)
ALWAYS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Answered(NamedTuple):
    """An answer. `taken`: the body that the application got, None if it was not asked."""

    status: int
    headers: dict[str, str]
    body: bytes
    taken: bytes | None

    @property
    def code(self) -> str:
        return str(json.loads(self.body)["code"]) if self.body else ""


async def answered(
    path: str = "/api/x",
    method: str = "GET",
    headers: Sequence[tuple[str, str]] = (("host", "localhost"),),
    body: Sequence[bytes] = (b"",),
    options: ServeOptions = OPTIONS,
    own: Sequence[tuple[bytes, bytes]] = (),
    state: dict[str, Any] | None = None,
) -> Answered:
    taken: list[bytes] = []
    sent: list[Any] = []
    parts = list(body)

    async def receive() -> Any:
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(message)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        taken.append(b"")
        more = True
        while more:
            message = await receive()
            taken[0] += message["body"]
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": list(own)})
        await send({"type": "http.response.body", "body": b""})

    raw = [(name.encode(), value.encode()) for name, value in headers]
    scope = {"type": "http", "method": method, "path": path, "headers": raw, "query_string": b"secret"}
    await Guard(app, options)(scope | ({"state": state} if state is not None else {}), receive, send)
    start, *rest = sent
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answered(start["status"], found, b"".join(each["body"] for each in rest), taken[0] if taken else None)


async def test_every_answer_has_the_headers_that_it_does_not_have_itself() -> None:
    assert (await answered("/x")).headers == ALWAYS
    assert (await answered("/apis")).headers == ALWAYS
    assert (await answered("/api/x")).headers == {**ALWAYS, "cache-control": "no-store"}
    own = ((b"cache-control", b"private"), (b"x-frame-options", b"SAMEORIGIN"), (b"etag", b"1"))
    kept = {**ALWAYS, "cache-control": "private", "x-frame-options": "SAMEORIGIN", "etag": "1"}
    assert (await answered("/api/x", own=own)).headers == kept


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:7777", "127.0.0.1:1", "[::1]", "[::1]:7777", "10.0.0.9", "demiurge.example:443"]
)
async def test_a_request_for_a_name_of_the_server_is_answered(host: str) -> None:
    assert (await answered(headers=[("host", host)])).status == 200


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [""],
        ["evil.example"],
        ["localhost", "localhost"],
        ["localhost:port"],
        ["user@localhost"],
        ["localhost.evil"],
    ],
)
async def test_a_request_for_another_host_is_refused(hosts: list[str]) -> None:
    found = await answered(headers=[("host", host) for host in hosts])
    assert (found.status, found.taken) == (400, None)
    why = "This server does not answer under that host name; see --name."
    assert json.loads(found.body) == {"code": "bad_host", "message": why}
    assert found.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    ("origin", "more", "is_own"),
    [
        ("http://localhost:7777", {}, True),
        ("HTTP://LOCALHOST:7777", {}, True),
        ("http://localhost:7778", {}, False),
        ("http://localhost", {}, False),
        ("https://localhost:7777", {}, False),
        ("http://127.0.0.1:7777", {}, False),
        ("http://evil.example", {}, False),
        ("http://localhost:7777/", {}, False),
        ("http://user@localhost:7777", {}, False),
        ("http://localhost:port", {}, False),
        ("ftp://localhost:7777", {}, False),
        ("ftp://localhost", {}, False),
        ("null", {}, False),
        ("", {}, False),
        ("https://localhost:7777", {"x-forwarded-proto": "https"}, True),
        ("http://localhost:7777", {"x-forwarded-proto": "https"}, False),
    ],
)
async def test_a_page_of_another_site_may_read_no_answer_and_write_nothing(
    origin: str, more: dict[str, str], is_own: bool
) -> None:
    headers = [("host", "localhost:7777"), ("origin", origin), *more.items()]
    for method in ("GET", "HEAD", "OPTIONS"):
        assert (await answered(method=method, headers=headers)).status == 200
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        found = await answered(method=method, headers=headers)
        if is_own:
            assert found.status == 200
        else:
            assert (found.status, found.taken) == (403, None)
            told = {"code": "bad_origin", "message": "A page of another site may not write here."}
            assert json.loads(found.body) == told


@pytest.mark.parametrize(
    ("tls", "host", "origin", "status"),
    [
        (True, "localhost", "https://localhost", 200),
        (True, "localhost:443", "https://localhost", 200),
        (True, "localhost", "https://localhost:443", 200),
        (True, "localhost", "http://localhost", 403),
        (False, "localhost", "http://localhost:80", 200),
        (False, "localhost", "https://localhost", 403),
    ],
)
async def test_the_usual_ports_need_not_be_named(tls: bool, host: str, origin: str, status: int) -> None:
    headers = [("host", host), ("origin", origin)]
    assert (await answered(method="POST", headers=headers, options=ServeOptions(tls=tls))).status == status


@pytest.mark.parametrize(
    ("length", "body", "status", "code"),
    [
        ("10", [b"x" * 10], 200, ""),
        ("11", [b"x" * 11], 413, "too_large"),
        ("-1", [b""], 400, "bad_length"),
        ("ten", [b""], 400, "bad_length"),
        (None, [b"x" * 5, b"x" * 5], 200, ""),
        (None, [b"x" * 5, b"x" * 6], 413, "too_large"),
        ("1", [b"x" * 11], 413, "too_large"),
    ],
)
async def test_a_body_may_have_as_many_bytes_as_the_server_takes(
    length: str | None, body: list[bytes], status: int, code: str
) -> None:
    headers = [("host", "localhost"), *([("content-length", length)] if length is not None else [])]
    found = await answered(method="POST", headers=headers, body=body)
    assert (found.status, found.code) == (status, code)
    if status == 200:
        assert found.taken == b"x" * 10
    elif status == 413:
        assert json.loads(found.body)["message"] == "A request body takes at most 10 bytes."


async def test_a_refusal_after_the_beginning_of_an_answer_ends_the_connection() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise Refused(400, "late", "Too late.")

    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [(b"host", b"localhost")]}

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    with pytest.raises(Refused):
        await Guard(app, OPTIONS)(scope, receive, send)
    assert [each["type"] for each in sent] == ["http.response.start"]


async def test_a_scope_that_is_no_request_passes_as_it_is() -> None:
    passed: list[Any] = []

    async def app(*given: Any) -> None:
        passed.append(given)

    given: Any = ({"type": "lifespan"}, object(), object())
    await Guard(app, OPTIONS)(*given)
    assert passed == [given]


async def test_a_request_is_a_line_of_the_access_log_without_query_and_headers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "demiurge.server.guard")
    await answered("/api/a b\n", state={"actor": "user:ada"})
    await answered("/x", "POST", [("host", "evil.example")])
    lines = [re.sub(r"\d+\.\d ms", "<time>", record.getMessage()) for record in caplog.records]
    assert lines == ["GET /api/a%20b%0A 200 <time> user:ada", "POST /x 400 <time> -"]
    times = [float(match) for record in caplog.records for match in re.findall(r"([\d.]+) ms", record.getMessage())]
    assert all(0 <= each < 60_000 for each in times)
    caplog.clear()
    caplog.set_level(logging.WARNING, "demiurge.server.guard")
    await answered("/api/x")
    assert caplog.records == []
