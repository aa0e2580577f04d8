"""A stream whose caller's token is lost while it runs: it ends as its protocol says, and what it watched goes on."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import httpx
import pytest
from tests.server.conftest import Served

from demiurge import World
from demiurge.errors import UsageError
from demiurge.values.clock import SystemClock
from demiurge.world.tokens import Token

MESSAGE = {"role": "user", "content": [{"type": "text", "text": "Hello"}]}

Lose: TypeAlias = Callable[[Token], Awaitable[None]]


@pytest.fixture
def slow(served: Served) -> Served:
    """A served world whose model thinks until the test lets it go."""
    served.provider.say(served.provider.answer(served.provider.text("At last."), held=True))
    return served


@pytest.fixture(params=["revoked", "expired"])
def lose(request: pytest.FixtureRequest, slow: Served, monkeypatch: pytest.MonkeyPatch) -> Lose:
    """Makes a token one that is not good any more."""

    async def revoke(token: Token) -> None:
        await slow.world.tokens.revoke(token.id)

    async def expire(token: Token) -> None:
        monkeypatch.setattr(SystemClock, "now_ns", lambda self: token.expires_ns)

    return revoke if request.param == "revoked" else expire


async def let_go(slow: Served) -> None:
    slow.provider.let_go.set()
    await slow.world.settle()


async def test_the_stream_of_a_turn_ends_when_its_token_is_lost(slow: Served, lose: Lose) -> None:
    made = await slow.world.tokens.add("user:gone", ["user"], days=1)
    headers = {"authorization": f"Bearer {made.secret}"}
    body = {"messages": [MESSAGE], "chatId": "c1"}
    async with (
        asyncio.timeout(60),
        httpx.AsyncClient(base_url=slow.base, headers=headers, timeout=60) as gone,
        gone.stream("POST", "/api/ai/chat", json=body) as answer,
    ):
        assert await asyncio.to_thread(slow.provider.asked.wait, 20)
        await lose(made.token)
        slow.provider.let_go.set()
        lines = [line.partition(":") async for line in answer.aiter_lines()]
    assert [kind for kind, _, _ in lines] == ["2", "2", "3", "e", "d"]
    assert json.loads(lines[1][2]) == [{"type": "unauthorized"}]
    await slow.world.settle()
    assert (await slow.world.chat("c1").reply()).text == "At last."


@pytest.mark.parametrize("stream", ["watch", "settling"])
async def test_a_stream_of_a_connected_world_ends_when_its_token_is_lost(slow: Served, lose: Lose, stream: str) -> None:
    made = await slow.world.tokens.add("user:gone", ["user"], days=1)
    said = await slow.world.chat("c1").say("Hello")
    watching = threading.Event()

    async def follow() -> tuple[set[str], str]:
        async with World.connect(slow.base, made.secret) as world:
            run, seen = world.backend.run, set()
            frames = run.watch(None, []) if stream == "watch" else run.settling(said.accepted.unit)
            try:
                async for shown in frames:
                    seen.add(shown["type"])
                    watching.set()
            except UsageError as error:
                return seen, error.code
            return seen, "no error"

    following = asyncio.create_task(asyncio.to_thread(asyncio.run, follow()))
    assert await asyncio.to_thread(watching.wait, 20)
    await lose(made.token)
    await let_go(slow)
    async with asyncio.timeout(60):
        assert await following == ({"began"}, "unauthorized")
    assert (await slow.world.chat("c1").reply()).text == "At last."
