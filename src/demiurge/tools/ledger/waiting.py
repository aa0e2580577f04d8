"""Waits for an equal call to end, without a deadlock.

Invariant: no call waits for a claim that cannot end before the call itself does. A handler that makes its own call
again would, and so would two handlers that each make the other's call, and a call that blocks the event loop which
the claim needs. In this process, a call that would close such a cycle gets an error instead. Two things are not
known here: what another process waits for, and that a thread which lost its handler's context variables makes the
handler's call. In these cases only a time limit helps, and every wait has one.
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

__all__ = ["Holding", "LoopWakeUp", "ThreadWakeUp", "WakeUp", "blocking_its_loop", "end_hold", "hold", "waiting_for"]

_Held: TypeAlias = "tuple[object, _Held] | None"
Holding: TypeAlias = "contextvars.Token[_Held]"

_held: contextvars.ContextVar[_Held] = contextvars.ContextVar("demiurge_held_claims", default=None)
"""The claims (by effect id) and loop-blocking calls that the running code belongs to, the innermost first."""
_lock = lock_over_forks()
_waits: dict[object, tuple[frozenset[object], bytes]] = {}
_loops: dict[object, int] = {}
_blocked: dict[int, object] = {}


def _forget() -> None:
    """Forgets all waits: in a forked process only this thread goes on, and it waits for nothing."""
    _waits.clear()
    for thread in _blocked.keys() - {threading.get_ident()}:
        del _blocked[thread]


renew_in_child(_forget)


def hold(claim: LedgerRow, loop_thread: int | None) -> Holding:
    """Makes the code that runs in this context from now on belong to the claim. `loop_thread`: the thread whose
    event loop the claim needs in order to end, if any."""
    if loop_thread is not None:
        _loops[claim.effect_id] = loop_thread
    return _held.set((claim.effect_id, _held.get()))


def end_hold(claim: LedgerRow, token: Holding) -> None:
    """Ends the effect of `hold`; in any context."""
    _loops.pop(claim.effect_id, None)
    try:
        _held.reset(token)
    except ValueError:  # the coroutine was closed in another context, and its own context no longer exists
        return


@contextmanager
def blocking_its_loop() -> Iterator[None]:
    """Marks a call made in the thread of an event loop, which is blocked until the call ends."""
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
    """Marks the `with` block as waiting for the claim. Raises ToolFailure (`repeated_call`) if the wait would never
    end."""
    held, wanted, wait = frozenset(_unrolled(_held.get())), claim.effect_id, object()
    if not held:
        yield
        return
    with _lock:
        if _closes_cycle(held, wanted):
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


def _closes_cycle(held: frozenset[object], wanted: bytes) -> bool:
    seen: set[object] = set()
    to_visit: list[object] = [wanted]
    while to_visit:
        one = to_visit.pop()
        if one in held:
            return True
        if one not in seen:
            seen.add(one)
            to_visit += [next_wanted for next_held, next_wanted in _waits.values() if one in next_held]
            if _loops.get(one) in _blocked:
                to_visit.append(_blocked[_loops[one]])
    return False


class WakeUp(Protocol):
    """A wake-up for one waiter. `ring` may be called in any thread. `place`: see `Watchers`."""

    @property
    def place(self) -> Hashable: ...

    def set(self) -> None: ...

    def clear(self) -> None:
        """Clears the wake-up."""

    async def wait(self, seconds: float | None) -> bool:
        """Returns whether the wake-up is set, or becomes set within `seconds`."""


class LoopWakeUp:
    """A wake-up for a task, whose event loop goes on meanwhile."""

    def __init__(self) -> None:
        self.place, self._event = asyncio.get_running_loop(), asyncio.Event()

    def set(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.place.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        self._event.clear()

    async def wait(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class ThreadWakeUp:
    """A wake-up for a call that may block its thread."""

    place = None

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    async def wait(self, seconds: float | None) -> bool:
        return self._event.wait(seconds)
