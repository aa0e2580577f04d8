"""A reader waits while a server's requests are unanswered, and for nothing else."""

from __future__ import annotations

import asyncio

import pytest
from mcp_types import JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from demiurge.mcp.flow import Flow

MANY = 200


def asked(number: int) -> JSONRPCMessage:
    return JSONRPCRequest(jsonrpc="2.0", id=number, method="elicitation/create")


def cancelled(number: int) -> JSONRPCMessage:
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": number})


async def test_requests_that_the_server_cancelled_do_not_stop_the_reader() -> None:
    flow = Flow()
    async with asyncio.timeout(30):
        for number in range(MANY):
            await flow.received(asked(number))
            await flow.received(cancelled(number))


async def test_requests_without_an_answer_stop_the_reader_until_one_is_answered() -> None:
    flow = Flow()
    taken: list[int] = []

    async def read() -> None:
        for number in range(MANY):
            await flow.received(asked(number))
            taken.append(number)

    reading = asyncio.create_task(read())
    for _ in range(MANY):
        await asyncio.sleep(0)
    before = len(taken)
    assert before < MANY
    flow.sent(JSONRPCResponse(jsonrpc="2.0", id=0, result={}))
    for _ in range(MANY):
        await asyncio.sleep(0)
    assert len(taken) == before + 1
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
