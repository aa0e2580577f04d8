from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.models.retry_after import seconds_asked

NOON = 1_795_262_400 * 10**9  # Sat, 21 Nov 2026 12:00:00 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:05 GMT"}, 5.0),
        ({"retry-after": "Sat, 21 Nov 2026 12:00:05 -0000"}, 5.0),
        ({"retry-after": "Sat, 21 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-tokens": "1m30.5s"}, 90.5),
        ({"x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-reset-tokens": "1h2m3s"}, 3723.0),
        ({"x-ratelimit-reset-requests": "12.5"}, 12.5),
        ({"x-ratelimit-reset-requests": "1795262407"}, 7.0),
        ({"x-ratelimit-reset-requests": "1795262000"}, 0.0),
        ({"anthropic-ratelimit-requests-reset": "2026-11-21T12:00:04Z"}, 4.0),
        ({"anthropic-ratelimit-input-tokens-reset": "2026-11-21T13:00:09+01:00"}, 9.0),
        ({"anthropic-ratelimit-output-tokens-reset": "2026-11-21T11:00:00Z"}, 0.0),
    ],
)
def test_every_spelling_of_a_wait_is_read(headers: dict[str, str], seconds: float) -> None:
    assert seconds_asked(headers, NOON) == seconds


def test_only_the_limits_that_are_used_up_count_and_of_those_the_last() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "99",
        "x-ratelimit-reset-requests": "50s",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "2s",
    }
    assert seconds_asked(headers, NOON) == 2.0
    assert seconds_asked({**headers, "x-ratelimit-remaining-requests": "0"}, NOON) == 50.0
    assert seconds_asked({**headers, "x-ratelimit-remaining-tokens": "5"}, NOON) is None
    assert seconds_asked({**headers, "retry-after": "1"}, NOON) == 1.0


@pytest.mark.parametrize("year", ["99999999999", "2026 00:00:00 +99999999999999"])
def test_a_date_that_no_clock_reaches_gives_no_delay(year: str) -> None:
    assert seconds_asked({"retry-after": f"Mon, 01 Jan {year} 00:00:00 GMT"}, NOON) is None


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf", "1.2.3", "²", "6m0", "s", "1e3", "9" * 400, "\u0663"])
def test_an_unreadable_retry_header_gives_no_delay(text: str) -> None:
    for name in ("retry-after", "retry-after-ms", "x-ratelimit-reset-requests", "anthropic-ratelimit-tokens-reset"):
        assert seconds_asked({name: text}, NOON) is None


@given(st.text(max_size=30))
def test_no_header_can_harm(text: str) -> None:
    for name in ("retry-after", "x-ratelimit-reset-tokens", "anthropic-ratelimit-requests-reset"):
        seconds = seconds_asked({name: text}, NOON)
        assert seconds is None or seconds >= 0
