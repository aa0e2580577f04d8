"""Lines of a server: none is held beyond its limit, whatever the server writes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from demiurge.mcp import stdio_transport as transport
from demiurge.mcp.flow import TOO_LARGE, CallNote, Flow, noting
from demiurge.mcp.stdio_transport import MessageReader, stdio_transport

LIMIT = 100_000
DONE = {"jsonrpc": "2.0", "id": 7, "result": {"content": []}}


@dataclass
class Output:
    """The standard output of a server, in pieces; `most` is the most bytes that the reader held when it asked."""

    pieces: list[bytes]
    reader: Any = None
    most: int = 0

    async def read(self, _size: int) -> bytes:
        self.most = max(self.most, len(self.reader._buffer))
        await asyncio.sleep(0)
        return self.pieces.pop(0) if self.pieces else b""


@dataclass
class Process:
    stdout: Any


async def messages(pieces: list[bytes]) -> tuple[list[Any], Output]:
    output = Output(pieces)
    output.reader = reader = MessageReader(Process(output), LIMIT, Flow(), lambda: None)  # type: ignore[arg-type]
    return [item.message async for item in reader if not isinstance(item, Exception)], output


@given(st.lists(st.integers(1, 40), min_size=1), st.lists(st.sampled_from([DONE, {"jsonrpc": "2.0", "method": "x"}])))
async def test_messages_do_not_depend_on_how_they_are_cut(cuts: list[int], sent: list[dict[str, Any]]) -> None:
    text = b"".join(json.dumps(message).encode() + b"\n" for message in sent)
    pieces: list[bytes] = []
    at = 0
    while at < len(text):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(text[at : at + size])
        at += size
    found, _ = await messages(pieces)
    assert [message.model_dump(exclude_none=True) for message in found] == sent


@pytest.mark.parametrize("head", ['{"jsonrpc":"2.0","id":7,"result":"', '{"id": 7, "jsonrpc": "2.0", "result": "'])
async def test_a_line_over_the_limit_is_answered_and_never_held(head: str) -> None:
    long = [head.encode(), *[b"x" * 65_536] * 1600, b'"}\n' + json.dumps(DONE).encode() + b"\n"]
    found, output = await messages(long)
    assert [type(message) for message in found] == [JSONRPCError, JSONRPCResponse]
    assert (found[0].id, found[0].error.code) == (7, TOO_LARGE)
    assert output.most <= LIMIT + 65_536


async def test_a_line_over_the_limit_without_a_known_request_is_dropped() -> None:
    found, _ = await messages([b"x" * (LIMIT + 1), b"yyy\n", json.dumps(DONE).encode() + b"\n"])
    assert [message.id for message in found] == [7]


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        (b"Listening on port 3\n", []),
        (b"[]\n", []),
        (b"\xff\xfe\n", []),
        (b"\n", []),
        (b'{"jsonrpc":"2.0","id":7,"result":[1]}\n', [PARSE_ERROR]),
        (b'{"result":"x","id":7}\n', [PARSE_ERROR]),
        (b'{"jsonrpc":"2.0","id":7}\n', [PARSE_ERROR]),
        (b'{"jsonrpc":"2.0","id":7,"method":3}\n', []),
        (b'{"jsonrpc":"2.0","id":7,"result":' + b"[" * 5000 + b"}\n", [PARSE_ERROR]),
    ],
)
async def test_a_line_that_is_no_message(line: bytes, codes: list[int]) -> None:
    found, _ = await messages([line, json.dumps(DONE).encode() + b"\n"])
    assert [message.error.code for message in found[:-1]] == codes
    assert found[-1].id == 7


@pytest.mark.parametrize(
    ("head", "number"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":"', 7),
        (b' { "jsonrpc" : "2.0" , "id" : 123456789012345 , "result": "', 123456789012345),
        (b'{"id":7}', 7),
        (b'{"id":1234567890123456,"result":"', None),
        (b'{"result":"', None),
        (b'x{"id":7,"result":"', None),
    ],
)
async def test_a_line_one_byte_over_the_limit_is_answered_if_it_begins_like_an_answer(
    head: bytes, number: int | None
) -> None:
    long = head + b"x" * (LIMIT + 1 - len(head))
    found, _ = await messages([long, b"y" * 100, b"z" * 100 + b"\n" + json.dumps(DONE).encode() + b"\n"])
    nodes = [message.model_dump(exclude_none=True) for message in found]
    data = {"code": TOO_LARGE, "message": f"the answer has {LIMIT + 201 + len(json.dumps(DONE)) + 2} bytes"}
    refused = [{"jsonrpc": "2.0", "id": number, "error": data}] if number is not None else []
    assert nodes == [*refused, DONE]


async def test_a_line_at_the_limit_is_read() -> None:
    text = json.dumps(DONE).encode()
    found, _ = await messages([text + b" " * (LIMIT - len(text)), b"\n"])
    assert [message.model_dump(exclude_none=True) for message in found] == [DONE]


@pytest.mark.parametrize(("pieces", "is_read"), [(15, True), (16, False)])
async def test_a_line_that_does_not_end_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch, pieces: int, is_read: bool
) -> None:
    monkeypatch.setattr(transport, "MAX_DISCARDED", LIMIT + 1 + 15 * 1000 + 1)
    long = [b"x" * (LIMIT + 1), *[b"y" * 1000] * pieces, b"\n", json.dumps(DONE).encode() + b"\n"]
    if is_read:
        monkeypatch.setattr(transport, "MAX_DISCARDED", LIMIT + 1 + 15 * 1000 + 1 + len(json.dumps(DONE)) + 1)
    found, output = await messages(long)
    assert [message.id for message in found] == ([7] if is_read else [])
    assert bool(output.pieces) is not is_read


async def test_an_error_in_place_of_a_line_that_is_no_message_names_its_request() -> None:
    found, _ = await messages([b'{"result": 1, "id": 9 }\n'])
    error = {"code": PARSE_ERROR, "message": "no answer"}
    assert [each.model_dump(exclude_none=True) for each in found] == [{"jsonrpc": "2.0", "id": 9, "error": error}]


@dataclass
class Input:
    """The standard input of a server: `lines` were written, and `fails` is raised when they are to be taken."""

    lines: list[bytes]
    drained: int = 0
    closes: bool = False
    fails: Exception | None = None

    def is_closing(self) -> bool:
        return self.closes

    def write(self, line: bytes) -> None:
        self.lines.append(line)

    async def drain(self) -> None:
        self.drained += 1
        if self.fails is not None:
            raise self.fails


REQUEST = JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/list")
NOTICE = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1})


async def test_messages_are_written_as_lines_and_only_a_notification_is_not_waited_for() -> None:
    stdin, ended, note = Input([]), list[str](), CallNote()
    process: Any = Process(Output([]))
    process.stdin = stdin
    process.stdout.reader = Process(None)
    process.stdout.reader._buffer = b""
    flow = Flow()
    flow._open_requests.add("5")
    async with stdio_transport(process, LIMIT, flow, lambda: ended.append("ended")) as (reader, writer), reader, writer:
        with noting(note):
            await writer.send(SessionMessage(NOTICE))
            assert (note.sent, stdin.drained) == (False, 0)
            await writer.send(SessionMessage(REQUEST))
            assert (note.sent, stdin.drained) == (True, 1)
        await writer.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=5, result={})))
        assert flow._open_requests == set()
        assert stdin.lines == [
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n',
            b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n',
            b'{"jsonrpc":"2.0","id":5,"result":{}}\n',
        ]
        for fails in (ConnectionResetError(), RuntimeError()):
            stdin.fails = fails
            with pytest.raises(anyio.BrokenResourceError):
                await writer.send(SessionMessage(REQUEST))
        stdin.closes, other = True, CallNote()
        with noting(other), pytest.raises(anyio.BrokenResourceError):
            await writer.send(SessionMessage(REQUEST))
        assert (other.sent, len(stdin.lines)) == (False, 5)
        assert [each async for each in reader] == []
        assert ended == ["ended"]
    with pytest.raises(anyio.EndOfStream):
        await reader.receive()
