"""Rate limits: one gate for each endpoint (address and key), which closes after a refusal.

Invariant: after a refusal for its rate (429) no other request with the same key goes to the same address before the
time that the refusal named. The provider decides when a key may be used again.
"""

from __future__ import annotations

from demiurge.values.clock import Clock

__all__ = ["Endpoint", "RateLimitGate"]

Endpoint = tuple[str, str | None]
"""An address (scheme, host and port) and the key that is used there."""


class RateLimitGate:
    """The gates of one client, by endpoint. An endpoint that was never closed is open."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._closed: dict[Endpoint, int] = {}

    def close(self, endpoint: Endpoint, seconds: float) -> None:
        """Closes an endpoint for `seconds` from now, or leaves it closed until a later time already set."""
        until = self._clock.monotonic_ns() + int(seconds * 1e9)
        self._closed[endpoint] = max(until, self._closed.get(endpoint, until))

    def closed_until(self, endpoint: Endpoint) -> int:
        """Returns when an endpoint opens, in nanoseconds of the clock's monotonic time; 0 if it is open."""
        until = self._closed.get(endpoint, 0)
        if until <= self._clock.monotonic_ns():
            self._closed.pop(endpoint, None)
            return 0
        return until
