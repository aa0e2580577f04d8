"""The gateway over stdin and stdout: one client, which started this process.

Stdout is the protocol's alone: what anything else prints goes to stderr. A message is one line of at most `MAX_LINE`
bytes. A client that does not read its answers holds up only itself.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, Self
from weakref import WeakSet

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from demiurge.errors import UsageError
from demiurge.mcp.gateway.answers import NO_ANSWER
from demiurge.mcp.gateway.calls import AfterAnswer
from demiurge.mcp.gateway.server import McpGateway

__all__ = ["MAX_LINE", "serve_stdio"]

MAX_LINE: Final = 4 * 1024 * 1024


async def serve_stdio(gateway: McpGateway, stdin: int = 0, stdout: int = 1) -> None:
    """Serves one client until it closes stdin. Raises UsageError if the two are no pipes, sockets or terminals."""
    if not (_is_stream(stdin) and _is_stream(stdout)):
        why = "A client of this command speaks to it over pipes: name it as the command of a server in a client."
        raise UsageError(why, code="no_pipe")
    async with _stdout_for_us(stdout) as wire:
        reader, writer = await _connected(stdin, wire)
        pipe = _Pipe(reader, writer, gateway.begin)
        gateway.sent = pipe.once_sent
        incoming, to_server = pipe.incoming
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(pipe.read, incoming)
                await gateway.server.run(to_server, pipe, gateway.server.create_initialization_options())
                tasks.cancel_scope.cancel()
        finally:
            writer.close()


def _is_stream(descriptor: int) -> bool:
    """Returns whether one can wait for a descriptor, which is not so for a file and `/dev/null`."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


@asynccontextmanager
async def _stdout_for_us(stdout: int) -> AsyncIterator[int]:
    """Yields a descriptor of stdout that nobody else has; meanwhile stdout itself is stderr."""
    wire = os.dup(stdout)
    os.dup2(2, stdout)
    try:
        yield wire
    finally:
        os.set_blocking(wire, True)
        os.dup2(wire, stdout)
        os.close(wire)


async def _connected(stdin: int, wire: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await (_on_one_socket if _is_one_socket(stdin, wire) else _on_two_pipes)(stdin, wire)
    writer.transport.set_write_buffer_limits(high=0)  # so `drain` waits until the pipe has taken everything
    return reader, writer


def _is_one_socket(stdin: int, wire: int) -> bool:
    mode = os.fstat(stdin).st_mode
    return stat.S_ISSOCK(mode) and os.path.sameopenfile(stdin, wire)


async def _on_one_socket(stdin: int, _: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Returns the streams of a socket that is stdin and stdout. As a pipe for writing asyncio would close it when a
    request arrives: it takes all that can be read from such a pipe for the end of its reader."""
    return await asyncio.open_connection(sock=socket.socket(fileno=os.dup(stdin)), limit=MAX_LINE)


async def _on_two_pipes(stdin: int, wire: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(stdin), "rb", buffering=0)
    )
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(os.dup(wire), "wb", buffering=0)
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


class _Pipe:
    """The messages of one client. Those to the client are written by the tasks that send them, so the end of a
    request's task is also the end of its answer, whether it was sent or not."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        begin: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._reader, self._writer, self._begin = reader, writer, begin
        self._turn = asyncio.Lock()
        self._answered = WeakSet[asyncio.Task[Any]]()
        """The tasks of requests whose answer the pipe has taken whole."""
        self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    def once_sent(self, ctx: Any, work: AfterAnswer) -> bool:
        """Runs `work` when the task of the request of `ctx`, which is this task and writes the answer, has ended,
        however it ends. Returns False for a request without an id."""
        task = asyncio.current_task()
        if ctx.request_id is None or task is None:
            return False
        task.add_done_callback(lambda ended: self._begin(work(ended in self._answered)))
        return True

    async def read(self, to: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Hands the client's messages on until it closes stdin, or takes no more answers."""
        async with to:
            while (line := await self._line()) is not None:
                if not line.strip():
                    continue
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError as error:
                    await to.send(error)
                    continue
                await to.send(SessionMessage(message))

    async def _line(self) -> bytes | None:
        """Returns the next line; None at the end. A line that is too long is dropped, and is no message."""
        try:
            return await self._reader.readuntil(b"\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        except asyncio.LimitOverrunError as overrun:
            dropped = overrun.consumed
            while True:
                await self._reader.readexactly(dropped)
                try:
                    await self._reader.readuntil(b"\n")
                except asyncio.LimitOverrunError as more:
                    dropped = more.consumed
                except (asyncio.IncompleteReadError, ConnectionError):
                    return None
                else:
                    return b"a line that is too long\n"

    async def send(self, item: SessionMessage, /) -> None:
        """Writes a message when the pipe has taken the former ones. It is an answer once the pipe has taken it too."""
        message = item.message
        async with self._turn:
            try:
                await self._writer.drain()
                self._writer.write(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await self._writer.drain()
            except ConnectionError as gone:  # a request that is read now would get no answer
                self._reader.set_exception(gone)
                return
        task = asyncio.current_task()
        if task is not None and _is_answer(message):
            self._answered.add(task)

    async def aclose(self) -> None:
        """Does nothing: whoever opened the pipe closes it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _is_answer(message: types.JSONRPCMessage) -> bool:
    if isinstance(message, types.JSONRPCError):
        return message.error.code not in NO_ANSWER
    return isinstance(message, types.JSONRPCResponse)
