"""A host comes to rest: no further effect begins, those that run may end, and everything else stays open."""

from __future__ import annotations

import asyncio

from tests.world.host.test_reducer_effects import host_on_time
from tests.world.manual_clock import HOUR, Time
from tests.world.small_world import A, EchoAdapter, poke_event, running_host, small_manifest

from demiurge.stores import Store
from demiurge.world.unit import Unit

B = Unit(A.module, "b")


async def test_an_effect_that_runs_ends_and_no_further_one_begins_before_the_host_goes_on(store: Store) -> None:
    release = asyncio.Event()
    echo = EchoAdapter({"first": release})
    async with running_host(store, small_manifest(), [echo]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:first"))
        async with asyncio.timeout(30):
            while not echo.performed:
                await asyncio.sleep(0)
        draining = asyncio.create_task(host.drain(30))
        await asyncio.sleep(0)
        await host.submit("ex/Ev@1", poke_event("ask:second", "b"))
        release.set()
        assert await draining == []
        assert echo.performed == ["first"]
        assert host.state(B).is_open
        assert store.attempts(list(host.state(B).intents)) == {}
        assert host.in_progress() == [str(B)]
        host.resume()
        await host.settle()
        assert echo.performed == ["first", "second"]
        assert host.in_progress() == []


async def test_effects_that_run_for_too_long_are_named_unless_they_may_be_repeated(store: Store) -> None:
    for restart, expected in (("retry", []), ("in_doubt", [A])):
        release = asyncio.Event()
        echo = EchoAdapter({restart: release}, restart=restart)  # type: ignore[arg-type]
        async with running_host(store, small_manifest(), [echo]) as host:
            await host.submit("ex/Ev@1", poke_event(f"ask:{restart}"))
            async with asyncio.timeout(30):
                while not echo.performed:
                    await asyncio.sleep(0)
            assert [unit for unit, _ in await host.drain(0.01)] == expected
            host.resume()
            release.set()
            await host.settle()


async def test_an_effect_that_was_held_back_when_the_host_closed_begins_in_the_next_one(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter(restart="in_doubt")]) as host:
        assert await host.drain(30) == []
        await host.submit("ex/Ev@1", poke_event("ask:x"))
        left = host.in_progress()
    again = EchoAdapter(restart="in_doubt")
    async with running_host(store, small_manifest(), [again]) as host:
        host.go_on_with(left)
        await host.settle(A)
        assert again.performed == ["x"]
        cell = host.state(A).cell
        assert cell is not None
        assert list(cell["log"]) == ["asked", "ok:x"]


async def test_a_unit_with_a_timer_is_in_progress(store: Store) -> None:
    time = Time()
    async with host_on_time(store, time) as host:
        await host.submit("ex/Ev@1", poke_event("tea"))
        assert host.in_progress() == [str(A)]
        left = host.in_progress()
    async with host_on_time(store, time) as host:
        host.go_on_with(left)
        await time.pass_by(HOUR, host)
        assert not host.state(A).is_open
