from __future__ import annotations

import httpx
import pytest

from demiurge.models.retry import Retry
from demiurge.values.clock import FixedClock, SeededEntropy
from demiurge.wire.errors import ProviderError

NOON = 1_795_262_400 * 10**9  # Sat, 21 Nov 2026 12:00:00 GMT


def retry(seed: int = 1) -> Retry:
    return Retry(FixedClock(NOON), SeededEntropy(seed))


def refusal(status: int = 429, code: str = "rate_limit") -> ProviderError:
    return ProviderError(code=code, status=status)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0"}, 0.0),
        ({"anthropic-ratelimit-requests-reset": "2026-11-21T12:00:04Z"}, 4.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, None),
        ({"retry-after": "61"}, None),
    ],
)
def test_the_providers_own_wait_counts(headers: dict[str, str], wait: float | None) -> None:
    assert retry().after_refusal(0, refusal(), headers) == wait


def test_a_refusal_that_asks_for_no_wait_has_the_usual_one() -> None:
    wait = retry().after_refusal(0, refusal(), {"retry-after": "soon"})
    assert wait is not None
    assert 0.25 <= wait <= 0.5


def test_a_spread_wait_is_never_shorter_and_at_most_a_tenth_longer() -> None:
    waits = {retry(seed).spread(10.0) for seed in range(20)}
    assert len(waits) > 10
    assert all(10.0 <= wait <= 11.0 for wait in waits)


def test_waits_double_and_are_spread_and_bounded() -> None:
    patient = Retry(FixedClock(0), SeededEntropy(2), retries=9)
    for attempt, longest in enumerate((0.5, 1, 2, 4, 8, 8, 8)):
        wait = patient.after_refusal(attempt, refusal(), {})
        assert wait is not None
        assert longest / 2 <= wait <= longest


def test_only_what_can_not_have_begun_is_tried_again() -> None:
    request = httpx.Request("POST", "http://x")
    for cause in (httpx.ConnectError("x", request=request), httpx.ConnectTimeout("x", request=request)):
        assert retry().after_transport(0, cause) is not None
        assert retry().after_transport(3, cause) is None
    for other in (httpx.ReadTimeout("x"), httpx.RemoteProtocolError("x"), httpx.WriteError("x")):
        assert retry().after_transport(0, other) is None


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "invalid_request"),
        (401, "authentication"),
        (408, "timeout"),
        (429, "insufficient_quota"),
        (504, "timeout"),
    ],
)
def test_a_refusal_that_would_repeat_is_not_retried(status: int, code: str) -> None:
    assert retry().after_refusal(0, refusal(status, code), {"retry-after": "1"}) is None
