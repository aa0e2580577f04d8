"""Timers: wake held intents at their time, and end requests for approval. The journal holds both; a timer only wakes.

A held intent has no attempt and no task. So a restart holds it again, any number of times, and an intent whose time
passed while no process ran begins at once.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable

from demiurge.values.clock import Clock
from demiurge.world.unit import Unit

__all__ = ["Sleep", "Timers"]

log = logging.getLogger("demiurge.world")

LONGEST_S = 60.0
"""How often the clock is read while something is held, in seconds: wall time can jump and a machine can sleep."""

RELEASED = 64
"""How many released entries may stay in the heap."""

Sleep = Callable[[float], Awaitable[None]]


class Timers:
    """One task that sleeps until the earliest time; no task if nothing is held."""

    def __init__(self, clock: Clock, sleep: Sleep = asyncio.sleep) -> None:
        self._clock, self._sleep = clock, sleep
        self._heap: list[tuple[int, bytes]] = []
        self._held: dict[bytes, tuple[int, Callable[[], None], Unit]] = {}
        """Key -> its time, the callback and the unit. Other entries of the heap were released."""
        self._task: asyncio.Task[None] | None = None

    def units(self) -> set[Unit]:
        """Returns the units for which something is held."""
        return {unit for _, _, unit in self._held.values()}

    def hold(self, key: bytes, due_ns: int, wake: Callable[[], None], unit: Unit) -> bool:
        """Calls `wake` at `due_ns` (wall time), for `unit`. Returns False, without a call, if that time has passed.

        Holding the same key again only replaces the callback.
        """
        if due_ns <= self._clock.now_ns():
            return False
        if key in self._held:
            self._held[key] = self._held[key][0], wake, unit
            return True
        self._held[key] = due_ns, wake, unit
        heapq.heappush(self._heap, (due_ns, key))
        if self._heap[0] == (due_ns, key):
            self._restart()
        return True

    def release(self, key: bytes) -> None:
        """Cancels the callback of `key`, if it is held."""
        if self._held.pop(key, None) is not None and len(self._heap) > 2 * len(self._held) + RELEASED:
            self._heap = [(due_ns, held) for due_ns, held in self._heap if self._is_held(held, due_ns)]
            heapq.heapify(self._heap)

    def _is_held(self, key: bytes, due_ns: int) -> bool:
        return key in self._held and self._held[key][0] == due_ns

    def go_off(self) -> None:
        """Calls every callback whose time has come; the task does the same when it next reads the clock."""
        while self._heap and self._heap[0][0] <= self._clock.now_ns():
            due_ns, key = heapq.heappop(self._heap)
            if not self._is_held(key, due_ns):
                continue
            _, wake, _ = self._held.pop(key)
            try:
                wake()
            except Exception as error:  # noqa: BLE001 - one unit's failure must not stop the other timers
                log.warning("the callback of a timer failed: %s", type(error).__name__)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _restart(self) -> None:
        if self._task is not None:
            if self._task is asyncio.current_task():
                return  # the task itself looks up the earliest time next
            self._task.cancel()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._heap:
            left_ns = self._heap[0][0] - self._clock.now_ns()
            if left_ns > 0:
                await self._sleep(min(left_ns / 1e9, LONGEST_S))
            self.go_off()
        self._task = None
