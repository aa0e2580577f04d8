"""`advance`: what each ingress does to a unit, and that every failure of a user, a plan or a reducer is a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.world.small_world import (
    BOARD,
    ECHO,
    SECOND,
    START_NS,
    A,
    Kernel,
    ask_event,
    await_receipt_step,
    echo_result,
    edge,
    emit_effect_step,
    plan,
    poke_event,
    raise_event_step,
    ref,
    small_manifest,
)

from demiurge.values.caller import USER, Caller
from demiurge.values.refs import Ref, ref_of
from demiurge.values.vector import Vector
from demiurge.world.effect import failed
from demiurge.world.kernel import advance
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Need
from demiurge.world.record import GENESIS, Stamp
from demiurge.world.reducer import Emit, ReducerContext, Step
from demiurge.world.state import UnitState
from demiurge.world.unit import Unit

State = Mapping[str, Any] | None


def test_an_event_becomes_a_record_a_step_and_what_it_caused() -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:x")
    assert unit.kinds() == ["event", "manifest", "step", "event", "intent"]
    assert [record.cause for record in unit.records] == [None, 0, 0, 2, 3]
    assert [record.unit_seq for record in unit.records] == [0, 1, 2, 3, 4]
    [intent] = unit.intents
    assert (intent.kind, intent.params, intent.seq, intent.grant) == ("ex.echo", {"text": "x"}, 4, "echo")
    assert unit.last.intents == (intent,)


def test_a_receipt_moves_the_plan_on_and_closes_the_intent() -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:x")
    records = unit.receipt(unit.intents[0], echo_result("x"))
    assert [r.kind for r in records] == ["receipt", "event", "plan_ended", "step"]
    assert [r.cause for r in records] == [None, 5, 5, 6]
    assert unit.log == ["asked", "ok:x"]
    assert not unit.state.is_open


def test_records_are_a_hash_chain_of_canonical_bytes() -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:x,y")
    previous = GENESIS
    for record in unit.records:
        assert record.prev == previous
        assert record.hash == bytes.fromhex(ref_of(record.data).removeprefix("sha256:"))
        previous = record.hash
    assert unit.state.head == previous


def test_only_ingress_carries_entropy_actor_and_manifest() -> None:
    unit = Kernel(small_manifest())
    ingress, *derived = unit.poke("ask:x")
    assert ingress.is_ingress
    assert (ingress.stamp.actor, ingress.stamp.manifest) == ("user", unit.manifest.ref)
    assert all(record.stamp == Stamp(ingress.stamp.time_ns) and not record.is_ingress for record in derived)


def test_blobs_named_by_a_record_are_in_its_refs() -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:x")
    blob = unit.put(b"payload")
    body = {"intent": unit.intents[0].id, "status": "ok", "payload": {"text": "x", "blob": blob}}
    stamp = Stamp(unit.now_ns, b"e", Caller("user"), unit.manifest.ref)
    [receipt, *_] = unit.step(Ingress("receipt", "r", body, stamp, 4, (blob,)))
    assert receipt.refs == (blob,)
    [manifest] = unit.records_of("manifest")
    assert manifest.refs[0] == unit.manifest.ref
    assert set(manifest.refs[1:]) == set(unit.manifest.sources.values())


# -- purity -----------------------------------------------------------------------------------------------------------


def test_a_step_that_needs_a_blob_asks_for_it_and_changes_nothing() -> None:
    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        return Step(set={"n": len(context.blob(Ref(event["$value"]["what"])))})

    manifest = small_manifest(reduce=reduce)
    state = UnitState("world_1", A)
    wanted = ref_of(b"four")
    stamp = Stamp(START_NS, b"e", Caller("user"), manifest.ref)
    ingress = Ingress("event", "i", {"schema": "ex/Ev@1", "value": poke_event(wanted)}, stamp)
    assert advance(manifest, state, ingress, {}) == Need(wanted)
    assert (state.seq, state.cell) == (0, None)
    outcome = advance(manifest, state, ingress, {wanted: b"four"})
    assert not isinstance(outcome, Need)
    assert outcome.state.cell is not None
    assert outcome.state.cell["n"] == 4


def test_a_blob_that_a_step_makes_is_there_for_the_next_step_of_the_same_ingress() -> None:
    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        if event["$tag"] == "Told":
            return Step(append={"log": [context.blob(Ref(event["$value"]["detail"])).decode()]})
        made = ref_of(b"made here")
        told = {"$tag": "Told", "$value": {"room": "a", "status": "s", "detail": made}}
        return Step(set={"n": 0}, events=[Emit("ex/Ev@1", told)], blobs=[b"made here"])

    unit = Kernel(small_manifest(reduce=reduce))
    unit.poke("go")
    assert unit.log == ["made here"]
    assert unit.last.new_blobs == (b"made here",)
    assert ref_of(b"made here") in unit.records_of("step")[0].refs


def test_a_blob_that_a_step_makes_is_not_put_among_those_that_were_given() -> None:
    manifest = small_manifest(reduce=lambda _state, _event, _context: Step(set={"n": 0}, blobs=[b"made here"]))
    given = {ref_of(b"four"): b"four"}
    body = {"schema": "ex/Ev@1", "value": poke_event("go")}
    outcome = advance(
        manifest,
        UnitState("world_1", A),
        Ingress("event", "i", body, Stamp(START_NS, b"e", USER, manifest.ref)),
        given,
    )
    assert not isinstance(outcome, Need)
    assert (outcome.new_blobs, given) == ((b"made here",), {ref_of(b"four"): b"four"})


def test_a_reducer_that_mutates_its_arguments_changes_nothing_outside() -> None:
    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        if state is not None:
            state["box"]["items"].append(99)
            assert isinstance(state, dict)
            state["n"] = 77
        event["$value"]["room"] = "elsewhere"
        event["$value"]["text"] = "scribbled"
        return Step(set={"n": 1, "box": {"items": [1]}} if state is None else {})

    unit = Kernel(
        small_manifest([plan([raise_event_step("tell", "x", ref("@plan.input.what"))], on="ex/Poke@1")], reduce)
    )
    for _ in range(3):
        unit.poke("y")  # the driver compares the state before and after
    assert unit.state.cell is not None
    assert unit.state.cell["box"] == {"items": [1]}
    assert unit.records_of("event")[0].body["value"]["$value"] == {"room": "a", "what": "y"}


def test_a_reducer_sees_time_entropy_and_caller_of_the_stamp_alone() -> None:
    seen: list[tuple[Any, ...]] = []

    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        seen.append((context.stamp.time_ns, context.origin, context.key, context.entropy("id"), context.entropy("x")))
        return Step(set={"n": 1}, events=[ask_event("x")] if event["$tag"] == "Poke" else [])

    unit = Kernel(small_manifest(reduce=reduce))
    unit.poke("go")
    first = seen[0]
    assert first[:3] == (START_NS + SECOND, "external", "a")
    assert first[3] != first[4]
    assert seen[1] == first, "the driver ran the step twice"
    unit.receipt(unit.intents[0], echo_result("x"))
    assert seen[-1][:2] == (START_NS + 2 * SECOND, "derived")
    assert seen[-1][3] != first[3]


def test_an_event_of_another_unit_is_neither_external_nor_derived() -> None:
    seen: list[str] = []

    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        seen.append(context.origin)
        return Step()

    unit = Kernel(small_manifest(reduce=reduce))
    unit.event(poke_event("go"), cause={"unit": "ex/Room@1/z", "seq": 4, "index": 0})
    assert seen == ["unit", "unit"]
    assert unit.records[0].cause == {"unit": "ex/Room@1/z", "seq": 4, "index": 0}


# -- failures are records ---------------------------------------------------------------------------------------------


def test_a_reducer_exception_is_a_recorded_step_that_says_its_class_and_nothing_else() -> None:
    unit = Kernel(small_manifest())
    unit.poke("one")
    records = unit.poke("fail:a secret text")
    assert records[-1].body == {"error": {"code": "reducer_failed", "message": "RuntimeError"}}
    assert unit.log == ["one"]
    unit.poke("two")
    assert unit.log == ["one", "two"]


@pytest.mark.parametrize(
    ("step", "path"),
    [
        (Step(set={"n": -1}), "n"),
        (Step(set={"box": {"items": [1, "x"]}}), "box.items[1]"),
        (Step(set={"unknown": 1}), "unknown"),
        (Step(append={"log": ["fine", 7]}), "log[1]"),
        (Step(append={"tags": ["x"]}), "tags"),
        (Step(append={"n": [1]}), "n"),
        (Step(events=[ask_event("x"), Emit("ex/Ask@1", {"room": "a", "n": 1})]), "events[1].text"),
        (Step(events=[Emit("ex/Nowhere@1", {})]), "events[0]"),
    ],
)
def test_a_step_that_breaks_its_schema_counts_for_nothing_and_names_the_path(step: Step, path: str) -> None:
    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        return Step(set={"n": 0}, append={"log": ["one"]}) if state is None else step

    unit = Kernel(small_manifest(reduce=reduce))
    unit.poke("one")
    before = unit.state.cell
    error = unit.poke("two")[-1].body["error"]
    assert error["code"] == "invalid_step"
    assert error["message"].startswith(f"{path}: ")
    assert unit.state.cell == before
    assert not unit.last.intents


@pytest.mark.parametrize("answer", [None, 7, {"set": {}}, "step"])
def test_a_reducer_that_answers_no_step_has_failed(answer: Any) -> None:
    unit = Kernel(small_manifest(reduce=lambda _state, _event, _context: answer))
    assert unit.poke("x")[-1].body["error"]["code"] == "reducer_failed"


def test_a_first_step_has_to_fill_the_cell() -> None:
    unit = Kernel(small_manifest(reduce=lambda _state, _event, _context: Step(append={"log": ["x"]})))
    assert unit.poke("x")[-1].body["error"]["message"].startswith("n: ")
    assert unit.state.cell is None


def test_an_emitted_event_without_a_key_is_an_invalid_step() -> None:
    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        value = {"plan": "p", "plan_id": 1, "correlation": "", "code": "c", "message": "m"}
        return Step(set={"n": 1}, events=[Emit("ex/Ev@1", {"$tag": "PlanFailed", "$value": value})])

    unit = Kernel(small_manifest(reduce=reduce))
    assert unit.poke("x")[-1].body["error"]["code"] == "invalid_step"
    assert unit.kinds() == ["event", "manifest", "step"]


def test_a_plan_that_raises_an_event_without_a_key_ends_with_an_error() -> None:
    failed_plan = {"plan": "p", "plan_id": 1, "correlation": "", "code": "c", "message": "m"}
    value = {"variant": {"tag": "PlanFailed", "value": {"record": failed_plan}}}
    steps = [{"id": "tell", "op": "raise_event", "event": "ex/Ev@1", "value": value}]
    unit = Kernel(small_manifest([plan(steps)]))
    unit.poke("ask:x")
    assert unit.records_of("plan_ended")[0].body["status"] == "error"
    assert unit.log == ["asked", "plan failed:1:plan_failed"]


def test_an_endless_chain_of_events_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demiurge.world.kernel.step_context.EVENTS_PER_INGRESS", 50)

    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        return Step(set={"n": 1}, events=[Emit("ex/Ev@1", poke_event("more"))])

    unit = Kernel(small_manifest(reduce=reduce))
    records = unit.poke("go")
    assert len(records) < 200
    assert records[-1].body["error"]["code"] == "invalid_step"


def test_a_plan_that_triggers_itself_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demiurge.world.kernel.step_context.EVENTS_PER_INGRESS", 50)
    value = {"record": {"room": ref("@plan.input.room"), "n": ref("@plan.input.n"), "text": "again"}}
    steps = [{"id": "again", "op": "raise_event", "event": "ex/Ask@1", "value": value}]
    unit = Kernel(small_manifest([plan(steps)]))
    records = unit.poke("ask:x")
    assert len(records) < 200
    assert [r.body["status"] for r in records if r.kind == "plan_ended"].count("error") == 1


def test_a_denial_by_the_cap_is_recorded_and_answered() -> None:
    unit = Kernel(small_manifest(grants=[{"name": "echo", "cap": "ex/echo@1", "params": {}, "expiry_ns": START_NS}]))
    unit.poke("ask:x")
    [decision] = unit.records_of("decision")
    assert {key: decision.body[key] for key in ("verdict", "by", "rule", "code")} == {
        "verdict": "deny",
        "by": "cap",
        "rule": "grant echo",
        "code": "expired",
    }
    assert unit.log == ["asked", "error:expired"]
    assert unit.records_of("intent") == []
    assert not unit.state.is_open


@pytest.mark.parametrize("rules", [None, [], [{"when": {}, "decision": "deny"}]])
def test_a_denial_by_the_policy_is_recorded_and_answered(rules: Any) -> None:
    unit = Kernel(small_manifest(rules=rules))
    unit.poke("ask:x")
    [decision] = unit.records_of("decision")
    assert (decision.body["by"], decision.body["code"]) == ("policy", "policy_denied")
    assert unit.log == ["asked", "error:policy_denied"]


def test_params_that_break_the_effects_schema_are_a_recorded_denial() -> None:
    a_number = {"op": "get", "args": [{"record": {"a": 7}}, "a"]}  # of no known type before it runs
    unit = Kernel(small_manifest([plan([emit_effect_step("go", "h", a_number), *ECHO["steps"][1:]], ECHO["edges"])]))
    unit.poke("ask:x")
    assert (unit.records_of("decision")[0].body["by"], unit.log) == ("schema", ["asked", "error:effect_params_invalid"])


def test_an_expression_error_ends_the_plan_and_the_reducer_hears_of_it() -> None:
    unit = Kernel(
        small_manifest([plan([raise_event_step("tell", "x", {"op": "get", "args": [ref("@plan.input"), "nothing"]})])])
    )
    unit.poke("ask:x")
    [ended] = unit.records_of("plan_ended")
    assert ended.body == {
        "plan": "ex/plan@1",
        "id": 1,
        "status": "error",
        "code": "plan_failed",
        "message": "there is no 'nothing' to get",
    }
    assert unit.log == ["asked", "plan failed:1:plan_failed"]
    assert not unit.state.is_open


def test_a_payload_that_the_plan_can_not_read_ends_the_plan() -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:x")
    unit.receipt(unit.intents[0], {"status": "ok", "payload": {"nonsense": True}})
    assert unit.log == ["asked", "plan failed:1:plan_failed"]
    assert not unit.state.is_open


def test_a_receipt_that_nobody_asked_for_changes_nothing() -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:x")
    assert unit.receipt(b"?" * 32, echo_result("x")) == []
    assert len(unit.intents) == 1


def test_a_second_receipt_changes_nothing() -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:x")
    intent = unit.intents[0]
    unit.receipt(intent, echo_result("x"))
    assert unit.receipt(intent, echo_result("again")) == []
    assert unit.log == ["asked", "ok:x"]


def test_a_receipt_may_come_before_the_step_that_awaits_it() -> None:
    steps = [
        emit_effect_step("one", "h1", "1"),
        emit_effect_step("two", "h2", "2"),
        await_receipt_step("wait1", "h1", "r1"),
        await_receipt_step("wait2", "h2", "r2"),
        raise_event_step("tell", ref("@var:r1.payload.text"), ref("@var:r2.payload.text")),
    ]
    edges = [edge("one", "wait1"), edge("two", "wait2"), edge("wait1", "wait2"), edge("wait2", "tell")]
    unit = Kernel(small_manifest([plan(steps, edges)]))
    unit.poke("ask:x")
    one, two = unit.intents
    unit.receipt(two, echo_result("second"))
    unit.receipt(one, echo_result("first"))
    assert unit.log == ["asked", "first:second"]


def test_one_receipt_may_be_awaited_twice() -> None:
    steps = [
        emit_effect_step("go", "h", "1"),
        await_receipt_step("once", "h", "r1"),
        await_receipt_step("twice", "h", "r2"),
        raise_event_step("tell", ref("@var:r1.status"), ref("@var:r2.payload.text")),
    ]
    edges = [edge("go", "once"), edge("once", "twice"), edge("twice", "tell")]
    unit = Kernel(small_manifest([plan(steps, edges)]))
    unit.poke("ask:x")
    unit.receipt(unit.intents[0], echo_result("y"))
    assert unit.log == ["asked", "ok:y"]


def test_a_late_receipt_of_a_plan_that_has_ended_is_recorded_and_forgotten() -> None:
    steps = [emit_effect_step("go", "h", "1"), {"id": "end", "op": "end"}]
    unit = Kernel(small_manifest([plan(steps, [edge("go", "end")])]))
    unit.poke("ask:x")
    assert unit.records_of("plan_ended")[0].body["status"] == "ok"
    assert [r.kind for r in unit.receipt(unit.intents[0], echo_result("x"))] == ["receipt"]
    assert not unit.state.is_open


def test_an_error_receipt_reaches_the_plan_with_its_status() -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:x")
    unit.receipt(unit.intents[0], failed("gone", "It is gone."))
    assert unit.log == ["asked", "error:gone"]


def test_a_trigger_on_an_event_that_is_no_record_starts_its_plan_without_a_correlation() -> None:
    said = {"record": {"room": ref("@plan.input"), "status": ref("@var:correlation_id"), "detail": "d"}}
    value = {"variant": {"tag": "Told", "value": said}}
    told = plan([{"id": "tell", "op": "raise_event", "event": "ex/Ev@1", "value": value}], on="ex/Aside@1")

    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        if event["$tag"] == "Poke":
            return Step(set={"n": 0}, events=[Emit("ex/Aside@1", "a")])
        return Step(append={"log": [event["$value"]["status"]]})

    unit = Kernel(small_manifest([told], reduce))
    unit.poke("x")
    assert unit.log == [""]


def test_an_event_by_the_schema_of_an_arm_reaches_its_own_unit_in_the_form_of_its_module() -> None:
    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        if event["$tag"] == "Poke":
            return Step(set={"n": 1}, events=[Emit("ex/Told@1", {"room": "a", "status": "s", "detail": "d"})])
        return Step(append={"log": [f"{event['$tag']}:{event['$value']['status']}"]})

    unit = Kernel(small_manifest([], reduce))
    unit.poke("x")
    assert unit.log == ["Told:s"]
    assert unit.records_of("event")[1].body["schema"] == "ex/Told@1"


# -- intent identity (aos 2.6 c, d) -----------------------------------------------------------------------------------


def test_identical_effects_of_one_plan_of_two_plans_and_of_two_events_are_different_intents() -> None:
    steps = [emit_effect_step("a", "h1", "same"), emit_effect_step("b", "h2", "same")]
    twin = plan(steps, name="ex/twin@1")
    unit = Kernel(small_manifest([plan(steps), twin]))
    unit.poke("ask:x,x")
    unit.poke("ask:x")
    identities = {intent.id for intent in unit.intents}
    assert len(identities) == len(unit.intents) == 12


def test_each_identical_effect_gets_its_own_receipt() -> None:
    unit = Kernel(small_manifest())
    for _ in range(3):
        unit.poke("ask:same")
        unit.receipt(unit.intents[0], echo_result("same"))
    unit.poke("ask:same,same")
    for intent in unit.intents:
        unit.receipt(intent, echo_result("same"))
    assert unit.log.count("ok:same") == 5


def test_intents_differ_between_worlds_and_units() -> None:
    ids = set()
    for world, key in [("world_1", "a"), ("world_2", "a"), ("world_1", "c")]:
        unit = Kernel(small_manifest(), Unit("ex/Room@1", key), world=world)
        unit.event(poke_event("ask:x", key))
        ids |= {intent.id for intent in unit.intents}
    assert len(ids) == 3


# -- other units ------------------------------------------------------------------------------------------------------


def test_an_event_for_another_unit_leaves_by_the_outbox_with_its_place_as_its_id() -> None:
    unit = Kernel(small_manifest())
    unit.poke("post:one,two")
    first, second = unit.last.outbox
    assert first.target == Unit(BOARD, "b")
    assert (first.schema, first.value) == ("ex/BoardEv@1", {"$tag": "Note", "$value": {"board": "b", "text": "one"}})
    assert (first.id, second.id) == ("ex/Room@1/a#3.0", "ex/Room@1/a#4.1")
    assert first.cause == {"unit": "ex/Room@1/a", "seq": 3, "index": 0}


def test_a_cell_that_is_deleted_begins_anew() -> None:
    unit = Kernel(small_manifest())
    unit.poke("one")
    unit.poke("forget")
    assert unit.state.cell is None
    unit.poke("two")
    assert (unit.log, unit.state.cell["n"]) == (["two"], 1)  # type: ignore[index]


# -- a new manifest ---------------------------------------------------------------------------------------------------


def test_a_new_manifest_applies_at_the_next_ingress_and_open_plans_finish_under_theirs() -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:x")
    old = unit.manifest
    other = plan([raise_event_step("tell", {"text": "new plan"}, {"text": "-"})])
    unit.manifest = small_manifest([other], source=b"2")
    unit.poke("ask:y")
    assert unit.records_of("manifest")[-1].body == {"ref": unit.manifest.ref}
    assert unit.log == ["asked", "asked", "new plan:-"]
    unit.receipt(unit.intents[0], echo_result("x"))
    assert unit.log[-1] == "ok:x"
    assert old.ref in unit.blobs


def test_an_open_plan_whose_event_the_new_manifest_does_not_know_ends_with_an_error() -> None:
    steps = [
        emit_effect_step("go", "h", "x"),
        await_receipt_step("wait", "h", "r"),
        {"id": "say", "op": "raise_event", "event": "ex/Gone@1", "value": {"record": {}}},
    ]
    edges = [edge("go", "wait"), edge("wait", "say")]
    unit = Kernel(small_manifest([plan(steps, edges)], schemas={"ex/Gone@1": {"record": {}}}))
    unit.poke("ask:x")
    unit.manifest = small_manifest(source=b"2")
    unit.receipt(unit.intents[0], echo_result("x"))
    assert unit.records_of("plan_ended")[0].body["code"] == "plan_failed"
    assert unit.log == ["asked", "plan failed:1:plan_failed"]


def test_an_open_plan_is_governed_by_the_policy_in_force_when_it_asks() -> None:
    steps = [
        emit_effect_step("one", "h1", "1"),
        await_receipt_step("w1", "h1", "r1"),
        emit_effect_step("two", "h2", "2"),
        await_receipt_step("w2", "h2", "r2"),
    ]
    told = raise_event_step("tell", ref("@var:r2.status"), ref("@var:r2.payload.code"))
    edges = [edge("one", "w1"), edge("w1", "two"), edge("two", "w2"), edge("w2", "tell")]
    unit = Kernel(small_manifest([plan([*steps, told], edges)]))
    unit.poke("ask:x")
    unit.manifest = small_manifest([plan([*steps, told], edges)], rules=[])
    unit.receipt(unit.intents[0], echo_result("1"))
    assert unit.log == ["asked", "error:policy_denied"]


# -- cost -------------------------------------------------------------------------------------------------------------


def test_the_records_of_a_step_do_not_grow_with_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts, not times: the items of a long list are neither looked at nor encoded again."""
    looked = 0
    real = Vector.__iter__

    def counted(self: Vector[Any]) -> Any:
        nonlocal looked
        for item in real(self):
            looked += 1
            yield item

    def reduce(state: State, event: Any, context: ReducerContext) -> Step:
        return Step(set={"n": 1}, append={"log": [event["$value"]["what"]]})

    manifest = small_manifest(reduce=reduce)
    state = UnitState("world_1", A)
    sizes: list[int] = []
    monkeypatch.setattr(Vector, "__iter__", counted)
    for number in range(2_000):
        stamp = Stamp(START_NS + number, b"e" * 16, Caller("user"), manifest.ref)
        body = {"schema": "ex/Ev@1", "value": poke_event(f"{number:05}")}
        outcome = advance(manifest, state, Ingress("event", str(number), body, stamp), {})
        assert not isinstance(outcome, Need)
        state = outcome.state
        sizes.append(sum(len(record.data) for record in outcome.records))
    assert state.cell is not None
    assert len(state.cell["log"]) == 2_000
    assert looked < 100
    assert max(sizes[1:]) - min(sizes[1:]) < 50


def test_without_a_policy_nothing_is_allowed() -> None:
    unit = Kernel(small_manifest(rules=None))
    unit.poke("ask:x")
    assert unit.log == ["asked", "error:policy_denied"]
