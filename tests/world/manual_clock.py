"""Time that passes when a test says so: a clock that stands still, and sleepers who are woken when it is moved."""

from __future__ import annotations

import asyncio

from tests.world.small_world import SECOND, START_NS

from demiurge.values.clock import FixedClock
from demiurge.world.host import Host

__all__ = ["DAY", "HOUR", "Time"]

HOUR = 3600 * SECOND
DAY = 24 * HOUR


class Time:
    """Give a host its `clock` and its `sleep`; `asked` is how long anybody wanted to sleep, in seconds."""

    def __init__(self, now_ns: int = START_NS) -> None:
        self.clock = FixedClock(now_ns)
        self.asked: list[float] = []
        self._sleepers: list[tuple[int, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        woken = asyncio.Event()
        self._sleepers.append((self.clock.now_ns() + int(seconds * SECOND), woken))
        await woken.wait()

    async def pass_by(self, ns: int, host: Host) -> None:
        """Move on as far as that, stopping wherever somebody wants to be woken."""
        end = self.clock.now_ns() + ns
        while True:
            await self.rest(host)
            now = self.clock.now_ns()
            due = [(at, woken) for at, woken in self._sleepers if at <= end]
            if not due:
                self.clock.advance(end - now)
                break
            at, woken = min(due, key=lambda sleeper: sleeper[0])
            self._sleepers.remove((at, woken))
            self.clock.advance(max(0, at - now))
            woken.set()
        await self.rest(host)

    async def rest(self, host: Host) -> None:
        """Wait until what can go on has come to its end, and whoever waits for a time then is asleep.

        A task that was woken or begun before has its turn in the next round of the loop, and says there how long it
        sleeps; what it begins is the host's, who knows when that is over."""
        await asyncio.sleep(0)
        await host.settle()
        await asyncio.sleep(0)
