"""Forks: the past is the source's to the byte, the future is the fork's own, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.world.recomputed_stores import assert_replay_agrees, fork_store
from tests.world.small_world import (
    MAIN,
    A,
    ChatClient,
    EchoAdapter,
    ScriptedModel,
    call_answer,
    chat_adapters,
    plain_data,
    poke_event,
    running_host,
    small_manifest,
    stored_records,
    text_answer,
)
from tests.world.unit_strategies import (
    ACTIONS,
    MANIFESTS,
    TURNS,
    Conversation,
    HeldEcho,
    apply_action,
    assert_calls_are_answered,
)

from demiurge.errors import Damaged, NotFound
from demiurge.stores import MemoryStore, Store
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.fork import Forked
from demiurge.world.history.replay import Manifests
from demiurge.world.history.verify import verify
from demiurge.world.host import Host
from demiurge.world.host.loader import Loader
from demiurge.world.manifest import Manifest
from demiurge.world.moment import length_at, moment
from demiurge.world.record import Record, decode_record
from demiurge.world.state import UnitState
from demiurge.world.unit import Unit

BOARD = Unit("ex/Board@1", "b")


def contents(store: Store) -> Any:
    return list(store.read_all()), store.outbox(), sorted(store.iter_blobs()), list(store.heads())


def step_ends(store: Store) -> list[int]:
    """The last position of each step, and 0."""
    rows = list(store.read_all())
    return [row.position - 1 for row in rows if row.ingress_id is not None] + [row.position for row in rows[-1:]]


def states_at(store: Store, manifest: Manifest, position: int) -> dict[str, UnitState]:
    """Each unit as it was."""
    loader = Loader(store, Manifests(manifest, store.get_blob), [])
    lengths = {head.unit: length_at(store, head.unit, position) for head in store.heads()}
    return {unit: loader.load(Unit.parse(unit), length).state for unit, length in lengths.items() if length}


def own_records(store: Store, made: Forked) -> list[Record]:
    """What a fork has of its own."""
    return [decode_record(row.data, position=row.position) for row in store.read_all(made.records + 1)]


def is_fork_of(source: Store, manifest: Manifest, target: Store, made: Forked) -> None:
    """What a fork has at its beginning: the past, and an end to whatever was open in it."""
    assert list(target.read_all(0, made.records)) == [r for r in source.read_all() if r.position <= made.position]
    was = states_at(source, manifest, made.position)
    assert {r.unit for r in own_records(target, made) if r.kind == "fork"} == set(was)
    ended = [record.body for record in own_records(target, made) if record.kind == "receipt"]
    assert [body["payload"]["code"] for body in ended] == ["unknown_outcome"] * made.ended
    assert {body["intent"] for body in ended} == {intent for state in was.values() for intent in state.intents}
    assert_replay_agrees(target, manifest)


def intent_ids(store: Store) -> list[bytes]:
    return [record.body["id"] for record in stored_records(store) if record.kind == "intent"]


# -- the small world --------------------------------------------------------------------------------------------------


async def history(store: Store, *pokes: str) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        for what in pokes:
            await host.submit("ex/Ev@1", poke_event(what))
            await host.settle()


async def test_a_fork_of_each_moment_has_that_past_and_goes_its_own_way(store: Store) -> None:
    await history(store, "ask:x,y", "hello", "post:n", "fail:x", "ask:z")
    before = contents(store)
    for position in step_ends(store):
        target, made = fork_store(store, small_manifest(), position)
        is_fork_of(store, small_manifest(), target, made)
        assert made.position == made.records == position
        echo = EchoAdapter()
        async with running_host(target, small_manifest(), [echo]) as host:
            await host.settle()
            assert echo.performed == [], "what was open there is not done here"
            await host.submit("ex/Ev@1", poke_event("ask:new"))
            await host.settle()
            assert echo.performed == ["new"]
        assert_replay_agrees(target, small_manifest())
        assert intent_ids(target)[-1] not in intent_ids(store), "what it asks for has an identity of its own"
    assert contents(store) == before, "the source is as it was"


async def test_a_fork_of_the_present_is_the_default(store: Store) -> None:
    await history(store, "hello", "ask:x")
    target, made = fork_store(store, small_manifest())
    assert made.position == max(row.position for row in store.read_all())
    is_fork_of(store, small_manifest(), target, made)
    assert verify(target, verify(store).seal).ok, "a seal of the past holds in both"


async def test_a_position_inside_a_step_stands_for_its_end(store: Store) -> None:
    await history(store, "ask:x", "hello")
    wholes = step_ends(store)
    for position in range(wholes[-1] + 1):
        assert moment(store, position) == min(end for end in wholes if end >= position)
    assert fork_store(store, small_manifest(), wholes[1] - 1)[1].position == wholes[1]


async def test_a_position_that_is_not_there_is_refused(store: Store) -> None:
    await history(store, "hello")
    for position in (-1, 4):
        with pytest.raises(NotFound, match="Name one from 0 to 3") as raised:
            fork_store(store, small_manifest(), position)
        assert raised.value.code == "no_position"


async def test_a_message_on_its_way_arrives_once(store: Store) -> None:
    await history(store, "post:n,m", "hello", "post:o")
    async with running_host(store, small_manifest(), [], perform=False) as host:
        await host.submit("ex/Ev@1", poke_event("post:p"))
    for position in step_ends(store):
        target, _ = fork_store(store, small_manifest(), position)
        sent = [
            r.body["value"] for r in stored_records(target) if r.kind == "event" and r.body["schema"] == "ex/Note@1"
        ]
        async with running_host(target, small_manifest(), []) as host:
            await host.settle()
            cell = host.state(BOARD).cell
        expected = list(dict.fromkeys(value["text"] for value in sent))
        assert (plain_data(cell["notes"]) if cell is not None else []) == expected
        assert_replay_agrees(target, small_manifest())


async def test_a_fork_leaves_out_records_and_blobs_after_its_position(store: Store) -> None:
    await history(store, "ask:x")
    position = step_ends(store)[-1]
    later = store.put_blob(b"a text of later")
    await history(store, "ask:later")
    target, _ = fork_store(store, small_manifest(), position)
    assert not target.has_blob(later)
    assert all(b"later" not in row.data for row in target.read_all())


async def test_a_fork_begins_at_a_snapshot_and_not_at_the_first_record(store: Store) -> None:
    await history(store, *(f"line {number}" for number in range(30)))
    target, _ = fork_store(store, small_manifest())
    snapshot = target.latest_snapshot(str(A))
    head = target.head(str(A))
    assert snapshot is not None
    assert head is not None
    assert snapshot.unit_seq == head.next_seq - 1
    assert target.latest_snapshot(str(A), snapshot.unit_seq) is None, "the source's are of another world"
    host = Host(target, small_manifest(), [])
    assert len(plain_data(host.state(A).cell)["log"]) == 30
    assert host.notices == []
    assert_replay_agrees(target, small_manifest())
    plainer, _ = fork_store(store, small_manifest(), tail_bytes=1 << 20)
    assert plainer.latest_snapshot(str(A)) is None
    assert_replay_agrees(plainer, small_manifest())


async def test_a_fork_of_a_fork_at_each_moment_of_either(store: Store) -> None:
    await history(store, "ask:x", "post:n")
    first, _ = fork_store(store, small_manifest(), step_ends(store)[2])
    async with running_host(first, small_manifest(), [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:y"))
        await host.submit("ex/Ev@1", poke_event("hello", "c"))
        await host.settle()
    for position in step_ends(first):
        second, made = fork_store(first, small_manifest(), position, world="world_3")
        is_fork_of(first, small_manifest(), second, made)
        async with running_host(second, small_manifest(), [EchoAdapter()]) as host:
            await host.submit("ex/Ev@1", poke_event("ask:z", "c"))
            await host.submit("ex/Ev@1", poke_event("post:o"))
            await host.settle()
        assert_replay_agrees(second, small_manifest())
        third, made = fork_store(second, small_manifest(), world="world_4")
        is_fork_of(second, small_manifest(), third, made)


async def test_a_fork_goes_on_under_the_manifest_that_it_was_made_with(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter({"x": asyncio.Event()})]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x"))
    denying = small_manifest(rules=[{"when": {}, "decision": "deny"}])
    target, made = fork_store(store, denying)
    is_fork_of(store, denying, target, made)
    async with running_host(target, denying, [EchoAdapter()]) as host:
        cell = host.state(A).cell
        assert cell is not None
        assert list(cell["log"]) == ["asked", "error:unknown_outcome"]
        await host.submit("ex/Ev@1", poke_event("ask:y"))
        assert list(plain_data(host.state(A).cell)["log"])[-1] == "error:policy_denied"


async def test_a_past_that_lacks_a_blob_is_not_taken_over(memory: MemoryStore) -> None:
    await history(memory, "ask:x")
    [manifest] = [record for record in stored_records(memory) if record.kind == "manifest"]
    del memory._blobs[Ref(manifest.refs[0])]
    with pytest.raises(Damaged, match=r"record ex/Room@1/a 1 \(manifest\)"):
        fork_store(memory, small_manifest())


async def test_a_state_of_the_past_is_computed_from_the_snapshot_before_it(store: Store) -> None:
    seen: dict[int, Any] = {}
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        for number in range(20):
            await host.submit("ex/Ev@1", poke_event(f"line {number}"))
            seen[moment(store, None)] = plain_data(host.state(A))
    for position, state in seen.items():
        assert plain_data(states_at(store, small_manifest(), position)[str(A)]) == state
    assert length_at(store, "ex/Room@1/nobody", 3) == 0


async def check_fork_of_history(actions: Sequence[tuple[Any, ...]], place: float) -> None:
    """A history, the fork of one of its moments while it goes on, and its end."""
    source, manifest, answered, held = MemoryStore("world_1"), MANIFESTS["same"], list[Any](), HeldEcho()
    async with running_host(source, manifest, [held]) as host:
        for action in actions:
            if action[0] != "restart":
                await apply_action(host, held, action, answered)
        wholes = step_ends(source) or [0]
        target, made = fork_store(source, manifest, wholes[int(place * (len(wholes) - 1))])
        is_fork_of(source, manifest, target, made)
        echo = EchoAdapter()
        async with running_host(target, manifest, [echo]) as other:
            await other.settle()
            assert echo.performed == []
            assert not other.state(A).is_open, "everything that was open has come to an end"
        while held.waiting:
            await apply_action(host, held, ("answer", "ok", True), answered)
    assert_replay_agrees(target, manifest)
    assert_replay_agrees(source, manifest)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTIONS, max_size=14), st.floats(0, 1))
def test_any_history_forks_anywhere(actions: list[tuple[Any, ...]], place: float) -> None:
    asyncio.run(check_fork_of_history(actions, place))


# -- chats ------------------------------------------------------------------------------------------------------------


def answered_intents(store: Store) -> list[bytes]:
    return [record.body["intent"] for record in stored_records(store) if record.kind == "receipt"]


async def goes_on(conversation: Conversation, target: Store) -> None:
    """Whatever was open is over, and the chat answers."""
    ran = list(conversation.ran)
    conversation.model.answers[:] = [text_answer("so"), text_answer("spare")]
    async with running_host(
        target, conversation.manifest, chat_adapters(conversation.model, conversation.tools)
    ) as host:
        await host.settle()
        talk = ChatClient(host)
        assert host.approvals() == []
        assert conversation.ran == ran, "no tool runs again"
        if target.head(str(MAIN)) is None:
            await talk.create()
        conversation.model.answers[:] = [text_answer("good"), text_answer("spare")]
        await talk.say("and now?")
        assert_calls_are_answered(talk)
        assert talk.turn["status"] == "done"
    assert_replay_agrees(target, conversation.manifest)
    assert len(answered_intents(target)) == len(set(answered_intents(target))), "an intent has one receipt"


async def test_a_chat_forks_at_every_position() -> None:
    conversation = Conversation()
    wrote = call_answer(("w1", "workspace__list", {}), ("c1", "change", {"n": 1}))
    conversation.model.answers[:] = [wrote, call_answer(("c2", "asked", {"n": 2})), text_answer("decided")]
    async with running_host(
        conversation.store, conversation.manifest, chat_adapters(conversation.model, conversation.tools)
    ) as host:
        talk = ChatClient(host)
        await talk.create()
        await talk.say("do it")
        [(_, waiting)] = host.approvals()
        await host.decide(waiting.id, approve=True, reason="so", caller=Caller("anna"))
        await host.settle()
        assert talk.turn["status"] == "done"
    assert conversation.ran == ["change 1", "asked 2"]
    for position in step_ends(conversation.store):
        target, made = fork_store(conversation.store, conversation.manifest, position, tail_bytes=4000)
        is_fork_of(conversation.store, conversation.manifest, target, made)
        await goes_on(conversation, target)
    assert verify(conversation.store).ok


async def test_a_call_that_waits_for_a_person_ends_in_the_fork_and_waits_on_in_the_source() -> None:
    conversation = Conversation()
    conversation.model.answers[:] = [call_answer(("c1", "asked", {"n": 1})), text_answer("done")]
    async with running_host(
        conversation.store, conversation.manifest, chat_adapters(conversation.model, conversation.tools)
    ) as host:
        talk = ChatClient(host)
        await talk.create()
        await talk.say("do it")
        target, made = fork_store(conversation.store, conversation.manifest)
        assert made.ended == 1
        model = ScriptedModel(text_answer("I see."))
        async with running_host(target, conversation.manifest, chat_adapters(model, conversation.tools)) as other:
            await other.settle()
            there = ChatClient(other)
            [output] = there.outputs()
            assert "unknown_outcome" in output["content"]
            assert there.turn["status"] == "done", "the model was told, and answered"
            [(_, waiting)] = host.approvals()
            with pytest.raises(NotFound):
                await other.decide(waiting.id, approve=True, reason="", caller=Caller("anna"))
        await host.decide(waiting.id, approve=True, reason="", caller=Caller("anna"))
        await host.settle()
    assert conversation.ran == ["asked 1"]


async def converse(actions: Sequence[tuple[Any, ...]], place: float) -> None:
    conversation = Conversation()
    await conversation.part([action for action in actions if action[0] != "restart"])
    wholes = step_ends(conversation.store)
    target, made = fork_store(conversation.store, conversation.manifest, wholes[int(place * (len(wholes) - 1))])
    is_fork_of(conversation.store, conversation.manifest, target, made)
    await goes_on(conversation, target)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TURNS, max_size=5), st.floats(0, 1))
def test_any_chat_forks_anywhere(actions: list[tuple[Any, ...]], place: float) -> None:
    asyncio.run(converse(actions, place))
