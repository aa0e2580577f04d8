from __future__ import annotations

from demiurge.models.rate_limit import RateLimitGate
from demiurge.values.clock import FixedClock

DOOR, OTHER_KEY, OTHER_HOST = ("https://a", "k"), ("https://a", "l"), ("https://b", "k")
SECOND = 10**9


def test_an_endpoint_is_closed_for_its_address_and_key_alone_until_its_time() -> None:
    clock = FixedClock(5 * SECOND)
    gate = RateLimitGate(clock)
    assert gate.closed_until(DOOR) == 0
    gate.close(DOOR, 2.0)
    assert gate.closed_until(DOOR) == 7 * SECOND
    assert gate.closed_until(OTHER_KEY) == gate.closed_until(OTHER_HOST) == 0
    clock.advance(2 * SECOND)
    assert gate.closed_until(DOOR) == 0


def test_a_shorter_wait_does_not_open_an_endpoint_earlier() -> None:
    gate = RateLimitGate(FixedClock(0))
    gate.close(DOOR, 9.0)
    gate.close(DOOR, 1.0)
    assert gate.closed_until(DOOR) == 9 * SECOND
    gate.close(DOOR, 10.0)
    assert gate.closed_until(DOOR) == 10 * SECOND
