"""Decides whether a request is retried, and after which wait. Pure but for the random jitter of the waits.

Invariant: `None` means no retry. Only refusals before any work have a wait at all (a failed connection; 429, 500, 502,
503, 529 in place of an answer). This is the only place that decides it: neither the HTTP library nor any code above the
client retries a request.
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
    """At most `retries` retries. The waits in seconds are 0.5, 1, 2, ... up to 8, each with jitter over [half, whole].
    A wait that the provider's headers ask for is used instead, unless it exceeds a minute: then the error is raised."""

    clock: Clock
    entropy: Entropy
    retries: int = 3

    def after_transport(self, attempt: int, cause: httpx.TransportError) -> float | None:
        safe = isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        return self._backoff(attempt) if safe and attempt < self.retries else None

    def after_refusal(self, attempt: int, error: ProviderError, headers: Mapping[str, str]) -> float | None:
        if attempt >= self.retries or error.status not in _STATUSES or error.code not in _CODES:
            return None
        requested_wait = seconds_asked(headers, self.clock.now_ns())
        if requested_wait is None:
            return self._backoff(attempt)
        return requested_wait if requested_wait <= _PATIENCE_S else None

    def spread(self, seconds: float) -> float:
        """Returns `seconds` plus up to a tenth, so that requests that wait for the same moment do not all come at
        once."""
        return seconds * (1 + _SPREAD * self._fraction())

    def _backoff(self, attempt: int) -> float:
        return float(min(_LONGEST_S, _FIRST_S * 2**attempt) * (0.5 + self._fraction() / 2))

    def _fraction(self) -> float:
        return int.from_bytes(self.entropy.token(4), "big") / 2**32
