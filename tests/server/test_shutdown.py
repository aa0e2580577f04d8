"""A server that stops: requests that wait for a turn are answered at once, and the turn goes on with its world."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest
from tests.server.conftest import Served

from demiurge import World
from demiurge.errors import Unavailable
from demiurge.server.app import create_app
from demiurge.server.options import ServeOptions
from demiurge.server.serving import WorldServer

MESSAGE = {"role": "user", "content": [{"type": "text", "text": "Hello"}]}


@pytest.fixture
def slow(served: Served) -> Served:
    """A served world whose model thinks until the test lets it go."""
    served.provider.say(served.provider.answer(served.provider.text("At last."), held=True))
    return served


async def asked(served: Served) -> None:
    assert await asyncio.to_thread(served.provider.asked.wait, 20)


async def test_a_request_that_waits_for_a_turn_is_told_that_the_turn_goes_on(slow: Served) -> None:
    user = await slow.client()
    body = {"text": "Hello", "wait": True}
    waiting = asyncio.create_task(user.post("/api/chats/c1/messages", json=body))
    await asked(slow)
    slow.server.should_exit = True
    answer = await waiting
    assert (answer.status_code, answer.json()["status"], answer.json()["reply"]) == (202, "running", None)
    slow.provider.let_go.set()
    await slow.world.settle()
    assert (await slow.world.chat("c1").reply()).text == "At last."


async def test_the_stream_of_a_turn_ends_properly(slow: Served) -> None:
    user = await slow.client()
    async with user.stream("POST", "/api/ai/chat", json={"messages": [MESSAGE], "chatId": "c1"}) as answer:
        await asked(slow)
        slow.server.should_exit = True
        lines = [line.partition(":") async for line in answer.aiter_lines()]
    assert [kind for kind, _, _ in lines] == ["2", "2", "3", "e", "d"]
    assert json.loads(lines[1][2]) == [{"type": "closing"}]
    slow.provider.let_go.set()
    await slow.world.settle()
    assert (await slow.world.chat("c1").reply()).text == "At last."


async def test_a_server_whose_port_another_program_took_meanwhile_says_so_and_ends(tmp_path: Path) -> None:
    """Two programs may be bound to one port until one of them listens."""
    async with World.open(tmp_path / "w", environment={"HOME": str(tmp_path)}) as world:
        with socket.socket() as other, socket.socket() as own:
            for wire in (other, own):
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", 0))
            own.bind(other.getsockname())
            other.listen()
            options = ServeOptions(port=own.getsockname()[1])
            server = WorldServer(create_app(world, options), options)
            serving = asyncio.create_task(server.serve(sockets=[own]))
            async with asyncio.timeout(20):
                assert not await server.until_started()
                with pytest.raises(Unavailable, match=f"Port {options.port} of 127.0.0.1 is taken") as refused:
                    await serving
    assert refused.value.code == "port_taken"
