"""The transport over a server's standard input and output: one JSON message to a line, each of a bounded size.

The SDK's own transport joins what it reads until a line ends, so a server that never ends its line fills the memory.
Here the rest of a line over the limit is thrown away as it comes. If the line answers one of our requests, the request
is answered with an error; a line that does not end within `MAX_DISCARDED` bytes ends the connection. A line that is no
message of the protocol is skipped, because some servers print to their standard output; if it names one of our
requests, that request is answered with an error.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Self

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCNotification, jsonrpc_message_adapter

from demiurge.mcp.flow import TOO_LARGE, Flow, current_note
from demiurge.mcp.server_process import ServerProcess

__all__ = ["MAX_DISCARDED", "stdio_transport"]

MAX_DISCARDED: Final = 128 << 20
"""How many bytes of one line are read and thrown away before the connection ends."""

_CHUNK: Final = 65_536
_HEAD: Final = 512
_LAST_ID: Final = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*\}\s*\Z')
_ID: Final = re.compile(rb'\A\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*[,}]')


@asynccontextmanager
async def stdio_transport(
    process: ServerProcess, limit: int, flow: Flow, on_end: Callable[[], None]
) -> AsyncIterator[tuple[MessageReader, MessageWriter]]:
    """Yields the two streams of a server. `limit`: the most bytes of one message. `on_end` is called when the server
    closed its output. The process is not stopped here."""
    reader, writer = MessageReader(process, limit, flow, on_end), MessageWriter(process, flow)
    try:
        yield reader, writer
    finally:
        await reader.aclose()
        await writer.aclose()


class MessageReader:
    """The messages of a server, as the SDK reads them."""

    def __init__(self, process: ServerProcess, limit: int, flow: Flow, on_end: Callable[[], None]) -> None:
        self._stdout, self._limit, self._flow, self._on_end = process.stdout, limit, flow, on_end
        self._buffer = bytearray()
        self._searched = 0
        self._closed = False

    async def receive(self) -> SessionMessage | Exception:
        """Returns the next message. Raises anyio.EndOfStream when the server closed its output."""
        while (line := await self._next_line()) is not None:
            message = _parsed(line)
            if message is not None:
                await self._flow.received(message)
                return SessionMessage(message)
        raise anyio.EndOfStream

    async def _next_line(self) -> bytes | JSONRPCError | None:
        """Returns the next line, or the error that takes the place of a line over the limit; None at the end."""
        while True:
            if self._closed:
                return None
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                return line
            self._searched = len(self._buffer)
            if len(self._buffer) > self._limit:
                error = await self._discard_line()
                if error is not None:
                    return error
                continue
            chunk = await self._stdout.read(_CHUNK)
            if not chunk:
                return None
            self._buffer += chunk

    async def _discard_line(self) -> JSONRPCError | None:
        """Reads to the end of a line without keeping it. Returns the error for the request that it answers."""
        found, size = _ID.match(self._buffer[:_HEAD]), len(self._buffer)
        self._buffer.clear()
        self._searched = 0
        while True:
            chunk = await self._stdout.read(_CHUNK)
            size += len(chunk)
            if not chunk or size > MAX_DISCARDED:
                self._closed = True
                return None
            await asyncio.sleep(0)  # a fast server leaves other tasks their turn
            line_end = chunk.find(b"\n")
            if line_end >= 0:
                self._buffer += chunk[line_end + 1 :]
                if found is None:
                    return None
                data = ErrorData(code=TOO_LARGE, message=f"the answer has {size} bytes")
                return JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=data)

    async def aclose(self) -> None:
        """Ends the stream: the next message is the end."""
        self._closed = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except (anyio.EndOfStream, ConnectionError):
            self._on_end()
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class MessageWriter:
    """The messages to a server, as the SDK writes them."""

    def __init__(self, process: ServerProcess, flow: Flow) -> None:
        self._stdin, self._flow = process.stdin, flow

    async def send(self, item: SessionMessage, /) -> None:
        """Writes a message and waits until the pipe has taken it; a notification is not waited for, so that a
        cancellation can't hang on a server that does not read. Raises anyio.BrokenResourceError."""
        message = item.message
        data = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        if self._stdin.is_closing():
            raise anyio.BrokenResourceError
        if (note := current_note()) is not None and not isinstance(message, JSONRPCNotification):
            note.sent = True
        self._stdin.write(data + b"\n")
        if not isinstance(message, JSONRPCNotification):
            try:
                await self._stdin.drain()
            except (ConnectionError, RuntimeError):
                raise anyio.BrokenResourceError from None
        self._flow.sent(message)

    async def aclose(self) -> None:
        """Does nothing: whoever stops the process closes its input."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _parsed(line: bytes | JSONRPCError) -> JSONRPCMessage | None:
    if isinstance(line, JSONRPCError):
        return line
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        found = _ID.match(line[:_HEAD]) or _LAST_ID.search(line[-_HEAD:])
        if found is None or b'"method"' in line:
            return None
        return JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=ErrorData(code=PARSE_ERROR, message="no answer"))
