"""Sessions of chats: what tools fold there is in the journal, and nowhere else (architecture.md 2, rule 9; seed 004,
Session Integration).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.world.small_world import (
    MAIN,
    SYSTEM,
    ChatClient,
    ScriptedModel,
    call_answer,
    chat_adapters,
    chat_manifest,
    running_host,
    text_answer,
)

from demiurge.apps.demiurge import CHAT
from demiurge.errors import Damaged, Divergence
from demiurge.prompts.planning import Plan, SetupPlan, UpdateStep, planning_tools
from demiurge.prompts.planning.plan import NO_PLAN
from demiurge.sessions import Session, reducer
from demiurge.sessions.codec import EventCodec
from demiurge.stores import MemoryStore, Store
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.invoked import ToolInvoked
from demiurge.tools.result import ToolResult
from demiurge.tools.source import StaticToolSource
from demiurge.values import cbor
from demiurge.values.clock import FixedClock
from demiurge.values.refs import Ref
from demiurge.world.effects.tool_call import ToolCalls
from demiurge.world.manifest import Manifest
from demiurge.world.record import Record
from demiurge.world.sessions.sessions import EVERY, Sessions, StoredRecords
from demiurge.world.unit import Unit

OTHER = Unit(CHAT, "other")


@dataclass(frozen=True)
class Order:
    part: str
    count: int = 1
    how: str = ""


@dataclass(frozen=True)
class Sold:
    part: str
    count: int


@dataclass(frozen=True)
class Aside:
    text: str


@dataclass(frozen=True)
class Till:
    """A fold of what was sold; its tool tells the world of it."""

    sold: dict[str, int] = field(default_factory=dict)

    @reducer(on=Sold)
    def on_sold(self, event: Sold) -> Till:
        return Till({**self.sold, event.part: self.sold.get(event.part, 0) + event.count})


def sell(params: Order, *, context: ToolContext) -> ToolResult[Sold]:
    match params.how:
        case "twice":
            context.session.broadcast(Sold(params.part, params.count))
        case "fail":
            context.session.broadcast(Sold(params.part, params.count))
            raise RuntimeError
        case "aside":
            context.session.broadcast(Aside("by the way"))
        case "seed":
            context.session[Till].seed(Till({"everything": 1}))
    return ToolResult("sold", Sold(params.part, params.count))


def count(params: Order, *, context: ToolContext) -> ToolResult[Till]:
    till = context.session[Till].latest() or Till()
    calls = [(call.call_id, call.result.success) for call in context.session[ToolInvoked].all()]
    return ToolResult(f"{till.sold} after {calls}", till)


def answer_with_aside(params: Order, *, context: ToolContext) -> ToolResult[Any]:
    return ToolResult("an aside", Aside(params.part))


TOOLS: tuple[Tool[Any, Any], ...] = (
    Tool[Order, Sold](name="sell", description="Sells.", handler=sell, inline=True),
    Tool[Order, Till](name="count", description="Counts.", handler=count, inline=True, effect=ToolEffect.READ_ONLY),
    Tool[Order, Any](name="loose", description="Says.", handler=answer_with_aside, inline=True),
)


def codec_of(tools: Sequence[Tool[Any, Any]], *types: type[Any]) -> EventCodec:
    return EventCodec((*(tool.result_type for tool in tools), *types))


@asynccontextmanager
async def chat_with_answers(
    store: Store,
    *answers: Any,
    tools: Sequence[Tool[Any, Any]] = TOOLS,
    types: Sequence[type[Any]] = (),
    unit: Unit = MAIN,
    manifest: Manifest | None = None,
) -> AsyncIterator[ChatClient]:
    """A chat whose model says `answers`, in a process of its own."""
    store.put_blob(SYSTEM)
    others = [part for part in chat_adapters(ScriptedModel(*answers), tools) if not isinstance(part, ToolCalls)]
    sessions = Sessions(StoredRecords(store), codec_of(tools, *types))
    calls = ToolCalls(StaticToolSource(tools), FixedClock(0, 1_000_000), sessions)
    async with running_host(store, manifest or chat_manifest(tools), [calls, *others]) as host:
        talk = ChatClient(host, unit)
        if store.head(str(unit)) is None:
            await talk.create()
        yield talk


def session_from_store(store: Store, unit: Unit = MAIN, *, codec: EventCodec | None = None) -> Session:
    """As a process sees it that knows nothing but the store."""
    return Sessions(StoredRecords(store), codec or codec_of(TOOLS)).of(unit)


def sale_call(call_id: str, part: str = "bolt", number: int = 1, how: str = "") -> tuple[str, str, dict[str, Any]]:
    return (call_id, "sell", {"part": part, "count": number, "how": how})


def logged_calls(of: Session) -> list[tuple[str | None, str, ToolErrorCode | None]]:
    return [(call.call_id, call.name, call.error_code) for call in of[ToolInvoked].all()]


def chat_receipts(store: Store) -> list[Record]:
    return list(StoredRecords(store).receipts(MAIN, 0, 100_000))


def contents(of: Session) -> dict[type[Any], tuple[Any, ...]]:
    return {kind: history.all() for kind, history in of.snapshot(include_all=True).held.items()}


def contents_told(talk: ChatClient) -> list[str]:
    return [output["content"] for output in talk.outputs()]


# -- what is kept -----------------------------------------------------------------------------------------------------


async def test_a_plan_is_there_for_the_next_process(store: Store) -> None:
    tools = planning_tools()
    setup = ("c1", "planning_setup_plan", {"objective": "Move", "initial_steps": ["Pack", "Drive"]})
    add = ("c2", "planning_add_step", {"steps": ["Unpack"]})
    done = ("c3", "planning_update_step", {"step_id": 1, "status": "done"})
    async with chat_with_answers(store, call_answer(setup, add), text_answer("planned"), tools=tools) as talk:
        await talk.say("plan")
    codec = codec_of(tools)
    planned = NO_PLAN.after(SetupPlan("Move", ("Pack", "Drive", "Unpack")))
    assert session_from_store(store, codec=codec)[Plan].latest() == planned
    async with chat_with_answers(store, call_answer(done), text_answer("done"), tools=tools) as talk:
        await talk.say("go")
        list(talk.host.replay())
    assert session_from_store(store, codec=codec)[Plan].latest() == planned.after(UpdateStep(1, status="done"))


async def test_a_call_sees_what_those_before_it_did(memory: MemoryStore) -> None:
    ask = ("c3", "count", {"part": ""})
    async with chat_with_answers(
        memory, call_answer(sale_call("c1"), sale_call("c2", number=2, how="twice"), ask), text_answer("ok")
    ) as talk:
        await talk.say("go")
        assert "{'bolt': 5} after [('c1', True), ('c2', True)]" in contents_told(talk)[2]
    assert session_from_store(memory)[Till].latest() == Till({"bolt": 5})


async def test_a_failed_call_leaves_only_its_entry_in_the_log(store: Store) -> None:
    async with chat_with_answers(
        store, call_answer(sale_call("c1"), sale_call("c2", how="fail"), sale_call("c3", "nut")), text_answer("ok")
    ) as talk:
        await talk.say("go")
        named = [receipt["payload"]["events_ref"] is not None for receipt in talk.receipts("tool.call")]
        assert named == [True, False, True]
    found = session_from_store(store)
    assert found[Till].latest() == Till({"bolt": 1, "nut": 1})
    assert logged_calls(found) == [("c1", "sell", None), ("c2", "sell", ToolErrorCode.EXECUTION), ("c3", "sell", None)]
    assert (found[ToolInvoked].all()[1].result.success, found[ToolInvoked].all()[1].params) == (False, None)


async def test_chats_have_sessions_of_their_own(memory: MemoryStore) -> None:
    async with chat_with_answers(memory, call_answer(sale_call("c1")), text_answer("ok")) as talk:
        await talk.say("go")
    async with chat_with_answers(memory, call_answer(sale_call("c1", number=7)), text_answer("ok"), unit=OTHER) as talk:
        await talk.say("go")
    assert session_from_store(memory)[Till].latest() == Till({"bolt": 1})
    assert session_from_store(memory, OTHER)[Till].latest() == Till({"bolt": 7})
    assert contents(session_from_store(memory, Unit(CHAT, "nobody"))) == {}


async def test_sessions_that_leave_memory_come_back_as_they_were(
    memory: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demiurge.world.sessions.sessions.KEPT", 1)
    keys = ("x", "y", "z")
    answers = [
        answer for turn in range(6) for answer in (call_answer(sale_call(f"c{turn}", number=turn)), text_answer("ok"))
    ]
    async with chat_with_answers(memory, *answers) as talk:
        chats = {key: ChatClient(talk.host, Unit(CHAT, key)) for key in keys}
        for chat in chats.values():
            await chat.create()
        for key in keys * 2:
            await chats[key].say("go")
    found = {key: session_from_store(memory, Unit(CHAT, key)) for key in keys}
    assert {key: found[key][Till].latest() for key in keys} == {
        key: Till({"bolt": turn + turn + 3}) for turn, key in enumerate(keys)
    }
    records = Counting(memory)
    sessions = Sessions(records, codec_of(TOOLS))
    for key in keys:
        sessions.of(Unit(CHAT, key))
    read = len(records.seen)
    sessions.of(Unit(CHAT, "z"))
    assert len(records.seen) == read, "the last one is in memory"
    sessions.of(Unit(CHAT, "x"))
    assert len(records.seen) > read, "the first one has left"


async def test_an_event_on_a_copy_of_a_session_stays_in_the_copy(memory: MemoryStore) -> None:
    async with chat_with_answers(memory, call_answer(sale_call("c1")), text_answer("ok")) as talk:
        await talk.say("go")
    sessions = Sessions(StoredRecords(memory), codec_of(TOOLS))
    sessions.of(MAIN).broadcast(Sold("bolt", 100))
    assert sessions.of(MAIN)[Till].latest() == Till({"bolt": 1})


async def test_a_refused_call_is_in_the_log_of_the_session(memory: MemoryStore) -> None:
    async with chat_with_answers(memory, call_answer(("c1", "unheard_of", {})), text_answer("sorry")) as talk:
        await talk.say("go")
    [entry] = session_from_store(memory)[ToolInvoked].all()
    assert (entry.name, entry.call_id, entry.error_code) == ("unheard_of", "c1", ToolErrorCode.POLICY_DENIED)
    assert not entry.result.success


# -- what can't be kept -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "why"),
    [("aside", "Aside is not a known event type"), ("seed", "changes by events alone")],
    ids=["type", "direct"],
)
async def test_a_call_that_can_not_be_folded_again_fails(
    memory: MemoryStore, caplog: pytest.LogCaptureFixture, how: str, why: str
) -> None:
    with caplog.at_level(logging.ERROR, "demiurge.world"):
        async with chat_with_answers(memory, call_answer(sale_call("c1", how=how)), text_answer("sorry")) as talk:
            await talk.say("go")
            assert "could not be recorded" in contents_told(talk)[0]
    assert why in caplog.text
    assert logged_calls(session_from_store(memory)) == [("c1", "sell", ToolErrorCode.EXECUTION)]
    assert session_from_store(memory)[Till].all() == ()


async def test_a_world_may_be_told_of_more_types(memory: MemoryStore) -> None:
    async with chat_with_answers(
        memory, call_answer(sale_call("c1", how="aside")), text_answer("ok"), types=[Aside]
    ) as talk:
        await talk.say("go")
    assert session_from_store(memory, codec=codec_of(TOOLS, Aside))[Aside].all() == (Aside("by the way"),)
    passed_over = session_from_store(memory)
    assert (passed_over[Aside].all(), passed_over[Till].latest()) == ((), Till({"bolt": 1}))


async def test_a_result_whose_type_is_not_told_is_no_event(memory: MemoryStore) -> None:
    async with chat_with_answers(memory, call_answer(("c1", "loose", {"part": "x"})), text_answer("ok")) as talk:
        await talk.say("go")
        assert talk.receipts("tool.call")[0]["payload"]["events_ref"] is None
    assert logged_calls(session_from_store(memory)) == [("c1", "loose", None)]
    assert session_from_store(memory)[Aside].all() == ()


async def test_a_receipt_of_an_older_version_folds_to_nothing(memory: MemoryStore) -> None:
    today = chat_manifest(TOOLS)
    node = cbor.decode(today.node)
    for definition in node["system"]:
        if definition["name"] == "sys/ToolCallReceipt@1":
            del definition["type"]["record"]["events_ref"], definition["type"]["record"]["session_ref"]
    before = Manifest.load(cbor.encode(node), today.reducers)
    ask = ("c2", "count", {"part": ""})
    async with chat_with_answers(memory, call_answer(sale_call("c1"), ask), text_answer("ok"), manifest=before) as talk:
        await talk.say("go")
        assert "{} after []" in contents_told(talk)[1]
    async with chat_with_answers(memory, call_answer(sale_call("c3")), text_answer("ok")) as talk:
        await talk.say("go")
        list(talk.host.replay())
    assert logged_calls(session_from_store(memory)) == [
        ("c1", "sell", None),
        ("c2", "count", None),
        ("c3", "sell", None),
    ]
    assert session_from_store(memory)[Till].latest() == Till({"bolt": 1})


# -- damage and change ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Altered(StoredRecords):
    """Blobs that say something else."""

    blobs: dict[Ref, bytes] = field(default_factory=dict)

    def get_blob(self, ref: Ref) -> bytes:
        return self.blobs.get(ref) or super().get_blob(ref)


@pytest.mark.parametrize("data", [b"[", b"{}", b"[1]", b'[{"type": "Sold"}]', b"\xff"])
async def test_damaged_events_are_told_by_their_record(memory: MemoryStore, data: bytes) -> None:
    async with chat_with_answers(memory, call_answer(sale_call("c1")), text_answer("ok")) as talk:
        await talk.say("go")
        ref = talk.receipts("tool.call")[0]["payload"]["events_ref"]
    with pytest.raises(Damaged, match=r"record demiurge/Demiurge@1/main \d+: the events of this call are damaged"):
        Sessions(Altered(memory, {ref: data}), codec_of(TOOLS)).of(MAIN)


async def test_lost_events_keep_tools_from_running_and_nothing_else(memory: MemoryStore) -> None:
    async with chat_with_answers(memory, call_answer(sale_call("c1")), text_answer("ok")) as talk:
        await talk.say("go")
        ref = talk.receipts("tool.call")[0]["payload"]["events_ref"]
    memory._blobs.pop(ref)
    async with chat_with_answers(memory, call_answer(sale_call("c2")), text_answer("sorry")) as talk:
        await talk.say("again")
        assert "the events of this call are damaged" in contents_told(talk)[1]
        assert talk.turn["status"] == "done"


async def test_events_that_their_type_no_longer_takes_are_a_divergence(memory: MemoryStore) -> None:
    async with chat_with_answers(memory, call_answer(sale_call("c1")), text_answer("ok")) as talk:
        await talk.say("go")

    @dataclass(frozen=True)
    class Changed:
        piece: str

    Changed.__name__ = Changed.__qualname__ = "Sold"
    with pytest.raises(Divergence, match="Sold does not take"):
        session_from_store(memory, codec=EventCodec([Changed]))


async def test_a_reducer_that_no_longer_takes_an_event_is_a_divergence(memory: MemoryStore) -> None:
    async with chat_with_answers(memory, call_answer(sale_call("c1")), text_answer("ok")) as talk:
        await talk.say("go")

    @dataclass(frozen=True)
    class Strict:
        @reducer(on=Sold)
        def on_sold(self, event: Sold) -> Strict:
            raise ValueError

    with pytest.raises(Divergence, match="reducer"):
        session_from_store(memory, codec=EventCodec([Strict]))


# -- cost -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counting(StoredRecords):
    """Says which records were looked at."""

    seen: list[int] = field(default_factory=list)

    def receipts(self, unit: Unit, start: int, limit: int) -> Iterator[Record]:
        for receipt in super().receipts(unit, start, limit):
            self.seen.append(receipt.unit_seq)
            yield receipt


async def long_history(store: Store, turns: int = 3, calls: int = 50) -> list[int]:
    """The numbers of the receipts that name a checkpoint."""
    answers: list[Any] = []
    for turn in range(turns):
        sales = [sale_call(f"c{turn}.{number}", f"part {number % 3}", number) for number in range(calls)]
        answers += [call_answer(*sales), text_answer("ok")]
    async with chat_with_answers(store, *answers) as talk:
        for _ in range(turns):
            await talk.say("go")
        return [record.unit_seq for record in talk.records("receipt") if record.body["payload"].get("session_ref")]


async def test_a_session_from_a_checkpoint_is_the_one_from_all_receipts(memory: MemoryStore) -> None:
    checkpoints = await long_history(memory)
    assert len(checkpoints) == 3 * 50 // EVERY
    records = Counting(memory)
    short = Sessions(records, codec_of(TOOLS)).of(MAIN)
    assert min(records.seen) > 0
    whole = session_from_store(memory, codec=codec_of(TOOLS, Aside))
    assert contents(short) == contents(whole)
    assert len(logged_calls(whole)) == 150


async def test_each_call_reads_only_what_is_new(memory: MemoryStore) -> None:
    await long_history(memory)
    records = Counting(memory)
    sessions = Sessions(records, codec_of(TOOLS))
    sessions.of(MAIN)
    records.seen.clear()
    sessions.of(MAIN)
    assert records.seen == []
    async with chat_with_answers(memory, call_answer(sale_call("last")), text_answer("ok")) as talk:
        await talk.say("go")
    sessions.of(MAIN)
    assert len(records.seen) == 3  # two of the model, one of the tool


async def test_a_checkpoint_that_is_lost_costs_time_and_nothing_else(memory: MemoryStore) -> None:
    await long_history(memory)
    whole = contents(session_from_store(memory))
    refs = [r.body["payload"]["session_ref"] for r in chat_receipts(memory) if r.body["payload"].get("session_ref")]
    altered = Altered(memory, {refs[-1]: b"[]"})
    assert contents(Sessions(altered, codec_of(TOOLS)).of(MAIN)) == whole
    nothing = Altered(memory, dict.fromkeys(refs, b"{"))
    assert contents(Sessions(nothing, codec_of(TOOLS)).of(MAIN)) == whole
