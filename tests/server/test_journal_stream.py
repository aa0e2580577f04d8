"""The journal as server-sent events: every record once and in order, also for a reader that comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
from tests.server.conftest import Served

CHAT = "demiurge/ChatEvent@1"


async def events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The events of a stream; a heartbeat has the name `heartbeat`."""
    found: dict[str, Any] = {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            yield {"event": "heartbeat"}
        elif line:
            name, _, value = line.partition(": ")
            found[name] = json.loads(value) if name == "data" else value
        elif "event" in found:
            yield found
            found = {}
        else:
            found = {}


async def make_chat(client: httpx.AsyncClient, chat_id: str) -> None:
    made = {"chat_id": chat_id, "title": "T", "created_at_ms": 1}
    await client.post("/api/events", json={"schema": CHAT, "value": {"$tag": "ChatCreated", "$value": made}})


async def test_a_reader_that_comes_back_misses_nothing(served: Served) -> None:
    user = await served.client()
    await make_chat(user, "a")
    seen: list[int] = []
    async with user.stream("GET", "/api/journal/stream?from=0") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        async for event in events(response):
            if event["event"] == "record":
                seen.append(int(event["id"]))
                if event["data"]["unit"].endswith("/a"):
                    break
    for name in ("b", "c"):
        await make_chat(user, name)
    headers = {"last-event-id": str(seen[-1])}
    async with user.stream("GET", "/api/journal/stream", headers=headers) as response:
        async for event in events(response):
            if event["event"] == "record":
                seen.append(int(event["id"]))
                if event["data"]["kind"] == "step" and event["data"]["unit"].endswith("/c"):
                    break
    assert seen == list(range(seen[0], seen[0] + len(seen)))
    page = (await user.get("/api/journal?limit=1000")).json()
    assert [record["position"] for record in page["records"]][: len(seen)] == seen


async def test_a_quiet_stream_has_heartbeats_and_says_when_the_server_closes(served: Served) -> None:
    user = await served.client()
    async with user.stream("GET", "/api/journal/stream") as response:
        coming = events(response)
        assert (await anext(coming))["event"] == "heartbeat"
        served.server.should_exit = True
        found = [event async for event in coming]
    assert found[-1] == {"event": "closing", "data": {}}


async def test_text_is_streamed_while_the_model_writes_it(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("one two three")))
    user = await served.client()
    async with user.stream("GET", "/api/journal/stream?frames=true") as response:
        coming = events(response)
        await user.post("/api/chats/c1/messages", json={"text": "Hello"})
        text = ""
        async with asyncio.timeout(20):
            async for event in coming:
                if event["event"] == "frame" and event["data"]["type"] == "text_delta":
                    assert "id" not in event
                    text += event["data"]["delta"]
                if text == "one two three":
                    break
    assert text == "one two three"


async def test_a_text_that_is_no_unit_is_an_error_of_the_request_and_no_stream(served: Served) -> None:
    user = await served.client()
    for more in ("", "&frames=true"):
        answer = await user.get(f"/api/journal/stream?unit=nonsense{more}")
        assert answer.status_code == 422
        assert answer.json()["message"] == "'nonsense' is not a unit; write it as namespace/Name@N/key"
