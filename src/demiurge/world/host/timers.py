"""What waits for its time: an open intent in the journal, or the end of a request for approval. This is only who wakes
up for it.

An intent that is held has no attempt and no task: a restart holds it again, any number of times, and one whose time
went by while nobody ran is late and goes at once.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable

from demiurge.values.clock import Clock

__all__ = ["Sleep", "Timers"]

log = logging.getLogger("demiurge.world")

LONGEST_S = 60.0
"""Wall time can jump and a machine can sleep, so the clock is looked at this often while something waits."""

Sleep = Callable[[float], Awaitable[None]]


class Timers:
    """One task that sleeps until the earliest time; none when nothing waits."""

    def __init__(self, clock: Clock, sleep: Sleep = asyncio.sleep) -> None:
        self._clock, self._sleep = clock, sleep
        self._heap: list[tuple[int, bytes]] = []
        self._wake: dict[bytes, Callable[[], None]] = {}
        self._task: asyncio.Task[None] | None = None

    def hold(self, key: bytes, due_ns: int, wake: Callable[[], None]) -> bool:
        """Call `wake` once it is `due_ns` (wall time); False, and no call, when it is that late already.

        The same key again only replaces what is called.
        """
        if due_ns <= self._clock.now_ns():
            return False
        known = key in self._wake
        self._wake[key] = wake
        if not known:
            heapq.heappush(self._heap, (due_ns, key))
            if self._heap[0] == (due_ns, key):
                self._restart()
        return True

    def go_off(self) -> None:
        """Wake whoever's time has come; the task does so at the latest when it next looks at the clock."""
        while self._heap and self._heap[0][0] <= self._clock.now_ns():
            _, key = heapq.heappop(self._heap)
            try:
                self._wake.pop(key)()
            except Exception as error:  # noqa: BLE001 - one unit's trouble must not keep the others waiting
                log.warning("a timer could not go off: %s", type(error).__name__)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _restart(self) -> None:
        if self._task is not None:
            if self._task is asyncio.current_task():
                return  # it is about to look at what is the earliest now
            self._task.cancel()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._heap:
            left_ns = self._heap[0][0] - self._clock.now_ns()
            if left_ns > 0:
                await self._sleep(min(left_ns / 1e9, LONGEST_S))
            self.go_off()
        self._task = None
