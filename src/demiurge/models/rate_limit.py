"""Who must wait because somebody else was told to: one gate for each address and key.

Invariant: after a refusal for its rate (429) no other request with the same key goes to the same address before the
time that the refusal named. Where a key may be used again is decided by the provider, not by whoever asks next.
"""

from __future__ import annotations

from demiurge.values.clock import Clock

__all__ = ["Endpoint", "RateLimitGate"]

Endpoint = tuple[str, str | None]
"""An address (scheme, host and port) and the key that is used there."""


class RateLimitGate:
    """The doors of one client. A door that nobody closed is open."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._closed: dict[Endpoint, int] = {}

    def close(self, door: Endpoint, seconds: float) -> None:
        """Keep a door closed for `seconds` from now, or as long as it is already."""
        until = self._clock.monotonic_ns() + int(seconds * 1e9)
        self._closed[door] = max(until, self._closed.get(door, until))

    def closed_until(self, door: Endpoint) -> int:
        """When a door opens, on the clock's monotonic hand in nanoseconds; 0 when it is open."""
        until = self._closed.get(door, 0)
        if until <= self._clock.monotonic_ns():
            self._closed.pop(door, None)
            return 0
        return until
