"""`LocalTimer`: it waits by the runner's clock, and stops waiting with its call."""

from __future__ import annotations

import asyncio

from demiurge import Budgets, ToolContext, ToolEffect, ToolPolicy, ToolRunner, tool
from demiurge.capabilities import LocalTimer
from demiurge.tools.capabilities import Clock, Timer
from demiurge.values.clock import FixedClock, SystemClock

SECOND = 10**9


@tool(effect=ToolEffect.READ_ONLY, capabilities=(Timer, Clock))
async def remind(seconds: int, context: ToolContext) -> int:
    """Waits, then says when it is."""
    timer, clock = context.resources.get(Timer), context.resources.get(Clock)
    assert timer is not None
    assert clock is not None
    return await timer.wait_until(clock.now_ns() + seconds * SECOND)


def runner_with(timer: LocalTimer, clock: Clock | None = None) -> ToolRunner:
    return ToolRunner([remind], policy=ToolPolicy(("remind",)), resources={Timer: timer}, clock=clock)


async def test_a_wait_ends_at_its_time_or_later() -> None:
    until = SystemClock().now_ns() + SECOND // 100
    assert until <= await LocalTimer().wait_until(until) <= SystemClock().now_ns()
    assert await LocalTimer(FixedClock(5)).wait_until(5) == 5, "a time that is reached is no wait"


async def test_a_timer_goes_by_the_clock_of_the_runner_that_it_is_given_to() -> None:
    clock = FixedClock(1_000 * SECOND)
    call = asyncio.create_task(runner_with(LocalTimer(), clock).exec("remind", {"seconds": 3600}))
    while not call.done():
        clock.advance(1800 * SECOND)
        await asyncio.sleep(0)
        await asyncio.wait([call], timeout=0.01)
    assert int((await call).content) >= 4_600 * SECOND


async def test_one_timer_serves_runners_with_different_clocks_and_may_have_a_clock_of_its_own() -> None:
    shared, own = LocalTimer(), LocalTimer(FixedClock(10**6 * SECOND))
    early, late = FixedClock(0), FixedClock(7 * SECOND)
    results = [
        await runner_with(shared, early).exec("remind", {"seconds": 0}),
        await runner_with(shared, late).exec("remind", {"seconds": 0}),
        await runner_with(own, early).exec("remind", {"seconds": 5}),
    ]
    assert [int(result.content) for result in results] == [0, 7 * SECOND, 10**6 * SECOND]


async def test_a_wait_ends_with_the_time_of_its_call_and_with_a_cancellation() -> None:
    policy = ToolPolicy(("remind",), budgets=Budgets(max_runtime_ms=20))
    hurried = ToolRunner([remind], policy=policy, resources={Timer: LocalTimer()})
    assert (await hurried.exec("remind", {"seconds": 3600})).error_code == "timeout"
    call = asyncio.create_task(runner_with(LocalTimer()).exec("remind", {"seconds": 3600}))
    await asyncio.sleep(0)
    call.cancel()
    assert isinstance((await asyncio.gather(call, return_exceptions=True))[0], asyncio.CancelledError)
