"""Readers of the journal's stream that take nothing, are cut off, lose their token, or see the server stop."""

from __future__ import annotations

import asyncio
import random
import re
import socket
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.server.conftest import Served
from tests.server.test_journal_stream import CHAT, events, make_chat

from demiurge.server import streams
from demiurge.server.streams import EventStream, StreamEvent

ID = re.compile(rb"^id: (\d+)$", re.MULTILINE)


async def test_a_reader_that_takes_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STALL_S", 0.05)
    sent: list[bytes] = []
    closed = asyncio.Event()

    async def source() -> AsyncGenerator[bytes, None]:
        try:
            for number in range(100):
                yield StreamEvent("record", {}, str(number)).encode()
        finally:
            closed.set()

    async def send(message: Any) -> None:
        if len(sent) == 3:
            await asyncio.Event().wait()
        sent.append(message.get("body", b""))

    async def receive() -> Any:
        await asyncio.Event().wait()

    stream = EventStream(source(), heartbeat_s=10, closing=asyncio.Event())
    async with asyncio.timeout(20):
        await stream({"type": "http"}, receive, send)
    assert closed.is_set()
    assert sent[-1].startswith(b"id: 0\n")


async def connect(served: Served, client: httpx.AsyncClient, query: str) -> tuple[socket.socket, bytes]:
    """A connection with small buffers, on which a stream was asked for, and its first bytes."""
    address = urlsplit(served.base)
    loop = asyncio.get_running_loop()
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await loop.sock_connect(connection, (address.hostname, address.port))
    head = f"GET /api/journal/stream{query} HTTP/1.1\r\nhost: {address.netloc}\r\n"
    token = client.headers["authorization"]
    await loop.sock_sendall(connection, f"{head}authorization: {token}\r\n\r\n".encode())
    return connection, await loop.sock_recv(connection, 4096)


async def rest_of(connection: socket.socket) -> bytes:
    """What is still in the buffers of a connection that the server has ended."""
    found = b""
    while piece := await asyncio.get_running_loop().sock_recv(connection, 65536):
        found += piece
    connection.close()
    return found


async def positions_from(client: httpx.AsyncClient, last_id: int, upto: int) -> list[int]:
    """The positions that a reader sees who comes back with the id that it saw last."""
    found: list[int] = []
    async with client.stream("GET", "/api/journal/stream", headers={"last-event-id": str(last_id)}) as response:
        async for event in events(response):
            if event["event"] == "record":
                found.append(int(event["id"]))
                if found[-1] == upto:
                    break
    return found


async def length(client: httpx.AsyncClient) -> int:
    return int((await client.get("/api/journal/head")).json()["length"])


async def test_a_dropped_reader_comes_back_and_nobody_else_waits(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "STALL_S", 0.3)
    user = await served.client()
    slow, begun = await connect(served, user, "?from=1")
    title = "x" * 200_000  # so much that the buffers between the two cannot hold it
    made = {"chat_id": "long", "title": title, "created_at_ms": 1}
    for _ in range(40):
        await user.post("/api/events", json={"schema": CHAT, "value": {"$tag": "ChatCreated", "$value": made}})
    last = await length(user)
    async with asyncio.timeout(60):
        assert await positions_from(user, 0, last) == list(range(1, last + 1))
        seen = [int(position) for position in ID.findall(begun + await rest_of(slow))]
        assert seen == list(range(1, len(seen) + 1))
        assert len(seen) < last
        # the last event may have been cut: a browser forgets one that did not end
        assert await positions_from(user, seen[-2], last) == list(range(seen[-2] + 1, last + 1))


@pytest.mark.parametrize("seed", range(3))
async def test_a_connection_that_is_cut_again_and_again_loses_nothing(served: Served, seed: int) -> None:
    draw = random.Random(seed)
    user = await served.client()

    async def post_all() -> int:
        for number in range(30):
            await make_chat(user, f"chat-{number}")
        return await length(user)

    posting = asyncio.create_task(post_all())
    seen = [0]
    async with asyncio.timeout(60):
        while not (posting.done() and seen[-1] == posting.result()):
            headers = {"last-event-id": str(seen[-1])}
            left = draw.randrange(1, 12)
            async with user.stream("GET", "/api/journal/stream?frames=true", headers=headers) as response:
                async for event in events(response):
                    if event["event"] == "record":
                        seen.append(int(event["id"]))
                        left -= 1
                    if left == 0 or (posting.done() and seen[-1] == posting.result()):
                        break
    assert seen == list(range(posting.result() + 1))


async def test_a_stream_ends_when_its_token_is_revoked(served: Served) -> None:
    user = await served.client()
    await make_chat(user, "a")
    last = await length(user)
    made = await served.world.tokens.add("user:gone", ["viewer"])
    headers = {"authorization": f"Bearer {made.secret}"}
    seen = []
    async with asyncio.timeout(60), served.browser(headers=headers) as gone:
        async with gone.stream("GET", "/api/journal/stream?from=1&frames=true") as response:
            async for event in events(response):
                if event["event"] == "record":
                    seen.append(event["data"]["unit"])
                    if len(seen) == last:
                        await served.world.tokens.revoke(made.token.id)
                        await make_chat(user, "secret")
        assert (await gone.get("/api/journal/stream")).status_code == 401
    assert len(seen) >= last
    assert "demiurge/Demiurge@1/secret" not in seen


async def test_a_server_that_stops_ends_fifty_streams_and_answers_what_runs(served: Served) -> None:
    user = await served.client()
    await make_chat(user, "a")
    last, server = await length(user), served.server
    server.config.timeout_graceful_shutdown = 60

    arrived = asyncio.Semaphore(0)

    async def watch(query: str) -> list[str]:
        names = []
        path = f"/api/journal/stream?from=1{query}"
        async with (
            httpx.AsyncClient(base_url=served.base, headers=user.headers, timeout=60) as client,
            client.stream("GET", path) as response,
        ):
            async for event in events(response):
                names.append(event.get("id", event["event"]))
                if names[-1] == str(last):
                    arrived.release()
        return [name for name in names if name != "heartbeat"]

    address = urlsplit(served.base)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = f"POST /api/blob HTTP/1.1\r\nhost: {address.netloc}\r\nauthorization: {user.headers['authorization']}\r\n"
    writer.write(f"{head}content-length: 2\r\n\r\nx".encode())
    watching = [asyncio.create_task(watch("&frames=true" if number % 2 else "")) for number in range(50)]
    async with asyncio.timeout(60):
        for _ in watching:
            await arrived.acquire()
        while len(server.server_state.tasks) < 51:
            await asyncio.sleep(0.01)
        server.should_exit = True
        for names in await asyncio.gather(*watching):
            assert names == [*(str(position) for position in range(1, last + 1)), "closing"]
        writer.write(b"x")
        assert (await reader.read()).startswith(b"HTTP/1.1 201 ")
    writer.close()
