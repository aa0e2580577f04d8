"""The limits of a server's connections: clients that send nothing, or slowly, keep nobody with a token out."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from tests.provider import Provider
from tests.server import conftest
from tests.server.conftest import LONGEST_S, Served, serving_world
from tests.server.test_journal_stream import events

from demiurge.server import http_connections
from demiurge.server.options import ConnectionLimits, ServeOptions

NO_TIME = ConnectionLimits(head_s=0.05, body_s=0.05)
"""A request that is not there at once is late."""


@asynccontextmanager
async def limited(tmp_path: Path, provider: Provider, limits: ConnectionLimits) -> AsyncIterator[Served]:
    async with serving_world(tmp_path / "w", provider, limits=limits) as served:
        yield served


async def opened(served: Served, *sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(served.base).port)
    writer.writelines(sent)
    return reader, writer


async def answer_of(served: Served, *sent: bytes) -> bytes:
    """All that a connection gets until the server ends it."""
    return await rest_of(*await opened(served, *sent))


async def rest_of(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    async with asyncio.timeout(LONGEST_S):
        try:
            return await reader.read()
        except ConnectionError:
            return b"reset"
        finally:
            writer.close()


async def test_a_connection_whose_request_does_not_come_is_ended(
    tmp_path: Path, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    async with limited(tmp_path, provider, NO_TIME) as served:
        host = f"host: {urlsplit(served.base).netloc}\r\n".encode()
        secret = (await served.world.tokens.add("user:x", ["user"])).secret
        post = b"POST /api/blob HTTP/1.1\r\n" + host + f"authorization: Bearer {secret}\r\n".encode()

        async def after_an_answer(more: bytes) -> bytes:
            reader, writer = await opened(served, b"GET /api/health HTTP/1.1\r\n" + host + b"\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            writer.write(more)
            return await rest_of(reader, writer)

        found = await asyncio.gather(
            answer_of(served),
            answer_of(served, b"GET / HT"),
            answer_of(served, b"GET / HTTP/1.1\r\n", host),
            answer_of(served, post, b"content-length: 9\r\n\r\nx"),
            answer_of(served, post, b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n"),
            after_an_answer(b"GET / "),
            after_an_answer(b"\r\n"),
        )
    assert found[0] == b""
    for said in found[1:]:
        assert said.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert said.endswith(b"\r\n\r\nThe request took too long to come.")
    assert "Traceback" not in caplog.text


async def test_a_body_has_to_come_at_some_speed(tmp_path: Path, provider: Provider) -> None:
    async with limited(tmp_path, provider, ConnectionLimits(body_s=0.2, body_rate=10**6)) as served:
        host = f"host: {urlsplit(served.base).netloc}\r\n".encode()
        reader, writer = await opened(served, b"POST /api/blob HTTP/1.1\r\n", host, b"content-length: 99999\r\n\r\n")

        async def dribble() -> None:
            with suppress(ConnectionError):
                while True:  # no pause is long
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.01)

        writing = asyncio.create_task(dribble())
        await rest_of(reader, writer)
        await writing


async def test_a_body_may_pause_for_as_long_as_its_limit_allows(tmp_path: Path, provider: Provider) -> None:
    async with limited(tmp_path, provider, ConnectionLimits(body_s=LONGEST_S, body_rate=1)) as served:
        secret = (await served.world.tokens.add("user:x", ["user"])).secret
        head = f"POST /api/blob HTTP/1.1\r\nhost: {urlsplit(served.base).netloc}\r\nconnection: close\r\n"
        head += f"authorization: Bearer {secret}\r\ncontent-length: 2\r\n\r\n"
        reader, writer = await opened(served, head.encode(), b"x")
        await asyncio.sleep(1.2)  # the server looks each second
        writer.write(b"y")
        assert (await rest_of(reader, writer)).startswith(b"HTTP/1.1 201 ")


async def test_an_answer_may_take_as_long_as_it_takes(tmp_path: Path, provider: Provider) -> None:
    async with limited(tmp_path, provider, NO_TIME) as served:
        user = await served.client()
        async with user.stream("GET", "/api/journal/stream?from=0") as stream:
            beats = 0
            async for event in events(stream):  # a heartbeat comes each 0.2 s, and late connections end each second
                beats += event["event"] == "heartbeat"
                if beats == 8:
                    break
        assert beats == 8


async def test_the_oldest_connection_without_a_token_makes_room(
    tmp_path: Path, provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with limited(tmp_path, provider, ConnectionLimits(40)) as served:  # five at an address
        user = await served.client()
        async with user.stream("GET", "/api/journal/stream?from=0") as stream:
            following = events(stream)
            await anext(following)  # its connection is the oldest, and known
            silent = [await opened(served) for _ in range(50)]
            async with asyncio.timeout(LONGEST_S):
                for reader, _ in silent[:-5]:
                    assert await reader.read() == b""
            for reader, _ in silent[-5:]:
                assert not reader.at_eof()
            await user.post("/api/chats", json={})
            async for event in following:
                if event["event"] == "record":
                    break
            for _, writer in silent:
                writer.close()
    lines = [record.getMessage() for record in caplog.records if record.name == "demiurge.server.http_connections"]
    assert len(lines) == 1
    assert "without a valid token ended, to make room for new ones" in lines[0]


async def test_callers_with_a_token_may_hold_every_connection(tmp_path: Path, provider: Provider) -> None:
    async with limited(tmp_path, provider, ConnectionLimits(16)) as served:
        host = f"host: {urlsplit(served.base).netloc}\r\n".encode()
        secret = (await served.world.tokens.add("user:x", ["user"])).secret
        request = b"GET /api/info HTTP/1.1\r\n" + host + f"authorization: Bearer {secret}\r\n\r\n".encode()
        held = []
        for _ in range(16):
            reader, writer = await opened(served, request)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            held.append(writer)
        assert await answer_of(served, request) in (b"", b"reset")
        held.pop().close()
        async with asyncio.timeout(LONGEST_S):
            while not (await answer_of(served, request.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))):
                await asyncio.sleep(0)
        for writer in held:
            writer.close()


async def test_accepting_pauses_when_no_file_descriptor_is_left(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(http_connections, "PAUSE_S", 0.01)
    tries = 0

    class Exhausted(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            nonlocal tries
            tries += 1
            if tries <= 20:
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    monkeypatch.setattr(conftest, "socket", SimpleNamespace(**{**vars(socket), "socket": Exhausted}))
    async with limited(tmp_path, provider, ConnectionLimits()) as served:
        user = await served.client()
        assert (await user.get("/api/info")).status_code == 200
    assert tries > 20
    [line] = [record.getMessage() for record in caplog.records if "Too many open files" in record.getMessage()]
    assert line.startswith("Connections: ")


async def test_connections_that_were_ended_are_one_line_of_the_log_in_a_minute(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    def lines() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.name == "demiurge.server.http_connections"]

    async with limited(tmp_path, provider, NO_TIME) as served, asyncio.timeout(LONGEST_S):
        await answer_of(served, b"GET / HT")
        while not lines():  # the server looks each second
            await asyncio.sleep(0.05)
        for _ in range(2):
            await answer_of(served, b"GET / HT")
        await asyncio.sleep(1.2)
        first = lines()
    ended = "ended, because a request took too long to come"
    assert first == [f"Connections: 1 {ended}."]
    assert lines() == [*first, f"Connections: 2 {ended}."]


@pytest.mark.parametrize(
    ("descriptors", "most"), [(resource.RLIM_INFINITY, 4096), (10**6, 4096), (1000, 500), (20, 16)]
)
def test_half_of_the_file_descriptors_are_for_connections(
    descriptors: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda kind: {resource.RLIMIT_NOFILE: (descriptors, 10**9)}[kind])
    limits = ServeOptions().limits
    assert (limits.most, limits.anonymous, limits.anonymous_at_address) == (most, most // 2, most // 8)


async def test_warnings_of_bad_requests_come_once_a_minute(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(5):
        assert (await answer_of(served, b"\x16\x03\x01\r\n\r\n")).startswith(b"HTTP/1.1 400")
    assert len([record for record in caplog.records if record.name == "uvicorn.error"]) <= 1
