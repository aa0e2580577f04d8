"""`LocalTimer`: a wait within one process, for the tools of a runner without a world."""

from __future__ import annotations

from typing import Final, Self

from demiurge.tools.capabilities import Clock, FollowsClock
from demiurge.values.clock import SystemClock, sleep_of

__all__ = ["LocalTimer"]

_LOOK_AGAIN_S: Final = 0.5
"""How long one sleep lasts at most, so that a clock that is set, or a machine that slept, is noticed."""


class LocalTimer(FollowsClock):
    """A `Timer` that waits as long as its process runs; in a world a wait outlives the process. Given to a ToolRunner
    it follows the runner's clock, else the machine's. A call that is cancelled, or whose time is up, stops waiting."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock

    def with_clock(self, clock: Clock) -> Self:
        return self if self._clock is not None else type(self)(clock)

    async def wait_until(self, time_ns: int) -> int:
        clock = self._clock or SystemClock()
        while True:
            now = clock.now_ns()
            if now >= time_ns:
                return now
            await sleep_of(clock)(min((time_ns - now) / 1e9, _LOOK_AGAIN_S))
