"""When an answer counts as given: its bytes were handed over, whole. Until then an equal call is no new call."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage
from tests.mcp.conftest import until
from tests.mcp.gateway.conftest import AGENT, POLICY, Shop, shop_tools, text_of
from tests.mcp.gateway.test_http import ACCEPT, HELLO, post, token
from tests.server.conftest import Served, served_on

from demiurge import World
from demiurge.apps.demiurge import CALLS
from demiurge.mcp.gateway.stdio import _connected, _Pipe
from demiurge.server import mcp_endpoint
from demiurge.server.response_wire import ResponseWire
from demiurge.testing import FrozenClock
from demiurge.world.host import Host
from demiurge.world.unit import Unit

WORD = {"word": "go"}


@pytest.fixture
async def served(shop: Shop) -> AsyncIterator[Served]:
    async with served_on(shop.world, None) as found:
        yield found


# -- the record of a call ---------------------------------------------------------------------------------------------


async def test_a_client_that_goes_while_its_call_is_written_does_not_double_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, submit = asyncio.Event(), Host.submit

    async def written_and_no_word(host: Host, schema: str, value: Any, **more: Any) -> Any:
        accepted = await submit(host, schema, value, **more)
        if not written.is_set():
            written.set()
            await asyncio.Event().wait()
        return accepted

    async with shop.client(AGENT) as client:
        with monkeypatch.context() as patch:
            patch.setattr(Host, "submit", written_and_no_word)
            calling = asyncio.create_task(client.call_tool("note", {"text": "once"}))
            await written.wait()
            await shop.world.settle()
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
    async with shop.client(AGENT) as client:
        told = await client.call_tool("note", {"text": "once"})
    assert shop.runs == ["once"]
    assert text_of(told) == "noted once"
    assert (told.meta or {})["demiurge/earlier"]


async def test_a_request_for_a_call_that_runs_waits_for_it(shop: Shop) -> None:
    """The client has lost patience without a word, so for the server its first request is still open."""
    async with shop.client(AGENT) as client:
        first = asyncio.create_task(client.call_tool("wait_for_word", WORD))
        await shop.began.wait()
        second = asyncio.create_task(client.call_tool("wait_for_word", WORD))
        await until(lambda: _waiting(shop) == 2)
        shop.go_on.set()
        told = [await first, await second]
        assert shop.runs == ["go"]
        assert [text_of(each) for each in told] == ["heard go"] * 2
        assert [bool((each.meta or {}).get("demiurge/earlier")) for each in told] == [False, True]
        assert text_of(await client.call_tool("wait_for_word", WORD)) == "heard go"
    assert shop.runs == ["go", "go"]


async def test_one_of_two_that_wait_may_withdraw(shop: Shop) -> None:
    async with shop.client(AGENT) as client:
        first = asyncio.create_task(client.call_tool("wait_for_word", WORD))
        await shop.began.wait()
        second = asyncio.create_task(client.call_tool("wait_for_word", WORD))
        await until(lambda: _waiting(shop) == 2)
        first.cancel()
        await until(lambda: _waiting(shop) == 1)
        shop.go_on.set()
        assert text_of(await second) == "heard go"
    assert shop.runs == ["go"]


def _waiting(shop: Shop) -> int:
    """Returns how many requests wait for calls."""
    waits = shop.world.backend.state.asked_calls._waits  # type: ignore[attr-defined]
    return sum(len(each) for each in waits._waits.values())


async def test_the_answer_counts_as_given_if_the_last_that_asked_was_given_it(shop: Shop) -> None:
    world = shop.gateway(AGENT).world_of(None)  # type: ignore[arg-type]

    async def ended(held: Any) -> Any:
        return [event async for event in held.events()][-1]

    first, last = (world.call("wait_for_word", WORD, shows=False) for _ in range(2))
    waiting = [asyncio.create_task(ended(each)) for each in (first, last)]
    await until(lambda: _waiting(shop) == 2)
    shop.go_on.set()
    await asyncio.gather(*waiting)
    assert await first.leave(read=True)
    assert not await last.leave(read=False)
    third = world.call("wait_for_word", WORD, shows=False)
    assert (await ended(third)).earlier
    await third.leave(read=True)
    assert shop.runs == ["go"]
    assert not (await ended(world.call("wait_for_word", WORD, shows=False))).earlier


@pytest.mark.parametrize("shows", [True, False])
async def test_a_call_that_goes_on_at_the_next_owner_has_no_outcome_at_this_one(shop: Shop, shows: bool) -> None:
    """The client of a process that hands its world over would be told that the call still runs, in place of its
    answer."""
    host = await shop.world.backend.state.host()  # type: ignore[attr-defined]
    await host.drain(0)
    held = shop.gateway(AGENT).world_of(None).call("note", {"text": "once"}, shows=shows)  # type: ignore[arg-type]

    async def events() -> list[Any]:
        return [event async for event in held.events()]

    waiting = asyncio.create_task(events())
    await until(lambda: str(Unit(CALLS, held.call_id)) in host.in_progress())
    await shop.world.close()
    assert await waiting == []


async def test_a_call_is_found_a_day_after_its_end_and_not_after_its_beginning(tmp_path: Path) -> None:
    clock, city = FrozenClock(datetime.now(UTC)), {"city": "Rome"}
    async with World.open(tmp_path / "w", shop_tools(lambda: shop), POLICY, clock=clock) as world:
        shop = Shop(world)

        async def call() -> Any:
            async with shop.client(AGENT) as client:
                return await client.call_tool("send_parcel", city)

        waits = await call()
        clock.advance(timedelta(hours=30))
        assert (await call()).structured_content["approval"] == waits.structured_content["approval"]
        await shop.approve()
        clock.advance(timedelta(hours=23))
        assert text_of(await call()) == "sent to Rome"
        assert (await call()).structured_content["approval"] != waits.structured_content["approval"]
    assert shop.runs == ["Rome"]


# -- stdio ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", [True, False])
async def test_an_answer_is_given_once_the_pipe_has_taken_all_of_it(reads: bool) -> None:
    told: list[bool] = []
    begun: list[asyncio.Future[None]] = []
    stdin, client_in = os.pipe()
    client_out, stdout = os.pipe()
    reader, writer = await _connected(stdin, stdout)
    for each in (stdin, stdout):
        os.close(each)
    pipe = _Pipe(reader, writer, lambda work: begun.append(asyncio.ensure_future(work)))

    async def request() -> None:
        async def work(sent: bool) -> None:
            told.append(sent)

        assert pipe.once_sent(SimpleNamespace(request_id=1), work)
        result = {"text": "x" * 100_000}  # more than a pipe takes, less than asyncio keeps
        await pipe.send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=1, result=result)))

    answering = asyncio.create_task(request())
    await until(lambda: bool(writer.transport.get_write_buffer_size()))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not answering.done()
    if reads:
        read = b""
        while not read.endswith(b"\n"):
            read += await asyncio.to_thread(os.read, client_out, 1 << 16)
    os.close(client_out)
    await answering
    await asyncio.sleep(0)
    await asyncio.gather(*begun)
    assert told == [reads]
    os.close(client_in)
    writer.close()
    await until(reader.at_eof)
    for stream in pipe.incoming:
        stream.close()


async def test_a_request_that_arrives_over_the_socket_of_the_answers_does_not_close_it() -> None:
    """Launchers such as inetd and socat give one socket for stdin and stdout."""
    near, far = socket.socketpair()
    reader, writer = await _connected(near.fileno(), near.fileno())
    near.close()
    for number in range(3):
        far.sendall(b"request\n")  # it lies there before the loop looks at its descriptors
        assert await reader.readline() == b"request\n"
        await asyncio.sleep(0)
        writer.write(b"answer %d\n" % number)
        await writer.drain()
        assert far.recv(100) == b"answer %d\n" % number
    far.close()
    assert await reader.read() == b""
    writer.close()


async def test_a_client_that_takes_no_more_answers_is_served_no_more() -> None:
    """Its requests would be read, and made, and never answered."""
    stdin, client_in = os.pipe()
    client_out, stdout = os.pipe()
    reader, writer = await _connected(stdin, stdout)
    for each in (stdin, stdout, client_out):
        os.close(each)
    pipe = _Pipe(reader, writer, lambda work: work.close())
    incoming, _ = pipe.incoming
    reading = asyncio.create_task(pipe.read(incoming))
    await pipe.send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=1, result={})))
    await reading
    os.close(client_in)
    writer.close()
    await until(reader.at_eof)
    for stream in pipe.incoming:
        stream.close()


# -- HTTP -------------------------------------------------------------------------------------------------------------


class Wire:
    """A wire whose client takes what is written, or has left."""

    def __init__(self, *, takes: bool) -> None:
        self.is_open, self.takes, self.is_broken = True, takes, False

    async def has_taken_all(self) -> bool:
        return self.takes

    def break_off(self) -> None:
        self.is_broken = True


ANSWER = b'data: {"jsonrpc":"2.0","id":1,"result":{}}\r\n\r\n'
CLOSED = b'data: {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":""}}\r\n\r\n'


@pytest.mark.parametrize(
    ("parts", "takes", "is_given", "ends"),
    [
        ([ANSWER, b""], True, True, True),
        ([b": ping\r\n\r\n", ANSWER, b""], True, True, True),
        ([ANSWER, b""], False, False, True),
        ([b""], True, False, False),
        ([CLOSED, b""], True, False, False),
    ],
)
async def test_a_stream_without_an_answer_breaks_and_one_with_it_is_given_once_it_is_taken(
    parts: list[bytes], takes: bool, is_given: bool, ends: bool
) -> None:
    told: list[bool] = []
    begun: list[asyncio.Future[None]] = []
    sent: list[Any] = []
    after = mcp_endpoint._AfterAnswer(lambda work: begun.append(asyncio.ensure_future(work)))

    async def work(is_sent: bool) -> None:
        told.append(is_sent)

    async def send(message: Any) -> None:
        sent.append(message)

    after.add(work)
    wire = Wire(takes=takes)
    answer = mcp_endpoint._Answer({"method": "POST", "demiurge.response_wire": wire}, send, after)
    await answer.send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
    )
    for number, part in enumerate(parts, 1):
        await answer.send({"type": "http.response.body", "body": part, "more_body": number < len(parts)})
    after.run(False)
    await asyncio.gather(*begun)
    assert told == [is_given]
    assert (not sent[-1].get("more_body", True)) is ends
    assert wire.is_broken is not ends


async def test_a_server_that_stops_breaks_the_stream_of_a_call_that_runs(shop: Shop) -> None:
    async with served_on(shop.world, None) as served:
        mine = {"authorization": f"Bearer {await token(served, 'agent')}", **ACCEPT}
        async with httpx.AsyncClient(base_url=served.base, headers=mine) as http:
            opened = await http.post("/mcp", json=HELLO)
            session = {"mcp-session-id": opened.headers["mcp-session-id"]}
            params = {"name": "wait_for_word", "arguments": WORD}
            body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
            asking = asyncio.create_task(http.post("/mcp", json=body, headers=session))
            await shop.began.wait()
            served.server.should_exit = True
            with pytest.raises(httpx.TransportError):
                await asking
    async with shop.client(AGENT) as client:
        told = await client.call_tool("wait_for_word", WORD)
    assert told.structured_content["error_code"] == "unknown_outcome"


async def test_an_answer_that_its_client_does_not_take_is_given_to_the_next_equal_request(
    served: Served, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, made = await token(served, "agent"), ResponseWire.__init__

    def made_small(wire: ResponseWire, transport: asyncio.Transport) -> None:
        made(wire, transport)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    monkeypatch.setattr(ResponseWire, "__init__", made_small)
    with socket.socket() as wire:
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.connect(("127.0.0.1", int(served.base.rpartition(":")[2])))
        wire.setblocking(False)
        told = (await post(served, secret, "tools/list", {})).request
        params = {"name": "report", "arguments": {"length": 100_000}}
        meta = json.loads(told.content)["params"]["_meta"]
        body = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, "_meta": meta}}
        ).encode()
        names = ("authorization", "accept", "mcp-protocol-version", "content-type", "host")
        head = {name: told.headers[name] for name in names}
        head |= {"mcp-method": "tools/call", "mcp-name": "report", "content-length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(wire, f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body)
        await loop.sock_recv(wire, 1)  # the answer comes, and no more of it is read
    again = (await post(served, secret, "tools/call", params, tasks="no")).json()["result"]
    assert again["_meta"]["demiurge/earlier"]
    anew = (await post(served, secret, "tools/call", params, tasks="no")).json()["result"]
    assert "demiurge/earlier" not in anew["_meta"]
