"""Idle units leave memory: nothing that goes on in one, waits in it or is owed to it is lost, or happens twice."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from itertools import count

import pytest
from tests.world.manual_clock import DAY, Time
from tests.world.recomputed_stores import assert_replay_agrees, assert_sound
from tests.world.small_world import (
    BOARD,
    MAIN,
    ROOM,
    SYSTEM,
    A,
    ChatClient,
    EchoAdapter,
    ScriptedModel,
    call_answer,
    chat_adapters,
    chat_manifest,
    chat_world,
    poke_event,
    running_host,
    small_manifest,
    text_answer,
)

from demiurge import faults
from demiurge.apps.demiurge import CHAT
from demiurge.errors import Conflict, NotFound, Unavailable
from demiurge.stores import MemoryStore, Store
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.policy import ToolPolicy
from demiurge.values.caller import USER
from demiurge.values.clock import SeededEntropy
from demiurge.world.history.replay import Manifests
from demiurge.world.host import Host, units
from demiurge.world.host.loader import Loader
from demiurge.world.unit import Unit

DONE: list[str] = []


async def bump(what: str) -> str:
    """Bumps the counter."""
    DONE.append(what)
    await asyncio.sleep(0)
    return f"bumped {what}"


BUMP = Tool.wrap(bump, name="bump")
ASKS = ToolPolicy(allowed_tools=("bump",), require_approval_for_tools=("bump",))


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """One idle unit stays in memory."""
    monkeypatch.setattr(units, "KEPT_IDLE", 1)
    DONE.clear()


def room_unit(number: int) -> Unit:
    return Unit(ROOM, f"r{number}")


async def visit_other_rooms(host: Host, rooms: int = 6) -> None:
    """Turns to other units, so that all idle ones are evicted."""
    for number in range(rooms):
        host.state(room_unit(number))


async def test_idle_units_leave_memory_and_come_back_as_they_were(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        for turn in range(3):
            for number in range(12):
                await host.submit("ex/Ev@1", poke_event(f"t{turn}", f"r{number}"))
                assert len(host.loaded()) <= 4
        for number in range(12):
            cell = host.state(room_unit(number)).cell
            assert cell is not None
            assert list(cell["log"]) == ["t0", "t1", "t2"]
        await host.settle()
        assert_sound(store, host)


async def test_many_units_that_are_idle_at_once_leave_as_few(
    memory: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "KEPT_IDLE", 8)
    async with running_host(memory, small_manifest(), [EchoAdapter()]) as host:
        await asyncio.gather(*(host.submit("ex/Ev@1", poke_event("all", f"r{number}")) for number in range(100)))
        await host.settle()
        for number in range(100, 150):
            host.state(room_unit(number))
            host.state(room_unit(249 - number))
        assert len(host.loaded()) <= 2 * 8


async def test_a_unit_whose_effect_runs_stays_until_its_receipt_is_durable(store: Store) -> None:
    go_on = asyncio.Event()
    echo = EchoAdapter({"slow": go_on})
    async with running_host(store, small_manifest(), [echo]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:slow"))
        while not echo.performed:
            await asyncio.sleep(0.001)
        await visit_other_rooms(host)
        assert A in host.loaded()
        go_on.set()
        await host.settle()
        await visit_other_rooms(host)
        assert A not in host.loaded()
        cell = host.state(A).cell
        assert cell is not None
        assert list(cell["log"]) == ["asked", "ok:slow"]
        assert echo.performed == ["slow"]
        assert_sound(store, host)


async def test_messages_reach_units_that_were_evicted_once(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        for number in range(5):
            await host.submit("ex/Ev@1", poke_event(f"post:{number}a,{number}b", f"r{number}"))
        await host.settle()
        await visit_other_rooms(host)
        await host.settle()
        cell = host.state(Unit(BOARD, "b")).cell
        assert cell is not None
        assert list(cell["notes"]) == [f"{number}{letter}" for number in range(5) for letter in "ab"]
        assert store.outbox() == []


async def test_a_unit_that_failed_stays_and_goes_on_when_it_is_settled(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", poke_event("one"))
        with faults.armed({"journal.before_commit": "enospc@2+"}), suppress(Unavailable):
            await host.submit("ex/Ev@1", poke_event("ask:two"))
            await host.settle()
        await visit_other_rooms(host)
        await host.settle()
        cell = host.state(A).cell
        assert cell is not None
        assert list(cell["log"]) == ["one", "asked", "ok:two"]
        assert_sound(store, host)


async def test_a_watcher_of_an_evicted_unit_sees_what_it_does_later(memory: MemoryStore) -> None:
    async with running_host(memory, small_manifest(), [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", poke_event("one"))
        with host.broadcast.watch(A) as watcher:
            await visit_other_rooms(host)
            assert A not in host.loaded()
            await host.submit("ex/Ev@1", poke_event("ask:two"))
            await host.settle()
            watcher.end()
            assert [frame.event.type async for frame in watcher] == ["began", "closed"]


async def test_a_request_for_approval_waits_in_a_unit_that_was_evicted(store: Store) -> None:
    time = Time()
    manifest = chat_manifest([BUMP], ASKS)
    answers = [
        call_answer(("c1", "bump", {"what": "x"})),
        text_answer("Done."),
        call_answer(("c2", "bump", {"what": "y"})),
        text_answer("Pity."),
    ]
    store.put_blob(SYSTEM)
    adapters = chat_adapters(ScriptedModel(*answers), [BUMP])
    host = Host(store, manifest, adapters, clock=time.clock, entropy=SeededEntropy(1), sleep=time.sleep)
    await host.start()
    talk = ChatClient(host)
    await talk.create()
    await talk.say("go")
    for key in "abcdef":
        await ChatClient(host, Unit(CHAT, key)).create()
    assert MAIN not in host.loaded()
    [(unit, intent)] = host.approvals()
    assert unit == MAIN
    await host.decide(intent.id, approve=True, reason="", caller=USER)
    await host.settle(MAIN)
    assert DONE == ["x"]
    await talk.say("again")
    for key in "abcdef":
        host.state(Unit(CHAT, key))
    await time.pass_by(7 * DAY, host)
    assert host.approvals() == []
    assert [record.body["verdict"] for record in talk.records("approval")] == ["approve", "expire"]
    assert DONE == ["x"]
    assert_sound(store, host)
    await host.close()


async def test_a_turn_that_is_cancelled_while_its_unit_is_not_in_memory_ends(store: Store) -> None:
    answers = [call_answer(("c1", "bump", {"what": "x"}), ("c2", "bump", {"what": "y"})), text_answer("Stopped.")]
    async with chat_world(store, ScriptedModel(*answers), [BUMP], policy=ASKS) as talk:
        await talk.say("go")
        for key in "abcdef":
            await ChatClient(talk.host, Unit(CHAT, key)).create()
        assert MAIN not in talk.host.loaded()
        await talk.host.cancel(MAIN, reason="stop", caller=USER)
        await talk.host.settle()
        assert talk.host.approvals() == []
        assert talk.turn["status"] == "done"
        assert DONE == []
        assert_sound(store, talk.host)


async def test_a_unit_that_comes_back_takes_no_snapshot_before_its_time(memory: MemoryStore) -> None:
    """A snapshot waits for as many records as it is long, also when the unit was loaded after the last one."""
    async with running_host(memory, small_manifest(), [EchoAdapter()], tail_bytes=700) as host:
        for number in range(60):
            await host.submit("ex/Ev@1", poke_event(f"{number} " + "x" * 300))
        stayed = len(list(Loader(memory, Manifests(small_manifest(), memory.get_blob), []).snapshots(A)))
    other = MemoryStore("world_2")
    async with running_host(other, small_manifest(), [EchoAdapter()], tail_bytes=700) as host:
        for number in range(60):
            await host.submit("ex/Ev@1", poke_event(f"{number} " + "x" * 300))
            await visit_other_rooms(host)
            assert A not in host.loaded()
        assert len(list(Loader(other, Manifests(small_manifest(), other.get_blob), []).snapshots(A))) <= stayed + 1


@pytest.mark.parametrize("seed", range(6))
async def test_any_mix_of_turns_decisions_and_restarts_leaves_the_world_sound(store: Store, seed: int) -> None:
    """The list of what waits is what the units say, and each call that was approved ran once."""
    chance = random.Random(seed)
    manifest = chat_manifest([BUMP], ASKS)
    approved: set[bytes] = set()
    numbers = count()
    for _ in range(3):
        script = ScriptedModel(
            *(
                call_answer((f"c{n}", "bump", {"what": f"{next(numbers)}"})) if n % 2 else text_answer("Fine.")
                for n in range(80)
            )
        )
        async with chat_world(store, script, [BUMP], manifest=manifest) as talk:
            talks = [ChatClient(talk.host, Unit(CHAT, key)) for key in "abcde"]
            for one in talks:
                if one.host.state(one.unit).cell is None:
                    await one.create()
            for _ in range(15):
                one = chance.choice(talks)
                match chance.choice(("say", "decide", "decide", "cancel", "settle", "look")):
                    case "say":
                        await one.say("go", settle=chance.random() < 0.5)
                    case "decide":
                        for _, intent in talk.host.approvals()[:1]:
                            yes = chance.random() < 0.7
                            await talk.host.decide(intent.id, approve=yes, reason="", caller=USER)
                            approved |= {intent.id} if yes else set()
                    case "cancel":
                        with suppress(Conflict, NotFound):
                            await talk.host.cancel(one.unit, reason="", caller=USER)
                    case "settle":
                        await talk.host.settle(one.unit)
                    case "look":
                        talk.host.state(one.unit)
            if chance.random() < 0.5:
                await talk.host.settle()
        assert_replay_agrees(store, manifest)
        loader = Loader(store, Manifests(manifest, store.get_blob), [])
        states = [loader.load(Unit.parse(head.unit)).state for head in store.heads()]
        assert store.waiting.read() == {intent: str(state.unit) for state in states for intent in state.waiting}
    assert len(DONE) == len(set(DONE)) <= len(approved)
