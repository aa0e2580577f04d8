"""Which parts of a response carry an answer, and which say only that none comes."""

from __future__ import annotations

import pytest

from demiurge.mcp.gateway.answers import carries_answer


@pytest.mark.parametrize(
    ("body", "is_answer"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', True),
        (b'event: message\r\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\r\n\r\n', True),
        (b'data: {"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":""}}\n\n', True),
        (b'data: {"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}\n\n', False),
        (b'data: {"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Connection closed"}}\n\n', False),
        (b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"result":1}}\n\n', False),
        (b'{"error": {"code": -32021}}', True),
        (b'{"error": {"code": -32800}}', False),
        (b'{"error": {}}', True),
        (b'{"error": null}', False),
        (b"[]", False),
        (b'event: message\r\ndata: {\r\ndata: "result": {}}\r\n\r\n', True),
        (b": ping\r\n\r\n", False),
        (b"", False),
    ],
)
def test_an_answer_is_told_from_what_only_says_that_none_comes(body: bytes, is_answer: bool) -> None:
    assert carries_answer(body) is is_answer
