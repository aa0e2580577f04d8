"""Whoever is held is woken at its time, once, unless it was released; what was released leaves memory."""

from __future__ import annotations

from tests.world.manual_clock import HOUR, Time

from demiurge.world.host.timers import RELEASED, Timers
from demiurge.world.unit import Unit

UNIT = Unit("m/Room@1", "a")


async def test_each_timer_wakes_once_at_its_time() -> None:
    time, woken = Time(), list[str]()
    timers = Timers(time.clock, time.sleep)
    now = time.clock.now_ns()
    assert timers.hold(b"b", now + 2 * HOUR, lambda: woken.append("b"), UNIT)
    assert timers.hold(b"a", now + HOUR, lambda: woken.append("a"), UNIT)
    assert not timers.hold(b"late", now, lambda: woken.append("late"), UNIT)
    assert timers.units() == {UNIT}
    time.clock.advance(HOUR)
    timers.go_off()
    assert woken == ["a"]
    time.clock.advance(HOUR)
    timers.go_off()
    timers.go_off()
    assert woken == ["a", "b"]
    await timers.close()


async def test_a_released_timer_does_not_wake_and_can_be_set_again() -> None:
    time, woken = Time(), list[str]()
    timers = Timers(time.clock, time.sleep)
    now = time.clock.now_ns()
    timers.release(b"nobody")
    timers.hold(b"a", now + HOUR, lambda: woken.append("first"), UNIT)
    timers.release(b"a")
    timers.hold(b"a", now + 3 * HOUR, lambda: woken.append("second"), UNIT)
    time.clock.advance(2 * HOUR)
    timers.go_off()
    assert woken == []
    time.clock.advance(HOUR)
    timers.go_off()
    assert woken == ["second"]
    await timers.close()


async def test_the_same_key_again_keeps_its_time() -> None:
    time, woken = Time(), list[str]()
    timers = Timers(time.clock, time.sleep)
    now = time.clock.now_ns()
    timers.hold(b"a", now + HOUR, lambda: woken.append("first"), UNIT)
    timers.hold(b"a", now + 2 * HOUR, lambda: woken.append("second"), UNIT)
    time.clock.advance(HOUR)
    timers.go_off()
    assert woken == ["second"]
    await timers.close()


async def test_times_that_were_released_leave_memory() -> None:
    time, woken = Time(), list[int]()
    timers = Timers(time.clock, time.sleep)
    due = time.clock.now_ns() + HOUR
    timers.hold(b"kept", due + 1, lambda: woken.append(-1), UNIT)
    for number in range(10 * RELEASED):
        timers.hold(str(number).encode(), due, lambda number=number: woken.append(number), UNIT)  # type: ignore[misc]
        timers.release(str(number).encode())
        assert len(timers._heap) <= RELEASED + 4
    time.clock.advance(2 * HOUR)
    timers.go_off()
    assert woken == [-1]
    await timers.close()
