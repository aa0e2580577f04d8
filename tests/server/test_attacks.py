"""Attacks on a server from outside: hosts, sites, cookies, logins, bodies, and texts that reach headers or streams."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import cbor2
import httpx
import pytest
from tests.provider import Provider
from tests.server.conftest import Served, serving_world
from tests.server.test_journal_stream import events

from demiurge.server import callers
from demiurge.server.callers import CODE_S, CSRF_HEADER, csrf_of
from demiurge.server.streams import StreamEvent
from demiurge.values import cbor as values_cbor

SAID = [{"role": "user", "content": [{"type": "text", "text": "x"}]}]


def code_of(link: str) -> str:
    return parse_qs(urlsplit(link).query)["code"][0]


@asynccontextmanager
async def logged_in(served: Served) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A browser that followed the login link, and its CSRF token."""
    async with served.browser(follow_redirects=False) as browser:
        yield browser, await follow(browser, served)


async def follow(browser: httpx.AsyncClient, served: Served) -> str:
    answer = await browser.get(served.server.new_login_link())
    assert answer.status_code == 303
    csrf: str = (await browser.get("/api/session")).json()["csrf"]
    return csrf


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "[::", "", "a b"])
async def test_another_host_is_refused(served: Served, host: str) -> None:
    user = await served.client()
    answer = await user.get("/api/info", headers={"host": host})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_host")


async def test_a_request_with_two_hosts_is_refused(served: Served) -> None:
    own = urlsplit(served.base).netloc
    secret = (await served.world.tokens.add("user:x", ["user"])).secret
    for hosts in ((own, "evil.example"), ("evil.example", own), (own, own)):
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(served.base).port)
        lines = [f"host: {host}" for host in hosts]
        head = ["GET /api/info HTTP/1.1", *lines, f"authorization: Bearer {secret}", "connection: close", "", ""]
        writer.write("\r\n".join(head).encode())
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"bad_host" in answer


async def test_a_login_link_works_once_and_its_cookie_is_strict(served: Served) -> None:
    link = served.server.new_login_link()
    async with served.browser() as browser:
        answer = await browser.get(link)
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "path=/" in cookie
        assert "domain" not in cookie
        assert (await browser.get("/api/session")).json()["actor"] == "user"
    async with served.browser() as other:
        again = await other.post("/api/login", json={"code": code_of(link)})
        assert (again.status_code, again.json()["code"]) == (401, "bad_login")


async def test_a_used_login_link_leads_a_person_on(served: Served) -> None:
    link = served.server.new_login_link()
    async with served.browser() as browser:
        await browser.get(link)
        again = await browser.get(link)
        assert (again.status_code, again.headers["location"]) == (303, "/")
    async with served.browser() as other:
        for path in (link, "/login"):
            answer = await other.get(path)
            assert answer.status_code == 401
            assert answer.headers["content-type"].startswith("text/html")
            assert "was used before" in answer.text
            assert '<a href="/">' in answer.text
            assert "set-cookie" not in answer.headers


async def test_a_login_code_is_good_for_ten_minutes(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    code = code_of(served.server.new_login_link())
    late = callers._now_s() + CODE_S + 1
    monkeypatch.setattr(callers, "_now_s", lambda: late)
    async with served.browser() as browser:
        assert CODE_S == 600
        assert (await browser.post("/api/login", json={"code": code})).status_code == 401


async def test_the_code_of_a_login_link_is_no_token_and_works_once(served: Served) -> None:
    code = await served.world.tokens.add_login()
    async with served.browser(headers={"authorization": f"Bearer {code}"}) as thief:
        assert (await thief.get("/api/session")).status_code == 401
    async with served.browser() as browser:
        assert (await browser.post("/api/login", json={"token": code})).status_code == 401
        logins = [browser.post("/api/login", json={"code": code}) for _ in range(3)]
        assert sorted(answer.status_code for answer in await asyncio.gather(*logins)) == [204, 401, 401]
        assert (await browser.get("/api/session")).json()["actor"] == "user"
    late = await served.world.tokens.add_login()
    async with served.browser(headers={"authorization": f"Bearer {late}"}) as thief:
        assert (await thief.get("/api/session")).status_code == 401


async def test_guesses_of_a_login_code_are_limited(served: Served) -> None:
    async with served.browser() as attacker:
        found = [(await attacker.post("/api/login", json={"code": f"{n:048x}"})).status_code for n in range(12)]
        assert found == [401] * 10 + [429] * 2
        good = await attacker.post("/api/login", json={"code": code_of(served.server.new_login_link())})
        assert good.status_code == 429


async def test_a_write_with_a_cookie_needs_the_header(served: Served) -> None:
    async with logged_in(served) as (browser, csrf):
        for headers in ({}, {CSRF_HEADER: "wrong"}, {CSRF_HEADER: csrf_of("other")}):
            refused = await browser.post("/api/chats", json={}, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (403, "bad_csrf")
        assert (await browser.post("/api/chats", json={}, headers={CSRF_HEADER: csrf})).status_code == 201
        assert (await browser.post("/api/logout", headers={CSRF_HEADER: csrf})).status_code == 204


async def test_logging_out_ends_the_session_everywhere(served: Served) -> None:
    async with logged_in(served) as (browser, csrf):
        kept = dict(browser.cookies)
        await browser.post("/api/logout", headers={CSRF_HEADER: csrf})
    async with served.browser(cookies=kept) as thief:
        assert (await thief.get("/api/session")).status_code == 401


async def test_pages_of_other_sites_may_not_write_and_get_no_cors(served: Served) -> None:
    async with logged_in(served) as (browser, csrf):
        port = urlsplit(served.base).port
        own = urlsplit(served.base).netloc
        others = ("http://evil.example", "null", f"http://127.0.0.1:{(port or 0) + 1}", f"https://evil:{port}")
        for origin in (*others, f"https://{own}", f"http://{own}/", f"http://x@{own}", own, f"ws://{own}", "http://["):
            refused = await browser.post("/api/chats", json={}, headers={CSRF_HEADER: csrf, "origin": origin})
            assert (refused.status_code, refused.json()["code"]) == (403, "bad_origin")
            read = await browser.get("/api/info", headers={"origin": origin})
            assert not [name for name in read.headers if name.startswith("access-control")]
        asked = await browser.options("/api/events", headers={"origin": "http://evil.example"})
        assert asked.status_code == 405


async def test_a_page_behind_a_proxy_that_speaks_https_may_write(provider: Provider, tmp_path: Path) -> None:
    """The proxy passes `Host` on and says with `X-Forwarded-Proto` what the browser spoke."""
    async with serving_world(tmp_path / "w", provider, names=("world.example",)) as served:
        user = await served.client()
        for host, origin, proto, status in (
            ("world.example", "https://world.example", "https", 201),
            ("world.example", "https://world.example:443", "https", 201),
            ("world.example:8443", "https://world.example:8443", "https", 201),
            ("world.example", "http://world.example", "http", 201),
            ("world.example", "http://world.example:80", None, 201),
            ("world.example", "https://world.example", None, 403),
            ("world.example", "http://world.example", "https", 403),
            ("world.example", "https://world.example:8443", "https", 403),
            ("world.example", "https://world.example", "https, http", 403),
        ):
            headers = {"host": host, "origin": origin, **({"x-forwarded-proto": proto} if proto else {})}
            answer = await user.post("/api/chats", json={}, headers=headers)
            assert answer.status_code == status, (headers, answer.text)


async def test_the_cookie_of_another_port_is_no_login(served: Served) -> None:
    secret = (await served.world.tokens.add("user:x", ["user"])).secret
    async with served.browser(cookies={"demiurge_1": secret}) as browser:
        assert (await browser.get("/api/session")).status_code == 401


async def test_a_token_that_is_over_or_revoked_is_refused(served: Served) -> None:
    brief = await served.world.tokens.add("user:brief", ["user"], days=1e-9)
    gone = await served.world.tokens.add("user:gone", ["user"])
    async with served.browser() as client:
        assert (await client.get("/api/session", headers=bearer(gone.secret))).status_code == 200
        await served.world.tokens.revoke(gone.token.id)
        for secret in (brief.secret, gone.secret, gone.token.digest, gone.token.id, "x" * 5000):
            assert (await client.get("/api/session", headers=bearer(secret))).status_code == 401


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


async def test_a_token_stands_in_no_file_of_the_world(tmp_path: Path, provider: Provider) -> None:
    async with serving_world(tmp_path / "w", provider) as served:
        made = await served.world.tokens.add("user:x", ["user"])
        async with logged_in(served) as (browser, _):
            secrets = [made.secret, *browser.cookies.values()]
        assert len(secrets) == 2
    stored = [path.read_bytes() for path in (tmp_path / "w").rglob("*") if path.is_file()]
    assert any(made.token.digest.encode() in data for data in stored)
    assert not [data for data in stored for secret in secrets if secret.encode() in data]


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%2f..%2f__init__.py",
        "/api/blob/..%2f..%2fetc%2fpasswd",
        "/api/workspace/main/file?path=../../etc/passwd",
        "/api/workspace/..%2f../file?path=a",
        "/api/state/..%2F..%2Fx",
        "/api//info",
        "/API/info",
        "/api/calls/keep.fork",
        "/api/blob/sha256:%00",
    ],
)
async def test_path_tricks_find_nothing(served: Served, path: str) -> None:
    user = await served.client()
    answer = await user.get(path)
    is_page = answer.headers["content-type"].startswith("text/html") and not path.startswith("/api")
    assert is_page or answer.status_code in (400, 404, 405, 422)
    assert "root:" not in answer.text


async def test_bodies_that_are_too_large_are_refused(tmp_path: Path, provider: Provider) -> None:
    async def pieces(count: int) -> Any:
        for _ in range(count):
            yield b"x" * 1000

    async with serving_world(tmp_path / "w", provider, max_body=4000) as served:
        user = await served.client()
        assert (await user.post("/api/blob", content=b"x" * 4000)).status_code == 201
        for content in (b"x" * 4001, pieces(5)):
            answer = await user.post("/api/blob", content=content)
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    "body",
    [
        b"\x81" * 5000 + b"\x00",
        b"\x9b" + b"\xff" * 8,
        b"\xbb" + b"\x7f" + b"\xff" * 7,
        b"\x5b" + b"\x7f" + b"\xff" * 7,
        b"\x9f" + b"\x01" * 100,
        b"\xc2\x5a\xff\xff\xff\xff",
        b"",
        b"\xa0",
        b"\x80\x80",
        cbor2.dumps([1, 2]),
        cbor2.dumps([{"actor": "user"}]),
    ],
)
async def test_bodies_of_calls_that_are_bombs_or_no_arguments_are_refused(served: Served, body: bytes) -> None:
    user = await served.client()
    answer = await user.post("/api/calls/read.keys", content=body)
    assert answer.status_code in (400, 422)


async def test_a_verification_over_http_names_no_file_of_the_server(served: Served, tmp_path: Path) -> None:
    user = await served.client()
    body = values_cbor.encode([None, [str(tmp_path / "any")]])
    answer = await user.post("/api/calls/keep.verify", content=body)
    assert (answer.status_code, values_cbor.decode(answer.content)["error"]["code"]) == (400, "server_files")
    allowed = await user.post("/api/calls/keep.verify", content=values_cbor.encode([None, []]))
    assert allowed.status_code == 200


async def test_a_caller_in_a_payload_counts_for_nothing(served: Served) -> None:
    agent = await served.client("agent")
    refused = await agent.post("/api/chats/c1/messages", json={"text": "x", "caller": {"actor": "user"}})
    assert refused.status_code == 422
    made = {"chat_id": "c", "title": "T", "created_at_ms": 1}
    value = {"$tag": "ChatCreated", "$value": made}
    where = (await agent.post("/api/events", json={"schema": "demiurge/ChatEvent@1", "value": value})).json()
    [record] = [each for each in served.world.journal.read(where["unit"]) if each.unit_seq == where["seq"]]
    assert record.stamp.actor == "user:agent"


def test_an_event_of_a_stream_stays_one_event() -> None:
    text = "a\nevent: forged\ndata: {}\n\n\r\x85\u2028"
    encoded = StreamEvent("record", {"text": text}, "7").encode().decode()
    head, _, rest = encoded.partition("data: ")
    assert head == "id: 7\nevent: record\n"
    assert rest.count("\n") == 2
    assert json.loads(rest) == {"text": text}


async def test_the_text_of_a_caller_splits_no_answer_and_forges_no_event(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Hi.")))
    user = await served.client()
    bad = {"chatId": "a\r\nset-cookie: x=1", "messages": SAID}
    assert (await user.post("/api/ai/chat", json=bad)).status_code == 422
    chat_id = "a event: forg\u00e9"
    answer = await user.post(
        "/api/ai/chat",
        json={"chatId": chat_id, "messages": SAID},
    )
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers
    assert "\n" not in answer.headers["x-demiurge-chat"]
    async with user.stream("GET", "/api/journal/stream?from=0") as response:
        seen = []
        async for event in events(response):
            if event["event"] == "heartbeat":
                break
            seen.append(event["event"])
    assert set(seen) == {"record"}


async def test_headers_that_are_too_large_end_the_connection_alone(served: Served) -> None:
    user = await served.client()
    async with served.browser() as attacker:
        try:
            status = (await attacker.get("/api/health", headers={"x": "y" * 1_000_000})).status_code
        except httpx.NetworkError:
            status = 400  # the server ended the connection before all was sent
        assert status == 400
    assert (await user.get("/api/info")).status_code == 200


async def refused_on_a_connection(served: Served, first: bytes, more: bytes) -> bytes:
    """The answer to `first` and then `more` again and again, until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(served.base).port)
    writer.write(first)
    with suppress(ConnectionError):
        while not reader.at_eof():
            writer.write(more)
            await writer.drain()
            await asyncio.sleep(0)
    writer.close()
    with suppress(ConnectionError):
        return await reader.read()
    return b""


async def test_a_head_that_never_ends_ends_the_connection(served: Served) -> None:
    host = urlsplit(served.base).netloc.encode()
    begun = b"GET /api/health HTTP/1.1\r\nhost: " + host + b"\r\n"
    chunked = b"POST /api/blob HTTP/1.1\r\nhost: " + host + b"\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n"
    piece = b"y" * 10_000
    async with asyncio.timeout(60):
        for first, more in (
            (b"GET /", piece),
            (begun + b"x: ", piece),
            (begun, b"x: " + piece + b"\r\n"),
            (chunked + b"0\r\nx: ", piece),
            (chunked + b"0\r\n", b"x: " + piece + b"\r\n"),
            (chunked + b"1;x=", piece),
        ):
            answer = await refused_on_a_connection(served, first, more)
            assert answer == b"" or b" 400 " in answer.partition(b"\r\n")[0] or b" 401 " in answer
    assert (await (await served.client()).get("/api/info")).status_code == 200


async def test_a_header_that_follows_the_body_is_no_header(served: Served) -> None:
    host = urlsplit(served.base).netloc
    secret = (await served.world.tokens.add("user:x", ["user"])).secret
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(served.base).port)
    head = f"POST /api/chats HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\nconnection: close\r\n"
    body = f"2\r\n{{}}\r\n0\r\nauthorization: Bearer {secret}\r\n\r\n"
    writer.write(f"{head}transfer-encoding: chunked\r\n\r\n{body}".encode())
    assert (await reader.read()).startswith(b"HTTP/1.1 401 ")
    writer.close()


async def test_a_body_that_never_ends_keeps_nobody_else_waiting(served: Served) -> None:
    port = urlsplit(served.base).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST /api/blob HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: 100\r\n\r\nx".encode())
    await writer.drain()
    user = await served.client()
    assert (await user.get("/api/info")).status_code == 200
    writer.close()
    assert await reader.read() is not None


async def test_the_access_log_has_no_secret(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="demiurge.server.guard"):
        link = served.server.new_login_link()
        async with logged_in(served) as (browser, csrf):
            await browser.get(link)
            await browser.get("/api/state/demiurge/Demiurge@1?key=secret%0Aforged")
            cookie = next(iter(browser.cookies.values()))
        user = await served.client()
        await user.get("/api/in%0Afo")
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("GET /api/state/demiurge/Demiurge%401 404 ") for line in lines)
    assert any(line.endswith(" ms user") for line in lines)
    text = "\n".join(lines)
    assert text.count("\n") == len(lines) - 1
    for secret in (code_of(link), cookie, csrf, "forged"):
        assert secret not in text


async def test_every_answer_forbids_sniffing_framing_and_foreign_code(served: Served) -> None:
    user = await served.client()
    for path in ("/api/info", "/api/health", "/api/nothing", "/", "/login?code=x"):
        headers = (await user.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "server" not in headers
