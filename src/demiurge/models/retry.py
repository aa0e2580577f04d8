"""When to try a request again, and how long to wait. Pure but for the random spread of the waits.

Invariant: `None` means never: only refusals that come before any work (a connection that was not made; 429,
500, 502, 503, 529 in place of an answer) have a wait at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

import httpx

from demiurge.values.clock import Clock, Entropy
from demiurge.wire.errors import ProviderError

__all__ = ["Retry"]

_STATUSES = frozenset({429, 500, 502, 503, 529})
_CODES = frozenset({"rate_limit", "provider_unavailable", "timeout"})
_FIRST_S = 0.5
_LONGEST_S = 8.0
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Retry:
    """At most `retries` tries after the first. Waits in seconds: 0.5, 1, 2, ... up to 8, each spread over
    [half, whole]; the provider's own Retry-After counts instead, unless it is over a minute: then the
    error is better news."""

    clock: Clock
    entropy: Entropy
    retries: int = 3

    def after_transport(self, attempt: int, cause: httpx.TransportError) -> float | None:
        safe = isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        return self._backoff(attempt) if safe and attempt < self.retries else None

    def after_refusal(self, attempt: int, error: ProviderError, headers: Mapping[str, str]) -> float | None:
        if attempt >= self.retries or error.status not in _STATUSES or error.code not in _CODES:
            return None
        asked = self._asked(headers)
        if asked is None:
            return self._backoff(attempt)
        return asked if asked <= _PATIENCE_S else None

    def _backoff(self, attempt: int) -> float:
        spread = int.from_bytes(self.entropy.token(4), "big") / 2**32
        return float(min(_LONGEST_S, _FIRST_S * 2**attempt) * (0.5 + spread / 2))

    def _asked(self, headers: Mapping[str, str]) -> float | None:
        """Read `retry-after-ms` or `Retry-After` (seconds or an HTTP date); None when absent or
        unreadable."""
        for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
            text = headers.get(name, "").strip()
            if text.replace(".", "", 1).isdecimal() and text.isascii():
                return float(text) / unit
        try:
            when = parsedate_to_datetime(headers.get("retry-after", ""))
        except ValueError:
            return None
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return max(0.0, when.timestamp() - self.clock.now_ns() / 1e9)
