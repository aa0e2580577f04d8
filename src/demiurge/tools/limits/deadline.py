"""Deadlines: the moment at which a run has to be over.

A deadline is a point in time and not a duration, so that it can be passed on, from a loop to a tool to what the tool
calls, and all of them see the same remaining time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from demiurge.tools.errors import InvalidLimit
from demiurge.values.clock import Clock, SystemClock

__all__ = ["Deadline"]

_SHORTEST = timedelta(seconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Deadline:
    """`expires_at`: with a time zone and at least one second ahead, else InvalidLimit (a ValueError). `clock`
    provides the time."""

    expires_at: datetime
    clock: Clock = field(default=SystemClock(), kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.expires_at, datetime) or self.expires_at.utcoffset() is None:
            raise InvalidLimit("must be a datetime with a time zone", path="expires_at")
        left = self.remaining()
        if left <= timedelta():
            raise InvalidLimit("must lie in the future", path="expires_at")
        if left < _SHORTEST:
            raise InvalidLimit("must be at least one second ahead", path="expires_at")

    @classmethod
    def handed_on(cls, time_ns: int, *, clock: Clock) -> Deadline:
        """Returns a deadline that was set elsewhere, at `time_ns` nanoseconds since 1970, even if it is very near or
        past."""
        made = object.__new__(cls)
        object.__setattr__(made, "expires_at", _EPOCH + timedelta(microseconds=time_ns // 1000))
        object.__setattr__(made, "clock", clock)
        return made

    def remaining(self, *, now: datetime | None = None) -> timedelta:
        """Returns the time that is left, zero or less if it is over. `now`: with a time zone, used instead of the
        clock's time. Raises InvalidLimit."""
        if now is None:
            now = _EPOCH + timedelta(microseconds=self.clock.now_ns() // 1000)
        elif now.utcoffset() is None:
            raise InvalidLimit("the time now needs a time zone", path="now")
        return self.expires_at - now
