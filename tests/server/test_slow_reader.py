"""A reader of a stream that takes nothing is dropped; the source of the stream is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from demiurge.server import streams
from demiurge.server.streams import EventStream, StreamEvent


async def test_a_reader_that_takes_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STALL_S", 0.05)
    sent: list[bytes] = []
    closed = asyncio.Event()

    async def source() -> AsyncGenerator[StreamEvent, None]:
        try:
            for number in range(100):
                yield StreamEvent("record", {}, str(number))
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
