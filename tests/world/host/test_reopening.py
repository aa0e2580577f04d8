"""What a world still is after it was opened again, or replayed: nothing is lost, done twice, or told differently."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.world.small_world import (
    A,
    EchoAdapter,
    plain_data,
    plan,
    poke_event,
    raise_event_step,
    running_host,
    small_manifest,
    stored_records,
)

from demiurge.errors import Divergence
from demiurge.stores import Store
from demiurge.world.host import Host
from demiurge.world.manifest import Manifest
from demiurge.world.reducer import Emit, ReducerContext, Step
from demiurge.world.state import UnitState


def replayed(store: Store, manifest: Manifest) -> UnitState:
    found = [state for state in Host(store, manifest, []).replay() if state.unit == A]
    return found[-1]


async def test_nested_events_are_applied_once(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x,y"))
        await host.settle()
        live = plain_data(host.state(A))
    assert live["cell"]["n"] == 3
    assert (
        plain_data(Host(store, small_manifest(), []).state(A)) == plain_data(replayed(store, small_manifest())) == live
    )


async def test_only_effects_without_a_receipt_are_dispatched_again(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:done"))
        await host.settle()
    async with running_host(store, small_manifest(), [EchoAdapter()], perform=False) as host:
        await host.submit("ex/Ev@1", poke_event("ask:open"))
    again = EchoAdapter()
    async with running_host(store, small_manifest(), [again]) as host:
        await host.settle()
        await host.settle()
    assert again.performed == ["open"]


DIVIDED_BY_ZERO = {"op": "get", "args": [{"record": {"a": {"op": "div", "args": [1, 0]}}}, "a"]}
"""The type of what `get` finds is not known before the plan runs, so the manifest is taken."""


@pytest.mark.parametrize(
    ("change", "what", "kind"),
    [
        ({"rules": []}, "ask:x", "decision"),
        ({"grants": [{"name": "echo", "cap": "ex/echo@1", "expiry_ns": 1}]}, "ask:x", "decision"),
        ({"plans": [plan([raise_event_step("t", "s", DIVIDED_BY_ZERO)])]}, "ask:x", "plan_ended"),
        ({}, "fail:x", "step"),
    ],
)
async def test_a_recorded_failure_does_not_keep_the_world_closed(
    store: Store, change: Mapping[str, Any], what: str, kind: str
) -> None:
    manifest = small_manifest(**change)
    async with running_host(store, manifest, [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", poke_event(what))
        await host.settle()
    assert kind in [record.kind for record in stored_records(store)]
    async with running_host(store, manifest, [EchoAdapter()]) as host:
        assert not host.state(A).is_open
        await host.submit("ex/Ev@1", poke_event("on"))
        await host.settle()
    assert replayed(store, manifest).cell is not None


async def test_a_new_manifest_loses_no_plan_and_no_receipt(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter({"x": asyncio.Event()})]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x"))
    other = small_manifest([], settings={"new": 1})
    async with running_host(store, other, [EchoAdapter()]) as host:
        await host.settle()
        cell = host.state(A).cell
        assert cell is not None
        assert list(cell["log"]) == ["asked", "ok:x"]
        assert not host.state(A).is_open
    replayed(store, other)


async def test_a_derived_event_has_the_same_time_and_entropy_at_replay(store: Store) -> None:
    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        seen = f"{context.stamp.time_ns}:{context.entropy('x').hex()}"
        again = [Emit("ex/Ev@1", poke_event("derived"))] if event["$value"]["what"] == "first" else []
        return Step(set={"n": 1}, append={"log": [seen]}, events=again)

    manifest = small_manifest(reduce=reduce)
    async with running_host(store, manifest, []) as host:
        await host.submit("ex/Ev@1", poke_event("first"))
        cell = host.state(A).cell
        assert cell is not None
        first, derived = cell["log"]
    assert first.split(":")[0] == derived.split(":")[0], "one moment"
    assert first != derived, "entropy of its own"
    after = replayed(store, manifest).cell
    assert after is not None
    assert list(after["log"]) == [first, derived]


async def test_replay_computes_derived_records_again_and_names_the_one_that_differs(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x"))
        await host.settle()
    assert sum(record.is_ingress for record in stored_records(store)) < len(stored_records(store))
    lied = small_manifest(reduce=lambda _state, _event, _context: Step(set={"n": 100}))
    with pytest.raises(Divergence, match=r"record ex/Room@1/a 2 \(step\)"):
        replayed(store, lied)
