"""The gateway on two descriptors of this process: lines become messages, and an answer counts once the pipe took it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from demiurge.errors import UsageError
from demiurge.mcp.gateway import stdio
from demiurge.mcp.gateway.stdio import serve_stdio

DONE = {"jsonrpc": "2.0", "id": 7, "result": {"content": []}}
ASKS = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}


@dataclass
class Echo:
    """A gateway whose server answers each request with its own task, and notes all that it reads."""

    read: list[Any] = field(default_factory=list)
    told: list[tuple[Any, bool]] = field(default_factory=list)
    answer: Any = None
    sent: Any = None
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    options: Any = None

    @property
    def server(self) -> Any:
        return SimpleNamespace(run=self.run, create_initialization_options=lambda: "options")

    def begin(self, work: Any) -> None:
        self._keep(asyncio.ensure_future(work))

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def run(self, incoming: Any, pipe: Any, options: Any) -> None:
        self.options = options
        async with incoming, pipe:
            async for item in incoming:
                if isinstance(item, Exception):
                    self.read.append("error")
                    continue
                self.read.append(item.message.model_dump(by_alias=True, exclude_unset=True))
                if isinstance(item.message, types.JSONRPCRequest):
                    self._keep(asyncio.create_task(self._answered(pipe, item.message.id)))
        while self.tasks:
            await asyncio.wait(self.tasks)

    async def _answered(self, pipe: Any, number: Any) -> None:
        async def tell(sent: bool) -> None:
            self.told.append((number, sent))

        assert self.sent(SimpleNamespace(request_id=number), tell)
        assert not self.sent(SimpleNamespace(request_id=None), tell)
        reply = self.answer or types.JSONRPCResponse(jsonrpc="2.0", id=number, result={"content": []})
        if isinstance(reply, Exception):
            raise reply
        await pipe.send(SessionMessage(reply))


@asynccontextmanager
async def served(gateway: Any, stdin: int, stdout: int) -> AsyncIterator[asyncio.Task[None]]:
    serving = asyncio.create_task(serve_stdio(gateway, stdin, stdout))
    try:
        yield serving
        async with asyncio.timeout(30):
            await serving
    finally:
        serving.cancel()


class Ends:
    """Two pipes to a server in this process: `write` is its stdin's other end, `out` that of its stdout."""

    def __init__(self) -> None:
        self.stdin, self.write = os.pipe()
        self.out, self.stdout = os.pipe()

    def say(self, *lines: bytes) -> None:
        for line in lines:
            os.write(self.write, line)

    async def heard(self) -> bytes:
        """Returns a line of the server."""
        found = b""
        while not found.endswith(b"\n"):
            found += await asyncio.to_thread(os.read, self.out, 1)
        return found

    def hang_up(self) -> None:
        os.close(self.write)

    def close(self) -> None:
        for descriptor in (self.stdin, self.write, self.out, self.stdout):
            with suppress(OSError):
                os.close(descriptor)


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    made = Ends()
    yield made
    made.close()


def line(node: Any) -> bytes:
    return json.dumps(node).encode() + b"\n"


async def test_lines_are_messages_and_an_answer_that_the_pipe_took_was_sent(ends: Ends) -> None:
    gateway = Echo()
    async with served(gateway, ends.stdin, ends.stdout):
        ends.say(b"\n", b"  \n", line(ASKS))
        assert json.loads(await ends.heard()) == DONE
        ends.say(b"no message\n", line({"jsonrpc": "2.0", "method": "x"}), b'{"jsonrpc": "2.0"')
        ends.hang_up()
    assert gateway.read == [ASKS, "error", {"jsonrpc": "2.0", "method": "x"}]
    assert (gateway.told, gateway.options) == ([(7, True)], "options")


async def test_nobody_else_writes_to_the_client_and_stdout_is_given_back(ends: Ends, capfd: Any) -> None:
    gateway = Echo()
    async with served(gateway, ends.stdin, ends.stdout):
        ends.say(line(ASKS))
        await ends.heard()
        os.write(ends.stdout, b"a print\n")
        ends.hang_up()
    assert capfd.readouterr() == ("", "a print\n")
    assert os.get_blocking(ends.stdout)
    os.write(ends.stdout, b"again\n")
    assert await ends.heard() == b"again\n"


@pytest.mark.parametrize("more", [1, 4 * 1024 * 1024, 9 * 1024 * 1024])
async def test_a_line_that_is_too_long_is_dropped(ends: Ends, more: int) -> None:
    gateway = Echo()
    async with served(gateway, ends.stdin, ends.stdout):
        await asyncio.to_thread(ends.say, b"x" * (stdio.MAX_LINE + more), b"\n", line(ASKS))
        assert json.loads(await ends.heard()) == DONE
        ends.hang_up()
    assert gateway.read == ["error", ASKS]
    other = Ends()
    async with served(Echo(), other.stdin, other.stdout):
        await asyncio.to_thread(other.say, b"x" * (stdio.MAX_LINE + more))
        other.hang_up()
    other.close()


async def test_a_line_of_the_most_bytes_is_read(ends: Ends) -> None:
    gateway = Echo()
    padded = line(ASKS)[:-1] + b" " * (stdio.MAX_LINE - len(line(ASKS)) + 1) + b"\n"
    async with served(gateway, ends.stdin, ends.stdout):
        await asyncio.to_thread(ends.say, padded)
        assert json.loads(await ends.heard()) == DONE
        ends.hang_up()
    assert gateway.read == [ASKS]


@pytest.mark.parametrize(
    ("answer", "is_answer"),
    [
        (types.JSONRPCError(jsonrpc="2.0", id=7, error=types.ErrorData(code=-32602, message="No.")), True),
        (types.JSONRPCError(jsonrpc="2.0", id=7, error=types.ErrorData(code=-32800, message="Cancelled.")), False),
        (types.JSONRPCNotification(jsonrpc="2.0", method="x"), False),
        (ValueError("It fails."), False),
    ],
)
async def test_only_an_answer_counts_as_sent(ends: Ends, answer: Any, is_answer: bool) -> None:
    gateway = Echo(answer=answer)
    async with served(gateway, ends.stdin, ends.stdout):
        ends.say(line(ASKS))
        if not isinstance(answer, Exception):
            assert json.loads(await ends.heard()) == answer.model_dump(by_alias=True, exclude_unset=True)
        while not gateway.told:
            await asyncio.sleep(0)
        ends.hang_up()
    assert gateway.told == [(7, is_answer)]


async def test_a_client_that_reads_no_more_ends_the_server(ends: Ends) -> None:
    gateway = Echo()
    async with served(gateway, ends.stdin, ends.stdout):
        os.close(ends.out)
        ends.say(line(ASKS))
    assert gateway.told == [(7, False)]
    ends.hang_up()
    for _ in range(3):  # the other pipe is closed at its end
        await asyncio.sleep(0)


async def test_one_socket_is_stdin_and_stdout() -> None:
    gateway = Echo()
    own, theirs = socket.socketpair()
    with own, theirs:
        theirs.setblocking(True)
        stdout = os.dup(own.fileno())
        async with served(gateway, own.fileno(), stdout):
            theirs.sendall(line(ASKS))
            assert json.loads(await asyncio.to_thread(theirs.recv, 1000)) == DONE
            theirs.sendall(line(ASKS))
            assert json.loads(await asyncio.to_thread(theirs.recv, 1000)) == DONE
            theirs.shutdown(socket.SHUT_WR)
        os.close(stdout)
    assert gateway.told == [(7, True)] * 2


@pytest.mark.parametrize("which", [0, 1])
async def test_a_file_is_no_pipe(ends: Ends, which: int, tmp_path: Any) -> None:
    with (tmp_path / "file").open("w+b") as file:
        given = [ends.stdin, ends.stdout]
        given[which] = file.fileno()
        gateway: Any = Echo()
        with pytest.raises(UsageError) as refused:
            await serve_stdio(gateway, *given)
    assert (refused.value.code, refused.value.message) == (
        "no_pipe",
        "A client of this command speaks to it over pipes: name it as the command of a server in a client.",
    )
