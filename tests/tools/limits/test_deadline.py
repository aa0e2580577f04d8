"""A deadline is a moment ahead, and says how far ahead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge import Deadline, DemiurgeError, InvalidValue
from demiurge.values.clock import FixedClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_NS = int(NOON.timestamp()) * 1_000_000_000


def at_noon(expires_at: datetime) -> Deadline:
    return Deadline(expires_at, clock=FixedClock(NOON_NS))


@pytest.mark.parametrize(
    ("expires_at", "words"),
    [
        (NOON.replace(day=2, tzinfo=None), "time zone"),
        ("2026-01-02T00:00:00Z", "time zone"),
        (NOON - timedelta(days=1), "future"),
        (NOON, "future"),
        (NOON + timedelta(microseconds=1), "one second"),
        (NOON + timedelta(seconds=1, microseconds=-1), "one second"),
    ],
)
def test_a_deadline_without_time_zone_in_the_past_or_too_near_is_refused(expires_at: datetime, words: str) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        at_noon(expires_at)
    assert isinstance(raised.value, InvalidValue)
    assert isinstance(raised.value, DemiurgeError)


def test_a_deadline_may_be_one_second_away() -> None:
    assert at_noon(NOON + timedelta(seconds=1)).remaining() == timedelta(seconds=1)


def test_any_time_zone_will_do() -> None:
    tokyo = timezone(timedelta(hours=9))
    assert at_noon((NOON + timedelta(minutes=1)).astimezone(tokyo)).remaining() == timedelta(minutes=1)


def test_the_time_left_shrinks_and_goes_below_nothing() -> None:
    clock = FixedClock(NOON_NS)
    deadline = Deadline(NOON + timedelta(seconds=2), clock=clock)
    clock.advance(1_999_999_000)
    assert deadline.remaining() == timedelta(microseconds=1)
    clock.advance(1_000_001_000)
    assert deadline.remaining() == timedelta(seconds=-1)


def test_the_machines_clock_is_the_default() -> None:
    assert Deadline(datetime.now(UTC) + timedelta(hours=1)).remaining() <= timedelta(hours=1)


@given(st.timedeltas(timedelta(-9999), timedelta(9999)))
def test_remaining_counts_from_the_time_that_is_given(after: timedelta) -> None:
    deadline = at_noon(NOON + timedelta(hours=1))
    assert deadline.remaining(now=NOON + after) == timedelta(hours=1) - after


def test_remaining_refuses_a_time_without_a_time_zone() -> None:
    with pytest.raises(ValueError, match="time zone"):
        at_noon(NOON + timedelta(hours=1)).remaining(now=NOON.replace(tzinfo=None))


def test_equal_moments_are_equal_deadlines() -> None:
    moment = NOON + timedelta(hours=1)
    assert at_noon(moment) == at_noon(moment)
    assert len({at_noon(moment), at_noon(moment)}) == 1


def test_a_deadline_that_is_handed_on_may_be_near_or_over() -> None:
    clock = FixedClock(NOON_NS)
    assert Deadline.handed_on(NOON_NS + 2_000, clock=clock).remaining() == timedelta(microseconds=2)
    assert Deadline.handed_on(NOON_NS - 10**9, clock=clock).remaining() == timedelta(seconds=-1)
    assert Deadline.handed_on(NOON_NS + 10**10, clock=clock) == at_noon(NOON + timedelta(seconds=10))
