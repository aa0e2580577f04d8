"""The host: what it acknowledges is durable, what it sends arrives once, and one unit's trouble is its own."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.world.small_world import (
    BOARD,
    ROOM,
    A,
    EchoAdapter,
    await_receipt_step,
    edge,
    emit_effect_step,
    plain_data,
    plan,
    poke_event,
    raise_event_step,
    ref,
    room_reducer,
    running_host,
    small_manifest,
    stop_before_effect,
    stored_records,
)

from demiurge import faults
from demiurge.errors import Conflict, Damaged, DemiurgeError, InvalidValue, NotFound, Unavailable, UsageError
from demiurge.stores import MemoryStore, SqliteStore, Store
from demiurge.stores.protocol import Batch
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref, ref_from_digest, ref_of
from demiurge.world.effect import EffectCall, Restart, Result, failed, succeeded
from demiurge.world.history.verify import verify
from demiurge.world.host import Host
from demiurge.world.reducer import ReducerContext, Step
from demiurge.world.routing import event_digest
from demiurge.world.unit import Unit

B = Unit(BOARD, "b")


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore("world_1")


async def say(host: Host, what: str, room_name: str = "a", **more: Any) -> Any:
    return await host.submit("ex/Ev@1", poke_event(what, room_name), **more)


def log(host: Host, unit: Unit = A) -> list[str]:
    cell = host.state(unit).cell
    return list(cell["log"]) if cell is not None else []


def notes(host: Host) -> list[str]:
    cell = host.state(B).cell
    return list(cell["notes"]) if cell is not None else []


# -- taking events in -------------------------------------------------------------------------------------------------


async def test_an_event_is_durable_when_submit_returns(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        accepted = await say(host, "one")
        assert (accepted.unit, accepted.seq) == ("ex/Room@1/a", 0)
        assert accepted.event_hash == ref_from_digest(event_digest("ex/Ev@1", poke_event("one"), "a"))
        assert [row.kind for row in store.read("ex/Room@1/a")] == ["event", "manifest", "step"]


async def test_an_arm_of_the_event_is_taken_as_well_and_wrapped(memory: MemoryStore) -> None:
    async with running_host(memory, small_manifest(), [EchoAdapter()]) as host:
        await host.submit("ex/Poke@1", {"room": "a", "what": "bare"}, key="a")
        assert log(host) == ["bare"]
        assert next(host.records(A)).body["schema"] == "ex/Ev@1"


@pytest.mark.parametrize(
    ("schema", "value", "key", "error", "code"),
    [
        ("ex/None@1", {}, None, NotFound, "unknown_schema"),
        ("ex/Ask@1", {"room": "a", "n": 1, "text": "x"}, None, UsageError, "unroutable"),
        ("ex/Ev@1", {"$tag": "Poke", "$value": {"room": "a"}}, None, InvalidValue, "invalid_value"),
        ("ex/Ev@1", {"$tag": "Nope", "$value": {}}, None, InvalidValue, "invalid_value"),
        ("ex/Poke@1", {"room": "a", "what": "x", "more": 1}, None, InvalidValue, "invalid_value"),
        ("ex/Poke@1", {"room": "a", "what": "x"}, "b", UsageError, "wrong_key"),
        (
            "sys/PlanFailed@1",
            {"plan": "p", "plan_id": 1, "correlation": "", "code": "", "message": ""},
            None,
            InvalidValue,
            "invalid_value",
        ),
    ],
)
async def test_an_event_that_can_not_be_taken_is_refused_and_leaves_no_trace(
    memory: MemoryStore, schema: str, value: Any, key: str | None, error: type[DemiurgeError], code: str
) -> None:
    async with running_host(memory, small_manifest(), [EchoAdapter()]) as host:
        with pytest.raises(error) as raised:
            await host.submit(schema, value, key=key)
        assert raised.value.code == code
        assert stored_records(memory) == []


async def test_an_event_that_names_a_missing_blob_is_refused(memory: MemoryStore) -> None:
    blobs: dict[str, Any] = {"ex/Poke@1": {"record": {"room": {"text": {}}, "what": {"hash": {}}}}}
    async with running_host(memory, small_manifest(schemas=blobs), [EchoAdapter()]) as host:
        missing = ref_of(b"not stored")
        with pytest.raises(NotFound, match="There is no blob"):
            await say(host, missing)
        await host.put_blob(b"not stored")
        await say(host, missing)
        assert next(host.records(A)).refs == (missing,)


async def test_an_idempotency_key_is_one_event_s(store: Store) -> None:
    async with running_host(store, small_manifest(), []) as host:
        first = await say(host, "one", idempotency_key="k")
        with pytest.raises(Conflict, match=f"key 'k' belongs to another event, ex/Room@1/a #{first.seq}") as taken:
            await say(host, "other words", idempotency_key="k")
        assert taken.value.code == "key_taken"
        for bad in ("", 5, b"k"):
            with pytest.raises(UsageError) as refused:
                await say(host, "two", idempotency_key=bad)
            assert refused.value.code == "bad_key"
        assert log(host) == ["one"]


async def test_the_same_idempotency_key_answers_with_the_first_event(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        first = await say(host, "one", idempotency_key="k")
        assert await say(host, "one", idempotency_key="k") == first
        both = await asyncio.gather(*(say(host, "two", idempotency_key="j") for _ in range(3)))
        assert len(set(both)) == 1
        assert log(host) == ["one", "two"]
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        assert await say(host, "one", idempotency_key="k") == first
        assert (await say(host, "one", "c", idempotency_key="k")).unit == "ex/Room@1/c", "keys belong to a unit"


async def test_many_events_at_once_keep_their_order_in_each_unit(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await asyncio.gather(*(say(host, f"{n}", f"r{n % 3}") for n in range(30)))
        for number in range(3):
            assert log(host, Unit(ROOM, f"r{number}")) == [f"{n}" for n in range(number, 30, 3)]
    assert verify(store).ok


async def test_one_refused_ingress_does_not_fail_the_others(memory: MemoryStore) -> None:
    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        if event["$value"]["what"] == "bad":
            context.blob(ref_of(b"nowhere"))
        return room_reducer(state, event, context)

    async with running_host(memory, small_manifest(reduce=reduce), [EchoAdapter()]) as host:
        outcomes = await asyncio.gather(*(say(host, what) for what in ("one", "bad", "two")), return_exceptions=True)
        assert isinstance(outcomes[1], NotFound)
        assert [type(outcome).__name__ for outcome in outcomes] == ["Accepted", "NotFound", "Accepted"]
        assert log(host) == ["one", "two"]
        await say(host, "three")
        assert log(host) == ["one", "two", "three"]


async def test_a_reducers_failure_is_recorded_and_the_caller_has_its_event_accepted(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        accepted = await say(host, "fail:x")
        await host.settle()
        step = list(host.records(A, accepted.seq))[-1]
        assert step.body["error"]["code"] == "reducer_failed"


# -- effects ----------------------------------------------------------------------------------------------------------


async def test_an_effect_is_attempted_performed_and_received(store: Store) -> None:
    echo = EchoAdapter()
    async with running_host(store, small_manifest(), [echo]) as host:
        await say(host, "ask:x,y")
        await host.settle()
        assert log(host) == ["asked", "ok:x", "ok:y"]
        intents = [r.body["id"] for r in host.records(A) if r.kind == "intent"]
        assert set(store.attempts(intents)) == set(intents)
    assert sorted(echo.performed) == ["x", "y"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (failed("gone", "It is gone."), "error:gone"),
        (succeeded(wrong=1), "error:receipt_invalid"),
        (succeeded(text="x", blob=ref_of(b"never stored")), "error:receipt_invalid"),
        ({"status": "error", "payload": {"code": 7}}, "error:receipt_invalid"),
        (RuntimeError("a secret"), "error:effect_failed"),
        (Unavailable("The line is down.", code="line_down"), "error:line_down"),
    ],
)
async def test_every_answer_or_exception_of_an_adapter_becomes_a_receipt(store: Store, answer: Any, told: str) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter({"x": answer})]) as host:
        await say(host, "ask:x")
        await host.settle()
        assert log(host) == ["asked", told]
        assert not host.state(A).is_open
    assert verify(store).ok
    assert all(b"a secret" not in record.data for record in stored_records(store))


async def test_an_effect_that_nobody_performs_is_answered(memory: MemoryStore) -> None:
    async with running_host(memory, small_manifest(), []) as host:
        await say(host, "ask:x")
        await host.settle()
        assert log(host) == ["asked", "error:no_adapter"]


@pytest.mark.parametrize(
    ("restart", "performed", "told"),
    [("retry", ["x"], "ok:x"), ("in_doubt", [], "error:unknown_outcome"), ("reconcile", ["x"], "ok:x")],
)
async def test_an_attempt_without_a_receipt_does_what_the_adapter_says(
    store: Store, restart: Restart, performed: list[str], told: str
) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter({"x": asyncio.Event()})]) as host:
        await say(host, "ask:x")
        while not store.attempts(list(host.state(A).intents)):
            await asyncio.sleep(0.001)
    again = EchoAdapter(restart=restart)
    async with running_host(store, small_manifest(), [again]) as host:
        await host.settle()
        assert log(host) == ["asked", told]
    assert again.performed == performed


async def test_an_intent_without_an_attempt_is_dispatched_after_a_restart(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        stop_before_effect(host)
        await say(host, "ask:x")
    again = EchoAdapter(restart="in_doubt")
    async with running_host(store, small_manifest(), [again]) as host:
        await host.settle()
        assert log(host) == ["asked", "ok:x"]


async def test_a_receipt_that_is_durable_is_not_asked_for_again(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await say(host, "ask:x")
        await host.settle()
    again = EchoAdapter()
    async with running_host(store, small_manifest(), [again]) as host:
        await host.settle()
        assert log(host) == ["asked", "ok:x"]
    assert again.performed == []


async def test_a_restart_runs_an_open_intent_under_the_manifest_that_it_was_admitted_by(store: Store) -> None:
    seen: list[Ref] = []

    class Notes(EchoAdapter):
        async def perform(self, call: EffectCall) -> Result:
            seen.append(call.manifest.ref)
            return await super().perform(call)

    old = small_manifest()
    async with running_host(store, old, [EchoAdapter()]) as host:
        stop_before_effect(host)
        await say(host, "ask:x")
    async with running_host(store, small_manifest(source=b"1", settings={"x": 1}), [Notes()]) as host:
        await host.settle()
        assert log(host) == ["asked", "ok:x"]
    assert seen == [old.ref]


async def test_cancelling_stops_what_runs_and_answers_it(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter({"x": asyncio.Event()})]) as host:
        await say(host, "ask:x,y")
        while "ok:y" not in log(host):
            await asyncio.sleep(0.001)
        await host.cancel(A, reason="enough", caller=Caller("user"))
        await host.settle()
        assert log(host) == ["asked", "ok:y", "error:cancelled"]
        assert not host.state(A).is_open


async def test_cancelling_at_any_moment_leaves_nothing_open(memory: MemoryStore) -> None:
    async with running_host(memory, small_manifest(), [EchoAdapter({"x": asyncio.Event()})]) as host:
        for turns in range(12):
            name = f"r{turns}"
            await say(host, "ask:x", name)
            for _ in range(turns):
                await asyncio.sleep(0)
            await host.cancel(Unit(ROOM, name), reason="enough", caller=Caller("user"))
            await host.settle(Unit(ROOM, name))
            assert log(host, Unit(ROOM, name)) == ["asked", "error:cancelled"]
            assert host.state(Unit(ROOM, name)).intents == {}


async def test_closing_while_an_effect_runs_leaves_it_to_the_next_start(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter({"x": asyncio.Event()})]) as host:
        await say(host, "ask:x")
    assert [head.unit for head in store.heads(open_only=True)] == ["ex/Room@1/a"]
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await host.settle()
        assert log(host) == ["asked", "ok:x"]


async def test_waiting_for_a_record_fails_when_the_host_closes(memory: MemoryStore) -> None:
    host = Host(memory, small_manifest(), [EchoAdapter()])
    await host.start()
    waiting = asyncio.create_task(say(host, "one"))
    await asyncio.sleep(0)
    await host.close()
    with pytest.raises(Unavailable, match="being closed"):
        await waiting
    assert stored_records(memory) == []


# -- when the disk fails ----------------------------------------------------------------------------------------------


async def test_a_full_disk_refuses_an_event_and_loses_nothing(tmp_path: Path) -> None:
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
            await say(host, "one")
            with faults.armed({"journal.before_commit": "enospc"}), pytest.raises(Unavailable):
                await say(host, "two")
            assert log(host) == ["one"]
            await say(host, "three")
            assert log(host) == ["one", "three"]
        assert verify(store).ok


async def test_a_receipt_that_the_disk_refused_is_stored_later(tmp_path: Path) -> None:
    held = asyncio.Event()
    with SqliteStore.create(tmp_path / "w", "world_1") as store:
        echo = EchoAdapter({"x": held}, restart="in_doubt")
        async with running_host(store, small_manifest(), [echo]) as host:
            await say(host, "ask:x")
            while not echo.performed:
                await asyncio.sleep(0.001)
            with faults.armed({"journal.before_commit": "enospc"}):
                held.set()
                with pytest.raises(Unavailable):
                    await host.settle()
            await host.settle()
            assert log(host) == ["asked", "ok:x"]
        assert echo.performed == ["x"]
        assert verify(store).ok


# -- the outbox -------------------------------------------------------------------------------------------------------


async def test_events_between_units_arrive_once_and_in_order(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        for number in range(0, 9, 3):
            await say(host, f"post:{number},{number + 1},{number + 2}")
        await host.settle()
        assert notes(host) == [str(n) for n in range(9)]
        assert store.outbox() == []
        [first, *_] = host.records(B)
        assert first.cause == {"unit": str(A), "seq": 3, "index": 0}
        assert first.stamp.actor == str(A)
    assert verify(store).ok


async def test_a_message_that_was_not_delivered_is_delivered_after_a_restart(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        host._units._deliver = lambda sent: None  # type: ignore[method-assign]  # it dies between append and delivery
        await say(host, "post:1,2")
        await say(host, "post:3")
    assert len(store.outbox()) == 3
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await host.settle()
        assert notes(host) == ["1", "2", "3"]
        assert store.outbox() == []


@pytest.mark.parametrize("delivered", ["at once", "after a restart"])
async def test_a_message_has_the_tenant_and_the_roles_for_whom_it_was_sent(store: Store, delivered: str) -> None:
    """What a caller may not do in one unit it may not do by way of another."""
    ada = Caller("ada", "acme", ("viewer",), "http")
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        if delivered != "at once":
            host._units._deliver = lambda sent: None  # type: ignore[method-assign]
        await host.submit("ex/Ev@1", poke_event("post:1"), caller=ada)
        await host.submit("ex/Ev@1", poke_event("post:2"), caller=Caller("bob"))
        await host.settle()
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await host.settle()
        found = [record.stamp.caller for record in host.records(B) if record.is_ingress]
    assert found == [Caller(str(A), "acme", ("viewer",)), Caller(str(A))]
    assert verify(store).ok


async def test_a_unit_with_the_longest_key_sends(memory: MemoryStore) -> None:
    room = {"room": "a" * 256, "what": "post:1"}
    async with running_host(memory, small_manifest(), [EchoAdapter()]) as host:
        await host.submit("ex/Ev@1", {"$tag": "Poke", "$value": room})
        await host.settle()
        assert notes(host) == ["1"]


async def test_a_message_that_was_delivered_but_not_ticked_off_is_not_taken_twice(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await say(host, "post:1,2")
        await host.settle()
        host._units._deliver = lambda sent: None  # type: ignore[method-assign]
        await say(host, "post:3")
    [third] = store.outbox()
    taken = [record for record in stored_records(store) if record.unit == str(B) and record.is_ingress]
    assert len(taken) == 2
    head = store.head(str(A))
    assert head is not None
    first = next(row for row in store.read(str(B)) if row.ingress_id is not None)
    assert first.ingress_id is not None
    again = type(third)(first.ingress_id.removeprefix("sent:"), third.source, third.target, third.data)
    store.append([Batch(str(A), head.next_seq, (), head.open, (again,))])
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await host.settle()
        assert notes(host) == ["1", "2", "3"]
        assert store.outbox() == []


async def test_a_message_for_a_unit_that_is_left_alone_waits(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with SqliteStore.create(folder, "world_1") as store:
        async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
            await say(host, "post:1")
            await host.settle()
    _overwrite(
        folder, "UPDATE journal SET data = zeroblob(20) WHERE unit = (SELECT id FROM unit WHERE name = ?)", str(B)
    )
    with SqliteStore.open(folder) as store:
        async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
            await say(host, "post:2")
            await say(host, "still here")
            await host.settle(A)
            assert "still here" in log(host)
            assert len(store.outbox()) == 1
            assert any(str(B) in notice for notice in host.notices)


def _overwrite(folder: Path, statement: str, *args: Any) -> None:
    db = sqlite3.connect(folder / "journal.db")
    db.execute(statement, args)
    db.commit()
    db.close()


# -- loading ----------------------------------------------------------------------------------------------------------


async def test_a_loaded_unit_equals_the_live_one(store: Store) -> None:
    steps = [
        emit_effect_step("one", "h1", ref("@plan.input.text")),
        await_receipt_step("w1", "h1", "r1"),
        emit_effect_step("two", "h2", {"op": "concat", "args": [ref("@var:r1.payload.text"), "!"]}),
        await_receipt_step("w2", "h2", "r2"),
        raise_event_step("tell", ref("@var:r2.status"), ref("@var:r2.payload.text")),
    ]
    edges = [edge("one", "w1"), edge("w1", "two"), edge("two", "w2"), edge("w2", "tell")]
    manifest = small_manifest([plan(steps, edges)])
    async with running_host(store, manifest, [EchoAdapter({"x!": asyncio.Event()})]) as host:
        await say(host, "ask:x,y")
        while len(log(host)) < 2:
            await asyncio.sleep(0.001)
        live = plain_data(host.state(A))
    reader = Host(store, manifest, [])
    assert plain_data(reader.state(A)) == live
    assert live["intents"]
    await reader.close()


async def test_a_damaged_unit_is_left_alone_and_the_others_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    with SqliteStore.create(folder, "world_1") as store:
        async with running_host(store, small_manifest(), [EchoAdapter({"x": asyncio.Event()})]) as host:
            await say(host, "ask:x")
            await say(host, "fine", "c")
    _overwrite(folder, "UPDATE unit SET hash = zeroblob(32) WHERE name = ?", str(A))
    with SqliteStore.open(folder) as store:
        async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
            assert any(str(A) in notice for notice in host.notices)
            with pytest.raises(Damaged):
                await say(host, "more")
            await asyncio.gather(*(say(host, "more", name) for name in ("c", "d")))
            assert log(host, Unit(ROOM, "c")) == ["fine", "more"]


async def test_a_cell_is_read_with_its_number_and_a_hash_that_can_be_followed(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        for number in range(100):
            await say(host, str(number))
        reading = await host.read_cell(A)
        assert (reading.unit, reading.unit_seq) == (A, host.state(A).seq)
        assert reading.state_hash is not None
        assert store.has_blob(reading.state_hash)
        again = await host.read_cell(A)
        assert again.state_hash == reading.state_hash
        absent = await host.read_cell(Unit(ROOM, "nobody"))
        assert absent.to_node() == {"unit": "ex/Room@1/nobody", "unit_seq": 0, "state_hash": None}


async def test_the_same_history_has_the_same_state_hash_before_and_after_a_restart(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        for number in range(70):
            await say(host, str(number))
        before = (await host.read_cell(A)).state_hash
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        assert (await host.read_cell(A)).state_hash == before


async def test_looking_at_a_world_writes_nothing(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        await say(host, "one")
    before = [row.hash for row in store.read_all()]
    reader = Host(store, small_manifest(source=b"other"), [EchoAdapter()])
    assert log(reader) == ["one"]
    assert reader.approvals() == []
    assert [row.hash for row in store.read_all()] == before
    await reader.close()


async def test_a_send_is_taken_once_and_answers_with_its_step_again(store: Store) -> None:
    async with running_host(store, small_manifest(), [EchoAdapter()]) as host:
        cause = {"unit": "ex/Room@1/z", "seq": 3, "index": 0}
        sent = [
            await host.send("ex/Ev@1", poke_event("ask:x"), ingress_id="intent:1", caller=Caller("user"), cause=cause)
            for _ in range(2)
        ]
        assert [r.hash for r in sent[0]] == [r.hash for r in sent[1]]
        assert [r.kind for r in sent[0]] == ["event", "manifest", "step", "event", "intent"]
        assert sent[0][0].cause == cause


@pytest.mark.parametrize("answer", [succeeded(nonsense=1), TimeoutError(), RuntimeError("broken")])
async def test_an_invalid_receipt_is_an_error_that_the_plan_sees(memory: MemoryStore, answer: Any) -> None:
    async with running_host(memory, small_manifest(), [EchoAdapter({"x": answer})]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x"))
        await host.settle()
        cell = host.state(A).cell
    assert cell is not None
    [_, told] = cell["log"]
    status, _, code = told.partition(":")
    assert status != "ok"
    assert code


async def test_a_receipt_that_does_not_fit_its_schema_is_an_error(memory: MemoryStore) -> None:
    async with running_host(memory, small_manifest(), [EchoAdapter({"x": succeeded(text=1, blob=None)})]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x"))
        await host.settle()
        cell = host.state(A).cell
    assert cell is not None
    assert list(cell["log"]) == ["asked", "error:receipt_invalid"]


async def test_a_unit_accepts_events_while_its_effect_runs(memory: MemoryStore) -> None:
    goes_on = asyncio.Event()
    async with running_host(memory, small_manifest(), [EchoAdapter({"x": goes_on})]) as host:
        await host.submit("ex/Ev@1", poke_event("ask:x"))
        await host.submit("ex/Ev@1", poke_event("meanwhile"))
        goes_on.set()
        await host.settle()
        cell = host.state(A).cell
    assert cell is not None
    assert list(cell["log"]) == ["asked", "meanwhile", "ok:x"]
    assert [record.is_ingress for record in stored_records(memory) if record.kind == "receipt"] == [True]
