"""Lines of a server: none is held beyond its limit, whatever the server writes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import PARSE_ERROR, JSONRPCError, JSONRPCResponse

from demiurge.mcp.flow import TOO_LARGE, Flow
from demiurge.mcp.stdio_transport import MessageReader

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
