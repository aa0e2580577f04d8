"""Time that passes when a test says so: a clock that stands still, and sleepers who are woken when it is moved."""

from __future__ import annotations

import asyncio

from tests.world.scripted import SECOND, START_NS

from demiurge.values.clock import FixedClock
from demiurge.world.host import Host

__all__ = ["DAY", "HOUR", "Time", "turns"]

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
            await turns()
            now = self.clock.now_ns()
            due = [(at, woken) for at, woken in self._sleepers if at <= end]
            if not due:
                self.clock.advance(end - now)
                break
            at, woken = min(due, key=lambda sleeper: sleeper[0])
            self._sleepers.remove((at, woken))
            self.clock.advance(max(0, at - now))
            woken.set()
        await turns()
        await host.settle()


async def turns() -> None:
    """Let everything that can run on the loop run."""
    for _ in range(20):
        await asyncio.sleep(0)
