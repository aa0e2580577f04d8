"""Replay: a history computed again is the history, or the record that differs is named."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.world.recomputed_stores import assert_replay_agrees
from tests.world.small_world import (
    A,
    EchoAdapter,
    Kernel,
    ScriptedModel,
    call_answer,
    chat_manifest,
    chat_world,
    echo_result,
    plain_data,
    poke_event,
    running_host,
    small_manifest,
    stored_records,
    text_answer,
)
from tests.world.unit_strategies import ACTIONS, MANIFESTS, TURNS, Conversation, HeldEcho, apply_action

from demiurge.errors import Divergence, NotFound
from demiurge.stores import MemoryStore, Store
from demiurge.stores.protocol import Batch
from demiurge.values import cbor
from demiurge.world.history.verify import verify
from demiurge.world.host import Host
from demiurge.world.kernel import advance
from demiurge.world.kernel.outcome import Advance
from demiurge.world.reducer import ReducerContext, Step
from demiurge.world.state import OpenIntent, UnitState


def forged(store: MemoryStore, number: int, change: Any) -> MemoryStore:
    """The unit's history with one record's node changed and the whole chain hashed anew from there on."""
    copy = MemoryStore(store.world_id)
    copy.put_blobs([store.get_blob(ref) for ref in store.iter_blobs()])
    previous = bytes(32)
    for row in store.read(str(A)):
        node = cbor.decode(row.data)
        if row.unit_seq == number:
            change(node)
        node["prev"] = previous
        data = cbor.encode(node)
        previous = sha256(data).digest()
        kind = node["kind"]
        copy.append(
            [Batch(str(A), row.unit_seq, (replace(row, kind=kind, data=data, hash=previous, position=0),), False)]
        )
    return copy


@pytest.fixture
async def history() -> MemoryStore:
    """event, manifest, step, event, intent, receipt, event, plan_ended, step"""
    store = MemoryStore("world_1")
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x"))
        await host.settle()
    return store


async def test_a_history_replays(history: MemoryStore) -> None:
    assert_replay_agrees(history, small_manifest())


async def test_replay_performs_nothing(history: MemoryStore) -> None:
    echo = EchoAdapter()
    host = Host(history, small_manifest(), [echo])
    before = stored_records(history)
    list(host.replay())
    assert echo.performed == []
    assert stored_records(history) == before


@pytest.mark.parametrize(
    ("number", "change", "named"),
    [
        (2, lambda node: node["body"].update(digest=b"?" * 32), "record ex/Room@1/a 2 (step)"),
        (3, lambda node: node["body"]["value"].update(text="y"), "record ex/Room@1/a 3 (event)"),
        (4, lambda node: node["body"].update(grant="other"), "record ex/Room@1/a 4 (intent)"),
        (4, lambda node: node.update(cause=1), "record ex/Room@1/a 4 (intent)"),
        (6, lambda node: node["stamp"].update(t=1), "record ex/Room@1/a 6 (event)"),
        (7, lambda node: node["body"].update(status="error"), "record ex/Room@1/a 7 (plan_ended)"),
        (5, lambda node: node["body"]["payload"].update(text="y"), "record ex/Room@1/a 6 (event)"),
        (0, lambda node: node["body"]["value"]["$value"].update(what="z"), "record ex/Room@1/a 2 (step)"),
    ],
)
async def test_a_rewritten_history_diverges_where_it_was_rewritten(
    history: MemoryStore, number: int, change: Any, named: str
) -> None:
    copy = forged(history, number, change)
    assert verify(copy).ok, "its chain is whole, so only replay (and a seal kept elsewhere) can tell"
    assert verify(copy).seal != verify(history).seal
    with pytest.raises(Divergence) as raised:
        assert_replay_agrees(copy, small_manifest())
    assert str(raised.value) == f"{named} is not what replay computes"


async def test_a_history_that_lacks_its_last_derived_record_diverges(history: MemoryStore) -> None:
    copy = MemoryStore("world_1")
    copy.put_blobs([history.get_blob(ref) for ref in history.iter_blobs()])
    rows = [replace(row, position=0) for row in history.read(str(A))][:-1]
    copy.append([Batch(str(A), 0, tuple(rows), False)])
    with pytest.raises(Divergence, match=r"record ex/Room@1/a 8 \(one more\)"):
        assert_replay_agrees(copy, small_manifest())


async def test_a_derived_record_that_says_it_came_from_outside_is_damage(history: MemoryStore) -> None:
    copy = MemoryStore("world_1")
    copy.put_blobs([history.get_blob(ref) for ref in history.iter_blobs()])
    rows = [replace(r, position=0, ingress_id="x" if r.unit_seq == 4 else r.ingress_id) for r in history.read(str(A))]
    copy.append([Batch(str(A), 0, tuple(rows), False)])
    with pytest.raises(Divergence, match="record ex/Room@1/a 4"):
        assert_replay_agrees(copy, small_manifest())
    problem = verify(copy).problem
    assert problem is not None
    assert problem.startswith("record ex/Room@1/a 4 ")


async def test_a_missing_blob_stops_replay_where_it_is_read() -> None:
    store = MemoryStore("world_1")
    async with chat_world(
        store, ScriptedModel(call_answer(("c1", "core__get_current_time", {})), text_answer("ok"))
    ) as talk:
        await talk.say("time?")
        [call] = [ref for body in talk.receipts("llm.generate")[:1] for ref in body["payload"]["tool_call_refs"]]
    del store._blobs[call]
    with pytest.raises(NotFound, match=call):
        assert_replay_agrees(store, chat_manifest())


async def test_a_reducer_that_is_not_what_it_was_is_reported_unchecked_and_not_as_a_lie(history: MemoryStore) -> None:
    def other(state: Any, event: Any, context: ReducerContext) -> Step:
        return Step(set={"n": 100})

    with pytest.raises(Divergence) as raised:
        assert_replay_agrees(history, small_manifest(reduce=other, source=b"2"))
    assert raised.value.code == "unchecked"
    assert "ex/Board@1, ex/Room@1" in str(raised.value)


async def test_a_reducer_that_changed_without_its_source_saying_so_diverges(history: MemoryStore) -> None:
    with pytest.raises(Divergence) as raised:
        assert_replay_agrees(history, small_manifest(reduce=lambda _s, _e, _c: Step(set={"n": 100})))
    assert raised.value.code == "divergence"


async def test_a_reducer_that_looks_at_more_than_its_arguments_is_found_out() -> None:
    calls: list[int] = []

    def drifting(state: Any, event: Any, context: ReducerContext) -> Step:
        calls.append(1)
        return Step(set={"n": len(calls)})

    store = MemoryStore("world_1")
    manifest = small_manifest(reduce=drifting)
    async with running_host(store, manifest, []) as host:
        await host.submit("ex/Ev@1", poke_event("one"))
    with pytest.raises(Divergence, match=r"record ex/Room@1/a 2 \(step\)"):
        assert_replay_agrees(store, manifest)


async def test_a_history_over_two_manifests_replays_each_part_under_its_own(store: Store) -> None:
    first = small_manifest()
    async with running_host(store, first, [EchoAdapter({"x": asyncio.Event()})]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x"))
    second = small_manifest(rules=[{"when": {}, "decision": "deny"}])
    async with running_host(store, second, [EchoAdapter()]) as host:
        await host.settle()
        await host.submit("ex/Ev@1", poke_event("ask:y"))
        await host.settle()
        cell = host.state(A).cell
        assert cell is not None
        assert list(cell["log"]) == ["asked", "ok:x", "asked", "error:policy_denied"]
    assert_replay_agrees(store, second)
    assert_replay_agrees(store, first)


def test_the_kernel_alone_replays_from_what_it_took() -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:x,y")
    for intent in reversed(unit.intents):
        unit.receipt(intent, echo_result("z"))
    unit.poke("fail:now")
    state, hashes = UnitState("world_1", A), []
    for manifest, ingress in unit.taken:
        outcome = advance(manifest, state, ingress, dict(unit.blobs))
        assert isinstance(outcome, Advance)
        state = outcome.state
        hashes += [record.hash for record in outcome.records]
    assert hashes == [record.hash for record in unit.records]
    assert plain_data(state) == plain_data(unit.state)


# -- replay or die ----------------------------------------------------------------------------------------------------


async def play(actions: Sequence[tuple[Any, ...]]) -> None:
    store, name = MemoryStore("world_1"), "same"
    answered: list[OpenIntent] = []
    parts: list[list[tuple[Any, ...]]] = [[]]
    for action in actions:
        if action[0] == "restart":
            parts.append([action])
        else:
            parts[-1].append(action)
    for part in parts:
        name = part[0][1] if part and part[0][0] == "restart" else name
        held = HeldEcho()
        async with running_host(store, MANIFESTS[name], [held]) as host:
            for action in part:
                await apply_action(host, held, action, answered)
            while any(head.unit == str(A) for head in store.heads()) and host._units[A].is_moving:
                await asyncio.sleep(0)
            live = plain_data(host.state(A))
        reader = Host(store, MANIFESTS[name], [])
        loaded = plain_data(reader.state(A))
        if loaded["seq"] == live["seq"]:
            assert loaded == live
        assert_replay_agrees(store, MANIFESTS[name])
    async with running_host(store, MANIFESTS[name], [EchoAdapter()]) as host:
        await host.settle()
        assert not host.state(A).is_open, "everything that is open comes to an end"
    assert_replay_agrees(store, MANIFESTS[name])
    received = [r.body["intent"] for r in stored_records(store) if r.kind == "receipt"]
    assert len(received) == len(set(received)), "an intent has one receipt"
    assert set(received) == {r.body["id"] for r in stored_records(store) if r.kind == "intent"}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTIONS, max_size=14))
def test_replay_or_die(actions: list[tuple[Any, ...]]) -> None:
    asyncio.run(play(actions))


# -- the same for chats: whatever happens, the history that the model is sent is well formed ---------------------------


async def converse(actions: Sequence[tuple[Any, ...]]) -> None:
    conversation = Conversation()
    starts = [index for index, action in enumerate(actions) if action[0] == "restart"]
    for begin, end in zip([0, *starts], [*starts, len(actions)], strict=True):
        await conversation.part(actions[begin:end])
    assert len(conversation.ran) == len(set(conversation.ran)), "no call ran twice"
    assert not any(line.startswith("denied") for line in conversation.ran)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TURNS, max_size=8))
def test_a_chat_replays_and_stays_well_formed_whatever_happens(actions: list[tuple[Any, ...]]) -> None:
    asyncio.run(converse(actions))
