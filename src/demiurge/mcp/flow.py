"""Limits between a server and this process: how large one message may be, and how fast messages are taken.

A server may send anything at any rate. So a message is never held beyond its limit, what a server sends unasked is read
at a bounded rate and stays in its pipe, and a server that does not read our answers is not read either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

__all__ = ["LEAKED", "TOO_LARGE", "CallNote", "Flow", "current_note", "message_limit", "noting"]

TOO_LARGE: Final = -31999
"""The code of the error with which a transport answers a request in place of an answer that is too large."""

LEAKED: Final = -31998
"""The code of the error with which a transport answers a request in place of an answer that holds a token."""

_SMALLEST_LIMIT: Final = 4 << 20
_BURST: Final = 256
_PAUSE_S: Final = 0.05
_MAX_UNANSWERED: Final = 64


def message_limit(max_result_bytes: int) -> int:
    """Returns the most bytes that one message may have: JSON may write a result in twice its bytes, and a page of tools
    has to fit too."""
    return max(2 * max_result_bytes + _SMALLEST_LIMIT // 4, _SMALLEST_LIMIT)


@dataclass(slots=True)
class CallNote:
    """Facts about one request that only its transport knows. `sent`: bytes of it may have left this process. `taken`:
    the server has begun to answer it over HTTP, so what becomes of later requests for it, such as those that take up a
    stream that broke, says nothing about whether it acted.
    `too_large`: its answer was larger than the limit. `status`: the HTTP status of an error. `is_answer`: False if what
    came back over HTTP is no message of the protocol, so that an error was made on this side; `problem`: a sentence
    about it for people."""

    sent: bool = False
    taken: bool = False
    too_large: bool = False
    status: int | None = None
    is_answer: bool = True
    problem: str = ""


_NOTE: ContextVar[CallNote | None] = ContextVar("mcp_call_note", default=None)


def current_note() -> CallNote | None:
    """Returns the note of the request that this code works for; None for messages of the connection itself."""
    return _NOTE.get()


@contextmanager
def noting(note: CallNote) -> Iterator[None]:
    """Makes `note` the note of the requests that are sent in the `with` block."""
    token = _NOTE.set(note)
    try:
        yield
    finally:
        _NOTE.reset(token)


class Flow:
    """Counts the messages of one connection, and slows its reader down. A request of the server is open until it is
    answered here, or the server cancels it: then the protocol gives it no answer."""

    def __init__(self) -> None:
        self._unasked = 0
        self._open_requests: set[str] = set()
        self._answered = asyncio.Event()

    async def received(self, message: JSONRPCMessage) -> None:
        """Counts a message of the server, and waits if there were too many since the last answer."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._unasked = 0
            return
        self._unasked += 1
        if self._unasked >= _BURST:
            self._unasked = 0
            await asyncio.sleep(_PAUSE_S)
        if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._open_requests.discard(str((message.params or {}).get("requestId")))
        if isinstance(message, JSONRPCRequest):
            self._open_requests.add(str(message.id))
            while len(self._open_requests) > _MAX_UNANSWERED:
                self._answered.clear()
                await self._answered.wait()

    def sent(self, message: JSONRPCMessage) -> None:
        """Counts a message that was sent to the server."""
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._open_requests.discard(str(message.id))
            self._answered.set()
