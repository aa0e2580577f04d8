"""Reads the wait that a provider asks for from the headers of its refusal, in one of six spellings.

Invariant: an unreadable header counts as absent; no wait is negative, and none is longer than the header says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

__all__ = ["seconds_asked"]

_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")
_DURATION = re.compile(r"(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)(h|ms|m|s))", re.ASCII)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_FORMS = (
    ("x-ratelimit-remaining-{}", "x-ratelimit-reset-{}"),
    ("anthropic-ratelimit-{}-remaining", "anthropic-ratelimit-{}-reset"),
)
_KINDS = ("requests", "tokens", "input-tokens", "output-tokens")
_LONG_AGO_S = 1e9
"""A bare number beyond this many seconds is a time, not a wait."""


def seconds_asked(headers: Mapping[str, str], now_ns: int) -> float | None:
    """Returns the wait in seconds: `retry-after-ms`, else `Retry-After` (seconds or an HTTP date), else the last reset
    of the limits that are used up (`x-ratelimit-reset-*`, `anthropic-ratelimit-*-reset`: durations such as `6m0s`,
    seconds, or times). None if no header can be read."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        if _NUMBER.fullmatch(text := headers.get(name, "").strip()):
            return float(text) / unit
    date = _http_date(headers.get("retry-after", ""))
    if date is not None:
        return _until(date, now_ns)
    return max(_resets(headers, now_ns), default=None)


def _resets(headers: Mapping[str, str], now_ns: int) -> Iterator[float]:
    """Returns the reset times of the limits whose remaining count is zero or missing."""
    for remaining, reset in _FORMS:
        for kind in _KINDS:
            if headers.get(remaining.format(kind), "0").strip() == "0":
                seconds = _reset(headers.get(reset.format(kind), "").strip(), now_ns)
                if seconds is not None:
                    yield seconds


def _reset(text: str, now_ns: int) -> float | None:
    if _NUMBER.fullmatch(text):
        number = float(text)
        return number if number < _LONG_AGO_S else max(0.0, number - now_ns / 1e9)
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    try:
        return _until(datetime.fromisoformat(text), now_ns)
    except ValueError:
        return None


def _http_date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None


def _until(when: datetime, now_ns: int) -> float:
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, when.timestamp() - now_ns / 1e9)
