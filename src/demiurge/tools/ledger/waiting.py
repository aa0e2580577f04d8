"""Waiting for an equal call to end, without ever waiting for oneself.

Invariant: no call waits for a claim that can't end before the call itself does. A handler that makes its own call
again would; so would two handlers that each make the other's, and a thread that blocks while the event loop it
belongs to runs the claim. Who would close such a circle is told so instead, in this process; what another process
waits for is not known, there only a time limit helps.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.ledger.store import LedgerRow

__all__ = ["Bell", "LoopBell", "ThreadBell", "hold", "let_loose", "waiting_for"]

_held: contextvars.ContextVar[frozenset[bytes]] = contextvars.ContextVar("demiurge_held_claims", default=frozenset())
_lock = threading.Lock()
_waits: dict[object, tuple[frozenset[bytes], bytes]] = {}
_loops: dict[bytes, int] = {}


def hold(claim: LedgerRow, loop_thread: int | None) -> contextvars.Token[frozenset[bytes]]:
    """From here on what runs in this context belongs to the claim. `loop_thread`: the thread whose event loop it
    needs to come to its end, if any."""
    if loop_thread is not None:
        _loops[claim.effect_id] = loop_thread
    return _held.set(_held.get() | {claim.effect_id})


def let_loose(claim: LedgerRow, token: contextvars.Token[frozenset[bytes]]) -> None:
    """The end of that; in whatever context."""
    _loops.pop(claim.effect_id, None)
    with suppress(ValueError):  # a coroutine closed elsewhere: its own context is gone with it
        _held.reset(token)


@contextmanager
def waiting_for(claim: LedgerRow, blocked_thread: int | None) -> Iterator[None]:
    """Wait inside the block. `blocked_thread`: the thread that can do nothing else meanwhile. Raises ToolFailure
    (`repeated_call`)."""
    held, wanted, wait = _held.get(), claim.effect_id, object()
    if blocked_thread is not None and _loops.get(wanted) == blocked_thread:
        raise ToolFailure(ToolErrorCode.REPEATED_CALL)
    if not held:
        yield
        return
    with _lock:
        if _closes_a_circle(held, wanted):
            raise ToolFailure(ToolErrorCode.REPEATED_CALL)
        _waits[wait] = held, wanted
    try:
        yield
    finally:
        with _lock:
            del _waits[wait]


def _closes_a_circle(held: frozenset[bytes], wanted: bytes) -> bool:
    seen: set[bytes] = set()
    ahead = [wanted]
    while ahead:
        claim = ahead.pop()
        if claim in held:
            return True
        if claim not in seen:
            seen.add(claim)
            ahead += [next_wanted for next_held, next_wanted in _waits.values() if claim in next_held]
    return False


class Bell(Protocol):
    """What a waiter listens to. `ring` may come from any thread."""

    def ring(self) -> None: ...

    def still(self) -> None:
        """Forget that it rang."""

    async def wait(self, seconds: float | None) -> bool:
        """Has it rung, or does it within `seconds`?"""


class LoopBell:
    """For a task: its event loop goes on."""

    def __init__(self) -> None:
        self._loop, self._event = asyncio.get_running_loop(), asyncio.Event()

    def ring(self) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self._loop.call_soon_threadsafe(self._event.set)

    def still(self) -> None:
        self._event.clear()

    async def wait(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class ThreadBell:
    """For a call that has its thread to itself: it waits here and now."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ring(self) -> None:
        self._event.set()

    def still(self) -> None:
        self._event.clear()

    async def wait(self, seconds: float | None) -> bool:
        return self._event.wait(seconds)
