"""The streams of the SDK's HTTP transport, with the limits of `flow.Flow`."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self

from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCResponse

from demiurge.mcp.flow import LEAKED, Flow

__all__ = ["WatchedReader", "WatchedWriter", "watched"]

_SHORT: Final = 32_768


@asynccontextmanager
async def watched(
    transport: AbstractAsyncContextManager[Any],
    flow: Flow,
    on_end: Callable[[], None],
    leaks: Callable[[str], bool] | None = None,
) -> AsyncIterator[tuple[WatchedReader, WatchedWriter]]:
    """Yields the streams of `transport`, counted by `flow`. `on_end` is called when the reader's stream ends. A message
    whose text `leaks` a token is not handed on: in place of an answer there is an error."""
    async with transport as (reader, writer):
        yield WatchedReader(reader, flow, on_end, leaks), WatchedWriter(writer, flow)


class WatchedReader:
    """The messages of a server."""

    def __init__(self, inner: Any, flow: Flow, on_end: Callable[[], None], leaks: Callable[[str], bool] | None) -> None:
        self._inner, self._flow, self._on_end, self._leaks = inner, flow, on_end, leaks

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context variables of the request to which the last message belongs."""
        found: contextvars.Context | None = self._inner.last_context
        return found

    async def receive(self) -> SessionMessage | Exception:
        while True:
            message = await self._checked(await self._inner.receive())
            if message is not None:
                return message

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            try:
                message = await self._checked(await self._inner.__anext__())
            except StopAsyncIteration:
                self._on_end()
                raise
            if message is not None:
                return message

    async def _checked(self, received: SessionMessage | Exception) -> SessionMessage | Exception | None:
        """Counts a message, and returns what is handed on of it."""
        if not isinstance(received, SessionMessage):
            return received
        message = received.message
        await self._flow.received(message)
        if not await self._is_leak(message):
            return received
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            error = ErrorData(code=LEAKED, message="the answer holds a token")
            return SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=error))
        return None

    async def _is_leak(self, message: JSONRPCMessage) -> bool:
        """Returns whether a message holds a token. The search takes up to a second for each megabyte, so a long message
        is searched in a thread."""
        if self._leaks is None:
            return False
        text = message.model_dump_json(by_alias=True)
        return self._leaks(text) if len(text) < _SHORT else await asyncio.to_thread(self._leaks, text)

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)


class WatchedWriter:
    """The messages to a server."""

    def __init__(self, inner: Any, flow: Flow) -> None:
        self._inner, self._flow = inner, flow

    async def send(self, item: SessionMessage, /) -> None:
        await self._inner.send(item)
        self._flow.sent(item.message)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)
