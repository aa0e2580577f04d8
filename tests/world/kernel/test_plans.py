"""What the kernel records of a plan: what it raises and asks for, how it ends, and what its module hears of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.world.reducer_effects import timer_request
from tests.world.small_world import (
    ECHO,
    SCHEMAS,
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

from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.values import cbor
from demiurge.values.refs import ref_of
from demiurge.world.effect import failed
from demiurge.world.reducer import Emit, ReducerContext, Step

BLOB = ref_of(b"blob")
ASK = ask_event("x", 7)
OPTION: dict[str, Any] = {"more": {"option": {"text": {}}}}
BROKEN = [raise_event_step("tell", "x", {"op": "get", "args": [ref("@plan.input"), "nothing"]})]
ENDED = {"id": 1, "plan": "ex/plan@1", "status": "ok"}


def told_event(status: str, detail: str) -> dict[str, Any]:
    return {"$tag": "Told", "$value": {"room": "a", "status": status, "detail": detail}}


def test_an_effect_of_a_plan_is_identified_by_all_that_led_to_it() -> None:
    unit = Kernel(small_manifest([plan([emit_effect_step("one", "h1", "x"), emit_effect_step("two", "h2", "x")])]))
    unit.poke("ask:x")
    for number, intent in enumerate(unit.intents, 1):
        identity = ["world_1", str(A), 3, 1, number, "ex.echo", cbor.digest({"text": "x"}), "echo"]
        assert intent.id == cbor.digest(identity)
        assert intent.origin == {"id": 1, "kind": "plan", "name": "ex/plan@1"}


def test_an_event_of_a_plan_is_recorded_with_its_schema_its_value_and_its_cause() -> None:
    unit = Kernel(small_manifest([plan([raise_event_step("say", {"text": "s"}, {"text": "d"})])]))
    unit.poke("ask:x")
    asked, event = unit.records_of("event")[1:]
    assert event.body == {"schema": "ex/Ev@1", "value": told_event("s", "d")}
    assert (event.cause, event.refs) == (asked.unit_seq, ())


def test_an_event_of_a_plan_exposes_the_blobs_that_its_value_names() -> None:
    schemas: dict[str, Any] = {"ex/Aside@1": {"record": {"blob": {"hash": {}}}}}
    step = {"id": "s", "op": "raise_event", "event": "ex/Aside@1", "value": {"record": {"blob": {"hash": BLOB}}}}
    unit = Kernel(small_manifest([plan([step])], schemas=schemas))
    unit.poke("ask:x")
    assert unit.records_of("event")[-1].refs == (BLOB,)


def test_a_plans_end_is_recorded_under_what_it_was_caused_by() -> None:
    unit = Kernel(small_manifest([plan([{"id": "end", "op": "end"}])]))
    unit.poke("ask:x")
    [ended] = unit.records_of("plan_ended")
    assert (ended.body, ended.cause, ended.refs) == (ENDED, unit.records_of("event")[1].unit_seq, ())


def test_a_plans_result_is_recorded_with_the_blobs_that_it_names() -> None:
    schemas: dict[str, Any] = {"ex/Found@1": {"record": {"blob": {"hash": {}}}}}
    end = {"id": "end", "op": "end", "result": {"record": {"blob": {"hash": BLOB}}}}
    unit = Kernel(small_manifest([{**plan([end]), "output": "ex/Found@1"}], schemas=schemas))
    unit.poke("ask:x")
    [ended] = unit.records_of("plan_ended")
    assert ended.body == {**ENDED, "result": {"blob": BLOB}}
    assert ended.refs == (BLOB,)


def test_a_plan_that_fails_is_recorded_and_its_module_hears_all_of_it() -> None:
    heard: list[Any] = []

    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        from_poke = event["$tag"] == "Poke"
        heard.append((event, context.cause))
        return Step(set={"n": 1}, events=[ASK] if from_poke else ())

    unit = Kernel(small_manifest([plan(BROKEN)], reduce))
    unit.poke("x")
    [ended] = unit.records_of("plan_ended")
    why = {"code": "plan_failed", "message": "there is no 'nothing' to get"}
    assert ended.body == {"id": 1, "plan": "ex/plan@1", "status": "error", **why}
    assert ended.cause == unit.records_of("event")[1].unit_seq
    value = {"plan": "ex/plan@1", "plan_id": 1, "correlation": "7", **why}
    assert heard[-1] == ({"$tag": "PlanFailed", "$value": value}, ended.unit_seq)
    assert unit.records_of("step")[-1].cause == ended.unit_seq


def test_the_reaction_of_a_module_to_a_failed_plan_belongs_to_the_run_of_the_plan() -> None:
    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        if event["$tag"] == "Poke":
            return Step(set={"n": 1}, events=[ASK])
        return Step(set={"n": 1}, effects=[timer_request(7)])

    policy = ToolPolicy(budgets=Budgets(run=Allowance(max_tool_calls=1)))
    grants = [{"name": "timer", "cap": "sys/timer@1"}, {"name": "echo", "cap": "ex/echo@1"}]
    effects = [{"kind": "timer.set", "cap": "timer"}]
    fired = {"TimerFired": {"ref": "sys/TimerFired@1"}}
    schemas = {"ex/Ev@1": {"variant": {**SCHEMAS["ex/Ev@1"]["variant"], **fired}}}
    unit = Kernel(
        small_manifest([plan(BROKEN)], reduce, tool_policy=policy, grants=grants, effects=effects, schemas=schemas),
    )
    unit.poke("x")
    [intent], [run] = unit.intents, unit.state.runs
    assert intent.run == run


def test_a_plan_of_a_unit_without_an_arm_for_it_fails_in_the_record_alone() -> None:
    variant = {tag: arm for tag, arm in SCHEMAS["ex/Ev@1"]["variant"].items() if tag != "PlanFailed"}
    unit = Kernel(small_manifest([plan(BROKEN)], schemas={"ex/Ev@1": {"variant": variant}}))
    unit.poke("ask:x")
    assert unit.records_of("plan_ended")[0].body["status"] == "error"
    assert unit.log == ["asked"]


def test_the_message_of_a_failure_is_1000_characters_at_most() -> None:
    long = [raise_event_step("tell", "x", {"op": "get", "args": [ref("@plan.input"), {"text": "n" * 2000}]})]
    unit = Kernel(small_manifest([plan(long)], check=False))
    unit.poke("ask:x")
    message = unit.records_of("plan_ended")[0].body["message"]
    assert len(message) == 1000
    assert message.startswith("there is no 'nnn")


@pytest.mark.parametrize("fault", [RecursionError("deep"), ValueError("a secret text")])
def test_a_fault_of_the_program_in_a_plan_ends_it_by_its_class_alone(
    fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any) -> None:
        raise fault

    monkeypatch.setattr("demiurge.world.kernel.plans.run", run)
    unit = Kernel(small_manifest())
    unit.poke("ask:x")
    [ended] = unit.records_of("plan_ended")
    assert (ended.body["code"], ended.body["message"]) == ("plan_failed", type(fault).__name__)
    assert ended.cause == unit.records_of("event")[1].unit_seq


def test_a_plan_step_after_an_awaited_event_is_caused_by_that_event() -> None:
    waiting = {"id": "w", "op": "await_event", "event": "ex/Told@1", "where": True, "bind": {"as": "e"}}
    unit = Kernel(small_manifest([plan([waiting, raise_event_step("say", "heard", "d")], [edge("w", "say")])]))
    unit.poke("ask:x")
    event, said, ended, *_ = unit.event(told_event("s", "d"))
    assert [said.body["value"]["$value"]["status"], ended.kind] == ["heard", "plan_ended"]
    assert (said.cause, ended.cause) == (event.unit_seq, event.unit_seq)


def test_an_event_that_a_plan_has_waited_for_is_kept_in_the_form_of_its_local() -> None:
    waiting = {"id": "w", "op": "await_event", "event": "ex/Told@1", "where": True, "bind": {"as": "e"}}
    schemas = {"ex/Heard@1": {"record": {name: {"text": {}} for name in ("room", "status", "detail")} | OPTION}}
    steps = [waiting, emit_effect_step("go", "h", "x"), await_receipt_step("wait", "h", "r")]
    parts = {**plan(steps, [edge("w", "go"), edge("go", "wait")]), "locals": {"e": "ex/Heard@1"}}
    unit = Kernel(small_manifest([parts], schemas=schemas, check=False))
    unit.poke("ask:x")
    unit.event(told_event("s", "d"))
    [instance] = unit.state.plans.values()
    assert instance.vars["e"] == {"room": "a", "status": "s", "detail": "d", "more": None}


def test_a_plan_that_waits_for_another_event_is_not_moved() -> None:
    waiting = {"id": "w", "op": "await_event", "event": "ex/Note@1", "where": True, "bind": {"as": "e"}}
    unit = Kernel(small_manifest([plan([waiting])]))
    unit.poke("ask:x")
    unit.event(told_event("s", "d"))
    assert len(unit.state.plans) == 1


def test_a_receipt_for_a_plan_that_waits_for_something_else_is_kept_for_later() -> None:
    waiting = {"id": "w", "op": "await_event", "event": "ex/Told@1", "where": True, "bind": {"as": "e"}}
    steps = [emit_effect_step("go", "h", "x"), waiting]
    steps += [await_receipt_step("got", "h", "r"), raise_event_step("say", ref("@var:r.payload.text"), "d")]
    unit = Kernel(small_manifest([plan(steps, [edge("go", "w"), edge("w", "got"), edge("got", "say")])]))
    unit.poke("ask:x")
    [intent] = unit.intents
    unit.receipt(intent, echo_result("x"))
    assert [instance.receipts for instance in unit.state.plans.values()] == [{intent.id: echo_result("x")}]
    unit.event(told_event("s", "d"))
    assert unit.log[-1] == "x:d"


# -- correlation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "correlation"),
    [("$value.what", "hi"), ("$tag", "Poke"), ("$value.nothing", ""), ("$value.what.more", ""), ("nothing.more", "")],
)
def test_a_plan_is_correlated_by_the_field_that_its_trigger_names(field: str, correlation: str) -> None:
    steps = [emit_effect_step("go", "h", "x"), await_receipt_step("wait", "h", "r")]
    triggers = [{"event": "ex/Ev@1", "plan": "ex/plan@1", "correlate_by": field}]
    unit = Kernel(small_manifest([plan(steps, [edge("go", "wait")], on="ex/Ev@1")], triggers=triggers, check=False))
    unit.event(poke_event("hi"))
    [instance] = unit.state.plans.values()
    assert (instance.correlation, instance.vars["correlation_id"]) == (correlation, correlation)
    assert (instance.input, instance.cause, instance.id) == (poke_event("hi"), 0, 1)


def test_without_a_field_to_correlate_by_a_plan_has_an_empty_correlation() -> None:
    steps = [emit_effect_step("go", "h", "x"), await_receipt_step("wait", "h", "r")]
    unit = Kernel(small_manifest([plan(steps, [edge("go", "wait")], on="ex/Poke@1")]))
    unit.poke("hi")
    [instance] = unit.state.plans.values()
    assert (instance.correlation, instance.vars["correlation_id"]) == ("", "")


def test_two_plans_with_an_identical_effect_each_have_their_own_receipt() -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:same,same")
    first, second = unit.intents
    unit.receipt(second, failed("gone", "It is gone."))
    assert unit.log == ["asked", "error:gone"]
    unit.receipt(first, echo_result("same"))
    assert unit.log[-1] == "ok:same"
    assert not unit.state.is_open


def test_operator_and_does_not_read_its_second_argument_when_the_first_is_false() -> None:
    found = {"op": "has", "args": [ref("@var:r.payload"), "code"]}
    gone = {"op": "eq", "args": [{"op": "get", "args": [ref("@var:r.payload"), "code"]}, "gone"]}
    steps = [
        emit_effect_step("go", "h", "x"),
        await_receipt_step("wait", "h", "r"),
        raise_event_step("say", {"text": "gone"}, {"text": "-"}),
    ]
    guard = {"op": "and", "args": [found, gone]}
    unit = Kernel(small_manifest([plan(steps, [edge("go", "wait"), edge("wait", "say", guard)])]))
    unit.poke("ask:x,y")
    first, second = unit.intents
    unit.receipt(first, echo_result("fine"))
    unit.receipt(second, failed("gone", "It is gone."))
    assert unit.log == ["asked", "gone:-"]


IS_OK = {"op": "eq", "args": [ref("@var:r.status"), "ok"]}


def test_steps_behind_a_false_guard_do_not_run() -> None:
    """The registry plan's own fault: its last step had no guard, and read what was never set."""
    steps = [
        emit_effect_step("go", "h", "x"),
        await_receipt_step("wait", "h", "r"),
        {"id": "keep", "op": "assign", "expr": ref("@var:r.payload.text"), "bind": {"as": "text"}},
        raise_event_step("say", {"text": "said"}, ref("@var:text")),
    ]
    unit = Kernel(small_manifest([plan(steps, [edge("go", "wait"), edge("wait", "keep", IS_OK), edge("keep", "say")])]))
    unit.poke("ask:x")
    unit.receipt(unit.intents[0], failed("gone", "It is gone."))
    assert unit.records_of("plan_ended")[0].body["status"] == "ok"
    assert unit.log == ["asked"]


def test_a_reference_to_a_variable_may_have_a_path() -> None:
    unit = Kernel(small_manifest([ECHO]))
    unit.poke("ask:x")
    unit.receipt(unit.intents[0], echo_result("heard"))
    assert unit.log[-1] == "ok:heard"


def test_a_correlation_is_compared_with_its_own_type() -> None:
    where = {"op": "eq", "args": [ref("@event.n"), ref("@var:correlation_id")]}
    step = {"id": "w", "op": "await_event", "event": "ex/Ask@1", "where": where, "bind": {"as": "e"}}

    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        number = int(event["$value"]["what"])
        return Step(set={"n": 1}, events=[Emit("ex/Ask@1", {"room": "a", "n": number, "text": ""})])

    unit = Kernel(small_manifest([plan([step])], reduce))
    unit.poke("1")
    unit.poke("2")
    assert len(unit.state.plans) == 2
    unit.poke("1")
    assert [r.body["id"] for r in unit.records_of("plan_ended")] == [1]


def test_an_expression_error_ends_a_plan_with_a_record_that_its_reducer_sees() -> None:
    unit = Kernel(
        small_manifest([plan([raise_event_step("t", "s", {"op": "get", "args": [ref("@plan.input"), "nothing"]})])])
    )
    unit.poke("ask:x")
    assert unit.records_of("plan_ended")[0].body["code"] == "plan_failed"
    assert unit.log == ["asked", "plan failed:1:plan_failed"]


@pytest.mark.parametrize(("result", "told"), [(echo_result("x"), "ok:x"), (failed("busy", "Later."), "error:busy")])
def test_a_plan_branches_on_the_status_of_a_receipt(result: Any, told: str) -> None:
    unit = Kernel(small_manifest())
    unit.poke("ask:x")
    unit.receipt(unit.intents[0], result)
    assert unit.log[-1] == told


@pytest.mark.parametrize(("params", "told"), [({"ops": []}, ["error:op_not_allowed"]), ({}, [])])
def test_an_empty_allowlist_allows_nothing_and_an_absent_one_allows_all(
    params: Mapping[str, Any], told: list[str]
) -> None:
    """There, both meant anything."""
    grants: list[dict[str, Any]] = [
        {"name": "echo", "cap": "ex/echo@1"},
        {"name": "blob", "cap": "sys/blob@1", "params": params},
    ]
    content = {"variant": {"tag": "bytes", "value": {"bytes_b64": ""}}}
    wanted = {"record": {"blob_ref": {"null": {}}, "content": content}}
    put = {"id": "p", "op": "emit_effect", "kind": "blob.put", "cap": "blob", "params": wanted}
    steps = [{**put, "bind": {"effect_id_as": "h"}}, await_receipt_step("w", "h", "r")]
    say = raise_event_step("say", ref("@var:r.status"), ref("@var:r.payload.code"))
    unit = Kernel(small_manifest([plan([*steps, say], [edge("p", "w"), edge("w", "say")])], grants=grants))
    unit.poke("ask:x")
    assert unit.log == ["asked", *told]
    assert len(unit.intents) == (not told)
