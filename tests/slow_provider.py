"""A model provider that streams an answer piece by piece, when the test lets the next piece go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.provider import REFUSED_TITLE, Answer, asks_for_title

BREAK = b""
"""In place of a piece: the connection is closed there."""

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
REFUSED_HEAD = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
PATIENCE_S = 20.0


class SlowProvider:
    """Answers in order, and refuses each request for a title of a chat, which takes no answer. `gone` is set when an
    asker has closed its connection before the answer was over."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Any] = []
        self.gone = asyncio.Event()
        self._script: list[list[bytes]] = []
        self._allowed = asyncio.Semaphore(0)

    def say(self, *answers: Answer, breaks_after: int | None = None) -> None:
        """Each answer goes out event by event; with `breaks_after` each breaks off after so many."""
        for answer in answers:
            pieces = [event + b"\n\n" for event in answer.body.split(b"\n\n") if event]
            self._script.append(pieces if breaks_after is None else [*pieces[:breaks_after], BREAK])

    def let_go(self, pieces: int = 1000) -> None:
        for _ in range(pieces):
            self._allowed.release()

    async def asker_leaves(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.gone.wait()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        if asks_for_title(body):
            writer.write(REFUSED_HEAD + REFUSED_TITLE.body)
            writer.close()
            return
        self.seen.append(body)
        pieces = self._script.pop(0)
        writer.write(HEAD)
        sending = asyncio.create_task(self._send(pieces, writer))
        leaving = asyncio.create_task(reader.read())
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            self.gone.set()
            self._allowed = asyncio.Semaphore(0)
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        writer.close()

    async def _send(self, pieces: list[bytes], writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            await self._allowed.acquire()
            if piece == BREAK:
                return
            writer.write(piece)
            await writer.drain()


@asynccontextmanager
async def serving_slowly() -> AsyncIterator[SlowProvider]:
    """A provider that listens while the block runs."""
    provider = SlowProvider()
    server = await asyncio.start_server(provider.answer, "127.0.0.1", 0)
    provider.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield provider
    finally:
        server.close()
