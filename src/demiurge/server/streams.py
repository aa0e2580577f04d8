"""Server-sent events: what a stream sends, its heartbeats, and what becomes of a reader that is too slow.

Each stream pulls from sources of its own, so a slow reader makes nobody else wait, and what it has not taken is kept
once, by the sources. A reader that takes nothing for `STALL_S` is dropped; it comes back with the `Last-Event-ID` that
it saw last, and misses nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from demiurge.errors import DemiurgeError
from demiurge.server.errors import error_body

__all__ = ["EventStream", "StreamEvent", "before_closing", "merged", "while_allowed"]

T = TypeVar("T")

STALL_S: Final = 30.0
"""How long one write may wait for the reader, in seconds."""

RETRY_MS: Final = 1000
"""The delay after which a browser reconnects, in milliseconds."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a stream. `id` is what a reader comes back with, None for an event that cannot be asked for
    again."""

    name: str
    data: Mapping[str, Any]
    id: str | None = None

    def encode(self) -> bytes:
        """Returns the event as a browser reads it. The data are one line of JSON."""
        head = f"id: {self.id}\n" if self.id is not None else ""
        data = json.dumps(self.data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        return f"{head}event: {self.name}\ndata: {data}\n\n".encode()


class EventStream(Response):
    """Sends the events of `source`, which yields them encoded, one or more at a time. The stream ends with the source,
    when the reader disconnects, or when `closing` is set; then its last event is `closing`. If the source fails, the
    last event is `error`, with the body of an error."""

    media_type = "text/event-stream"

    def __init__(self, source: AsyncGenerator[bytes, None], *, heartbeat_s: float, closing: asyncio.Event) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._source, self._heartbeat_s, self._closing = source, heartbeat_s, closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        gone = asyncio.create_task(_until_gone(receive))
        closing = asyncio.create_task(self._closing.wait())
        try:
            async with aclosing(self._source):
                await _send(send, f"retry: {RETRY_MS}\n\n".encode())
                await self._pump(send, gone, closing)
            await _send(send, b"", more=False)
        except (TimeoutError, OSError, ClientDisconnect):
            pass  # the reader is too slow, or has gone: it comes back with the last id that it saw
        finally:
            gone.cancel()
            closing.cancel()
            await asyncio.gather(gone, closing, return_exceptions=True)

    async def _pump(self, send: Send, gone: asyncio.Task[None], closing: asyncio.Task[bool]) -> None:
        coming = asyncio.ensure_future(anext(self._source, None))
        try:
            while True:
                done, _ = await asyncio.wait(
                    {coming, gone, closing}, timeout=self._heartbeat_s, return_when=asyncio.FIRST_COMPLETED
                )
                if gone in done:
                    return
                if coming in done:
                    events = coming.result()
                    if events is None:
                        return
                    await _send(send, events)
                    coming = asyncio.ensure_future(anext(self._source, None))
                elif closing in done:
                    await _send(send, StreamEvent("closing", {}).encode())
                    return
                else:
                    await _send(send, b": heartbeat\n\n")
        except DemiurgeError as error:
            await _send(send, StreamEvent("error", error_body(error.code, error.message, error.details)).encode())
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


async def _send(send: Send, data: bytes, *, more: bool = True) -> None:
    """Raises TimeoutError for a reader that takes nothing for `STALL_S`."""
    async with asyncio.timeout(STALL_S):
        await send({"type": "http.response.body", "body": data, "more_body": more})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def merged(*sources: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yields the events of all sources as they come, until one source ends or fails. Each source waits until the reader
    has taken what it yielded."""
    queue: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(1)

    async def drain(source: AsyncGenerator[bytes, None]) -> None:
        try:
            async with aclosing(source):
                async for events in source:
                    await queue.put(events)
            await queue.put(None)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again where the events are taken
            await queue.put(error)

    tasks = [asyncio.create_task(drain(source)) for source in sources]
    try:
        while (events := await queue.get()) is not None:
            if isinstance(events, BaseException):
                raise events
            yield events
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def while_allowed(
    source: AsyncGenerator[T, None], is_allowed: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[T, None]:
    """Yields the items of a source until `is_allowed` says no, for instance because a token was revoked."""
    async with aclosing(source):
        async for item in source:
            if not await is_allowed():
                return
            yield item


async def before_closing(closing: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Returns the result of `work`; None if the server closes first, and then `work` is cancelled."""
    working, over = asyncio.create_task(work), asyncio.create_task(closing.wait())
    try:
        await asyncio.wait({working, over}, return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        working.cancel()
        over.cancel()
        await asyncio.gather(working, over, return_exceptions=True)
