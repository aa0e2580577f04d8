"""When to try a request again, and how long to wait. Pure but for the random spread of the waits.

Invariant: `None` means never: only refusals that come before any work (a connection that was not made; 429,
500, 502, 503, 529 in place of an answer) have a wait at all. This is the only place that decides it: neither the HTTP
library nor anything above the client tries a request again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from demiurge.models.retry_after import seconds_asked
from demiurge.values.clock import Clock, Entropy
from demiurge.wire.errors import ProviderError

__all__ = ["Retry"]

_STATUSES = frozenset({429, 500, 502, 503, 529})
_CODES = frozenset({"rate_limit", "provider_unavailable", "timeout"})
_FIRST_S = 0.5
_LONGEST_S = 8.0
_PATIENCE_S = 60.0
_SPREAD = 0.1


@dataclass(frozen=True, slots=True)
class Retry:
    """At most `retries` tries after the first. Waits in seconds: 0.5, 1, 2, ... up to 8, each spread over
    [half, whole]; what the provider's own headers ask for counts instead, unless it is over a minute: then the error is
    better news."""

    clock: Clock
    entropy: Entropy
    retries: int = 3

    def after_transport(self, attempt: int, cause: httpx.TransportError) -> float | None:
        safe = isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        return self._backoff(attempt) if safe and attempt < self.retries else None

    def after_refusal(self, attempt: int, error: ProviderError, headers: Mapping[str, str]) -> float | None:
        if attempt >= self.retries or error.status not in _STATUSES or error.code not in _CODES:
            return None
        asked = seconds_asked(headers, self.clock.now_ns())
        if asked is None:
            return self._backoff(attempt)
        return asked if asked <= _PATIENCE_S else None

    def spread(self, seconds: float) -> float:
        """`seconds` and up to a tenth more, so that those who wait for the same moment don't all come at once."""
        return seconds * (1 + _SPREAD * self._fraction())

    def _backoff(self, attempt: int) -> float:
        return float(min(_LONGEST_S, _FIRST_S * 2**attempt) * (0.5 + self._fraction() / 2))

    def _fraction(self) -> float:
        return int.from_bytes(self.entropy.token(4), "big") / 2**32
