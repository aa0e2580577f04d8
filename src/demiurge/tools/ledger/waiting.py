"""Waiting for an equal call to end, without ever waiting for oneself.

Invariant: no call waits for a claim that can't end before the call itself does. A handler that makes its own call
again would; so would two handlers that each make the other's, and whoever waits in a call that blocks the event loop
that the claim needs. Who would close such a circle is told so instead, in this process. What another process waits for
is not known, nor is a call known as its handler's that a thread makes without its handler's context variables: there
only a time limit helps, and every wait has one.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TypeAlias

from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.ledger.store import LedgerRow
from demiurge.values.forks import lock_over_forks, renew_in_child

__all__ = ["Bell", "Holding", "LoopBell", "ThreadBell", "blocking_its_loop", "end_hold", "hold", "waiting_for"]

_Held: TypeAlias = "tuple[object, _Held] | None"
Holding: TypeAlias = "contextvars.Token[_Held]"

_held: contextvars.ContextVar[_Held] = contextvars.ContextVar("demiurge_held_claims", default=None)
"""What the code that runs here belongs to, the innermost first: claims, by their effect id, and calls that block a
loop."""
_lock = lock_over_forks()
_waits: dict[object, tuple[frozenset[object], bytes]] = {}
_loops: dict[object, int] = {}
_blocked: dict[int, object] = {}


def _forget() -> None:
    """In a process that was forked off only this thread goes on, and it waits for nobody."""
    _waits.clear()
    for thread in _blocked.keys() - {threading.get_ident()}:
        del _blocked[thread]


renew_in_child(_forget)


def hold(claim: LedgerRow, loop_thread: int | None) -> Holding:
    """From here on what runs in this context belongs to the claim. `loop_thread`: the thread whose event loop it
    needs to come to its end, if any."""
    if loop_thread is not None:
        _loops[claim.effect_id] = loop_thread
    return _held.set((claim.effect_id, _held.get()))


def end_hold(claim: LedgerRow, token: Holding) -> None:
    """The end of that; in whatever context."""
    _loops.pop(claim.effect_id, None)
    try:
        _held.reset(token)
    except ValueError:  # a coroutine closed elsewhere: its own context is gone with it
        return


@contextmanager
def blocking_its_loop() -> Iterator[None]:
    """For a call that is made from the thread of an event loop, which stands still until the call ends."""
    thread = threading.get_ident()
    if asyncio._get_running_loop() is None or thread in _blocked:
        yield
        return
    call = _blocked[thread] = object()
    token = _held.set((call, _held.get()))
    try:
        yield
    finally:
        _held.reset(token)
        del _blocked[thread]


@contextmanager
def waiting_for(claim: LedgerRow) -> Iterator[None]:
    """Wait inside the block. Raises ToolFailure (`repeated_call`)."""
    held, wanted, wait = frozenset(_unrolled(_held.get())), claim.effect_id, object()
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


def _unrolled(held: _Held) -> Iterator[object]:
    while held is not None:
        first, held = held
        yield first


def _closes_a_circle(held: frozenset[object], wanted: bytes) -> bool:
    seen: set[object] = set()
    ahead: list[object] = [wanted]
    while ahead:
        one = ahead.pop()
        if one in held:
            return True
        if one not in seen:
            seen.add(one)
            ahead += [next_wanted for next_held, next_wanted in _waits.values() if one in next_held]
            if _loops.get(one) in _blocked:
                ahead.append(_blocked[_loops[one]])
    return False


class Bell(Protocol):
    """What a waiter listens to. `ring` may come from any thread. `place`: see `Watchers`."""

    @property
    def place(self) -> Hashable: ...

    def ring(self) -> None: ...

    def still(self) -> None:
        """Forget that it rang."""

    async def wait(self, seconds: float | None) -> bool:
        """Has it rung, or does it within `seconds`?"""


class LoopBell:
    """For a task: its event loop goes on."""

    def __init__(self) -> None:
        self.place, self._event = asyncio.get_running_loop(), asyncio.Event()

    def ring(self) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self.place.call_soon_threadsafe(self._event.set)

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

    place = None

    def __init__(self) -> None:
        self._event = threading.Event()

    def ring(self) -> None:
        self._event.set()

    def still(self) -> None:
        self._event.clear()

    async def wait(self, seconds: float | None) -> bool:
        return self._event.wait(seconds)
