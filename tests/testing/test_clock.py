"""The clock that stands still."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from demiurge import InMemoryApprovals, ToolContext, ToolPolicy, ToolResult, ToolRunner, tool
from demiurge.capabilities import LocalTimer
from demiurge.errors import InvalidValue
from demiurge.testing import FrozenClock
from demiurge.tools.capabilities import Clock, Timer


def test_a_frozen_clock_stands_still_until_it_is_advanced() -> None:
    clock = FrozenClock("2026-03-01T12:00:00+00:00")
    assert clock.now == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert clock.now_ns() == clock.now_ns() == 1_772_366_400_000_000_000
    clock.advance(1.5)
    assert clock.now == datetime(2026, 3, 1, 12, 0, 1, 500_000, tzinfo=UTC)
    clock.advance(timedelta(days=1))
    assert clock.monotonic_ns() == 86_401_500_000_000
    assert repr(clock) == "FrozenClock('2026-03-02T12:00:01.500000+00:00')"


@pytest.mark.parametrize("at", [datetime(2026, 3, 1), "2026-03-01T12:00:00", "soon"])  # noqa: DTZ001
def test_a_time_without_a_zone_is_refused(at: datetime | str) -> None:
    with pytest.raises(InvalidValue):
        FrozenClock(at)


def test_a_frozen_clock_never_goes_back() -> None:
    with pytest.raises(InvalidValue):
        FrozenClock(0).advance(-1)


async def test_sleepers_wake_when_their_time_has_come() -> None:
    clock, woken = FrozenClock(), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    async with asyncio.TaskGroup() as group:
        for seconds in (60, 0, 30):
            group.create_task(sleeper(seconds))
        while woken != [0]:
            await asyncio.sleep(0)
        clock.advance(30)
        while woken != [0, 30]:
            await asyncio.sleep(0)
        clock.advance(30)
    assert woken == [0, 30, 60]


async def test_a_runner_and_its_approvals_take_their_time_from_it() -> None:
    @tool
    def send(text: str) -> ToolResult[None]:
        """Sends a text."""
        return ToolResult("sent")

    clock = FrozenClock("2026-03-01T12:00:00+00:00")
    approvals = InMemoryApprovals(clock, ttl_ms=60_000)
    policy = ToolPolicy(("send",), require_approval_for_tools=("send",))
    runner = ToolRunner([send], policy=policy, approvals=approvals, clock=clock)
    waits = await runner.exec("send", {"text": "hi"}, tool_call_id="call-1")
    assert waits.record.started_at_ms == 1_772_366_400_000
    assert waits.approval_id is not None
    approvals.approve(waits.approval_id, by="ann")
    clock.advance(61)
    late = await runner.exec("send", {"text": "hi"}, tool_call_id="call-1", approval_id=waits.approval_id)
    assert late.error_code == "approval_expired"


async def test_a_tools_timer_goes_by_the_clock_of_its_runner() -> None:
    @tool(capabilities=(Timer,))
    async def remind(seconds: int, *, context: ToolContext) -> str:
        """Waits, and reminds."""
        timer, clock = context.resources.get(Timer), context.resources.get(Clock)
        assert timer is not None
        assert clock is not None
        await timer.wait_until(clock.now_ns() + seconds * 10**9)
        waited.append(seconds)
        return "It is time."

    waited: list[int] = []
    clock = FrozenClock()
    runner = ToolRunner([remind], policy=ToolPolicy(("remind",)), resources={Timer: LocalTimer()}, clock=clock)
    call = asyncio.create_task(runner.exec("remind", {"seconds": 3600}))
    while not waited:
        await asyncio.sleep(0)
        clock.advance(60)
    assert (await call).ok
    assert clock.monotonic_ns() >= 3600 * 10**9
