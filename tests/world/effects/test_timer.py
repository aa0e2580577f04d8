"""`timer.set`: a receipt at its time, also when the process that waited is gone."""

from __future__ import annotations

from typing import Any

from tests.world.effects.effect_asker import Asker, effect_asker
from tests.world.manual_clock import HOUR, Time
from tests.world.small_world import SECOND, START_NS, A

from demiurge.stores import MemoryStore, Store
from demiurge.values.caller import Caller
from demiurge.world.effects.timer import TimerEffects
from demiurge.world.host.timers import LONGEST_S

GRANTS: dict[str, dict[str, Any]] = {"timer": {}}


def receipts(asker: Asker) -> list[tuple[int, str | None]]:
    return [(r.body["payload"]["delivered_at_ns"], r.body["payload"]["key"]) for r in asker.records_of("receipt")]


async def test_a_timer_goes_off_at_its_time_and_settling_does_not_wait_for_it(store: Store) -> None:
    time = Time()
    async with effect_asker(store, [TimerEffects(time.clock)], GRANTS, clock=time.clock, sleep=time.sleep) as asker:
        await asker.submit_request("timer.set", deliver_at_ns=START_NS + HOUR, key="tea")
        await asker.host.settle()
        assert receipts(asker) == []
        assert store.attempts([i.id for i in asker.host.state(A).intents.values()]) == {}
        await time.pass_by(HOUR - 1, asker.host)
        assert receipts(asker) == []
        await time.pass_by(1, asker.host)
        assert receipts(asker) == [(START_NS + HOUR, "tea")]
        assert asker.records_of("receipt")[0].is_ingress
        assert not asker.host.state(A).is_open
        assert [state.seq for state in asker.host.replay()]


async def test_nobody_looks_at_the_clock_more_often_than_once_a_minute(store: Store) -> None:
    time = Time()
    async with effect_asker(store, [TimerEffects(time.clock)], GRANTS, clock=time.clock, sleep=time.sleep) as asker:
        await asker.submit_request("timer.set", deliver_at_ns=START_NS + HOUR)
        await time.pass_by(HOUR, asker.host)
        assert len(receipts(asker)) == 1
        assert time.asked == [LONGEST_S] * 60


async def test_timers_go_off_in_the_order_of_their_times(store: Store) -> None:
    time = Time()
    async with effect_asker(store, [TimerEffects(time.clock)], GRANTS, clock=time.clock, sleep=time.sleep) as asker:
        for seconds in (30, 10, 20):
            await asker.submit_request("timer.set", deliver_at_ns=START_NS + seconds * SECOND, key=str(seconds))
        await time.pass_by(15 * SECOND, asker.host)
        assert [key for _, key in receipts(asker)] == ["10"]
        await time.pass_by(15 * SECOND, asker.host)
        assert [key for _, key in receipts(asker)] == ["10", "20", "30"]


async def test_a_time_that_is_past_goes_off_at_once(store: Store) -> None:
    time = Time()
    async with effect_asker(store, [TimerEffects(time.clock)], GRANTS, clock=time.clock, sleep=time.sleep) as asker:
        found = await asker.payload("timer.set", deliver_at_ns=START_NS)
        assert found == {"delivered_at_ns": START_NS, "key": None}
        assert time.asked == []


async def test_a_timer_survives_any_number_of_restarts(store: Store) -> None:
    time = Time()
    for _ in range(12):
        async with effect_asker(store, [TimerEffects(time.clock)], GRANTS, clock=time.clock, sleep=time.sleep) as asker:
            if not asker.records_of("intent"):
                await asker.submit_request("timer.set", deliver_at_ns=START_NS + HOUR)
            await asker.host.settle()
            assert receipts(asker) == []
    time = Time(START_NS + HOUR - SECOND)
    async with effect_asker(store, [TimerEffects(time.clock)], GRANTS, clock=time.clock, sleep=time.sleep) as asker:
        await asker.host.settle()
        await time.pass_by(SECOND, asker.host)
        assert receipts(asker) == [(START_NS + HOUR, None)]


async def test_a_timer_whose_time_went_by_while_nobody_ran_is_late_and_goes_off_at_once(store: Store) -> None:
    time = Time()
    async with effect_asker(store, [TimerEffects(time.clock)], GRANTS, clock=time.clock, sleep=time.sleep) as asker:
        await asker.submit_request("timer.set", deliver_at_ns=START_NS + HOUR)
    later = Time(START_NS + 5 * HOUR)
    async with effect_asker(store, [TimerEffects(later.clock)], GRANTS, clock=later.clock, sleep=later.sleep) as asker:
        await asker.host.settle()
        assert receipts(asker) == [(START_NS + 5 * HOUR, None)]


async def test_a_timer_that_is_cancelled_does_not_go_off(memory: MemoryStore) -> None:
    time = Time()
    async with effect_asker(memory, [TimerEffects(time.clock)], GRANTS, clock=time.clock, sleep=time.sleep) as asker:
        await asker.submit_request("timer.set", deliver_at_ns=START_NS + HOUR)
        await asker.host.cancel(A, reason="enough", caller=Caller("user"))
        assert asker.outcome()["payload"]["code"] == "cancelled"
        await time.pass_by(2 * HOUR, asker.host)
        assert len(asker.records_of("receipt")) == 1


async def test_a_clock_that_was_set_back_delays_a_timer_and_loses_none(memory: MemoryStore) -> None:
    time = Time()
    async with effect_asker(memory, [TimerEffects(time.clock)], GRANTS, clock=time.clock, sleep=time.sleep) as asker:
        await asker.submit_request("timer.set", deliver_at_ns=START_NS + 50 * SECOND)
        await time.rest(asker.host)
        time.clock.advance(-HOUR)
        await time.pass_by(HOUR, asker.host)
        assert receipts(asker) == []
        await time.pass_by(HOUR, asker.host)
        assert len(receipts(asker)) == 1
