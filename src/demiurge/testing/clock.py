"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count

from demiurge.errors import InvalidValue

__all__ = ["FrozenClock"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)


class FrozenClock:
    """A clock that stands still at `at` until `advance` moves it. Pass it as `clock` to a ToolRunner, an
    InMemoryApprovals, a Deadline or `memory_world`, and as the resource `Clock` to an AgentLoop.

    `at`: a datetime with a time zone, its ISO 8601 text, or seconds since 1970, UTC; by default 2030-01-01T00:00:00Z.
    Raises InvalidValue for any other value, and for a datetime without a time zone."""

    def __init__(self, at: datetime | str | float = "2030-01-01T00:00:00+00:00") -> None:
        self._now_ns = _nanoseconds(at)
        self._begun_ns = self._now_ns
        self._sleepers: list[tuple[int, int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._numbers = count()

    def __repr__(self) -> str:
        return f"FrozenClock({self.now.isoformat()!r})"

    @property
    def now(self) -> datetime:
        """The time at which the clock stands, UTC; below a microsecond it is cut off."""
        return _EPOCH + timedelta(microseconds=self._now_ns // 1000)

    def now_ns(self) -> int:
        """Returns nanoseconds since 1970, UTC."""
        return self._now_ns

    def monotonic_ns(self) -> int:
        """Returns the nanoseconds for which the clock was advanced."""
        return self._now_ns - self._begun_ns

    def advance(self, by: float | timedelta) -> None:
        """Moves the clock by seconds, or by a timedelta, and wakes what `sleep` has kept until then: a world's timers
        go off at its next `settle`. Raises InvalidValue for less than zero: a monotonic clock never goes back."""
        ns = (by // _US) * 1000 if isinstance(by, timedelta) else round(by * 1e9)
        if ns < 0:
            raise InvalidValue("must be at least 0: a clock never goes back", path="by")
        self._now_ns += ns
        while self._sleepers and self._sleepers[0][0] <= self._now_ns:
            _, _, loop, sleeper = heapq.heappop(self._sleepers)
            if not loop.is_closed():
                loop.call_soon_threadsafe(_wake, sleeper)

    async def sleep(self, seconds: float) -> None:
        """Waits until the clock was advanced by so many seconds."""
        loop = asyncio.get_running_loop()
        sleeper = loop.create_future()
        heapq.heappush(self._sleepers, (self._now_ns + round(seconds * 1e9), next(self._numbers), loop, sleeper))
        if seconds <= 0:
            self.advance(0)
        await sleeper


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


def _nanoseconds(at: datetime | str | float) -> int:
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            raise InvalidValue("is no time: write it as 2030-01-01T12:00:00+00:00", path="at") from None
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise InvalidValue("has no time zone: add one, such as tzinfo=UTC", path="at")
        return (at - _EPOCH) // _US * 1000
    return round(at * 1e9)
