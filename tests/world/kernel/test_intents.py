"""Effects that a reducer asks for: admitted, denied, and what comes of them, all of it in the cell that asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.world.reducer_effects import (
    ALLOWED,
    ANY,
    GRANTS,
    OWN,
    blob_get_request,
    blob_put_request,
    effect_requesting_manifest,
    effect_requesting_reducer,
    own_effect_request,
    timer_request,
)
from tests.world.small_world import (
    A,
    Kernel,
    ask_event,
    await_receipt_step,
    echo_result,
    edge,
    emit_effect_step,
    plain_data,
    plan,
    raise_event_step,
    ref,
    small_manifest,
)

from demiurge.stores.protocol import Snapshot
from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.values.refs import ref_of
from demiurge.world.effect import failed, succeeded
from demiurge.world.kernel import advance
from demiurge.world.kernel.outcome import Advance
from demiurge.world.reducer import EffectRequest, MissingBlob, ReducerContext, Step
from demiurge.world.snapshot import read_snapshot, snapshot_node

ASK = effect_requesting_reducer(lambda what: [timer_request(7, key) for key in what.split(",")])


def restore_from_snapshot(unit: Kernel) -> None:
    """Go on from a snapshot of the state."""
    node, chunks = snapshot_node(unit.state)
    unit.blobs |= {ref_of(node): node, **chunks}
    kept = Snapshot(str(A), unit.state.seq - 1, unit.state.head, ref_of(node))
    again = read_snapshot(kept, unit.state.world, A, unit.blobs.__getitem__)
    assert plain_data(again) == plain_data(unit.state)
    unit.state = again


def test_a_step_asks_for_effects_in_their_order_and_hears_of_each_by_its_key() -> None:
    unit = Kernel(effect_requesting_manifest(ASK))
    unit.poke("one,two")
    assert unit.kinds() == ["event", "manifest", "step", "intent", "intent"]
    first, second = unit.intents
    assert [record.cause for record in unit.records_of("intent")] == [2, 2]
    assert first.origin == {"kind": "reducer", "name": "ex/Room@1", "key": "one"}
    assert (first.kind, first.grant, first.params) == ("timer.set", "timer", {"deliver_at_ns": 7, "key": None})
    assert first.id != second.id, "equal effects of one step are two"
    assert unit.state.is_open
    assert unit.last.intents == (first, second)

    restore_from_snapshot(unit)
    records = unit.receipt(second, succeeded(delivered_at_ns=8, key=None))
    assert [(r.kind, r.cause) for r in records] == [("receipt", None), ("step", records[0].unit_seq)]
    unit.receipt(first, failed("gave_up", "eight times"))
    assert unit.log == ["TimerFired two ok delivered_at_ns,key", "TimerFired one error gave_up"]
    assert not unit.state.is_open


def test_a_second_receipt_changes_nothing() -> None:
    unit = Kernel(effect_requesting_manifest(ASK))
    unit.poke("one")
    [intent] = unit.intents
    unit.receipt(intent, succeeded(delivered_at_ns=8, key=None))
    assert unit.receipt(intent, succeeded(delivered_at_ns=9, key=None)) == []


def test_equal_effects_of_two_steps_are_two() -> None:
    unit = Kernel(effect_requesting_manifest(ASK))
    unit.poke("one")
    unit.poke("one")
    assert len({intent.id for intent in unit.intents}) == 2
    elsewhere = Kernel(effect_requesting_manifest(ASK), world="world_2")
    elsewhere.poke("one")
    assert elsewhere.intents[0].id != unit.intents[0].id


def test_the_payload_of_a_kind_without_its_own_event_type_is_canonical_bytes() -> None:
    unit = Kernel(effect_requesting_manifest(effect_requesting_reducer(lambda what: [own_effect_request(what, "k")])))
    unit.poke("hi")
    unit.receipt(unit.intents[0], echo_result("hi"))
    assert unit.log == ["Came k ok blob,text"]


def test_a_module_without_the_typed_event_hears_of_a_timer_as_of_any_effect() -> None:
    unit = Kernel(effect_requesting_manifest(ASK, arms=ANY))
    unit.poke("one")
    unit.receipt(unit.intents[0], succeeded(delivered_at_ns=8, key=None))
    assert unit.log == ["Came one ok delivered_at_ns,key"]


def test_an_event_and_an_effect_of_one_step_both_happen() -> None:
    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        return Step(set={"n": 1}, blobs=[b"x"], effects=[timer_request(1)] if event["$tag"] == "Poke" else ())

    unit = Kernel(effect_requesting_manifest(reduce))
    unit.poke("go")
    assert unit.records_of("step")[0].refs == (ref_of(b"x"),)
    assert [intent.kind for intent in unit.intents] == ["timer.set"]


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ([], "policy_denied"),
        ([{"when": {"origin_kind": "reducer"}, "decision": "deny"}], "policy_denied"),
        ([{"when": {"origin_kind": "plan"}, "decision": "allow"}], "policy_denied"),
        ([{"when": {"origin_kind": "reducer", "origin_name": "ex/Room@1"}, "decision": "allow"}], None),
    ],
)
def test_the_policy_decides_on_reducers_too(rules: Sequence[Mapping[str, Any]], code: str | None) -> None:
    unit = Kernel(effect_requesting_manifest(ASK, rules=rules))
    unit.poke("one")
    if code is None:
        assert len(unit.intents) == 1
        return
    assert (unit.intents, unit.log) == ([], [f"TimerFired one error {code}"])
    [decision] = unit.records_of("decision")
    assert decision.body["origin"] == {"kind": "reducer", "name": "ex/Room@1", "key": "one"}
    assert (decision.body["by"], decision.body["verdict"], decision.cause) == ("policy", "deny", 2)
    assert unit.records_of("step")[1].cause == decision.unit_seq


def test_a_grant_that_does_not_cover_it_denies_it_and_the_reducer_hears_why() -> None:
    grants = [{**grant, "params": {"ops": ["get"]}} if grant["name"] == "blob" else grant for grant in GRANTS]
    unit = Kernel(
        effect_requesting_manifest(
            effect_requesting_reducer(lambda what: [blob_put_request(b"x", "a"), blob_get_request(ref_of(b"x"), "b")]),
            grants=grants,
        )
    )
    unit.poke("go")
    assert unit.log == ["BlobPutResult a error op_not_allowed"]
    assert [intent.kind for intent in unit.intents] == ["blob.get"]


def test_parameters_that_break_the_effects_schema_are_a_denial() -> None:
    unit = Kernel(
        effect_requesting_manifest(
            effect_requesting_reducer(lambda what: [EffectRequest("timer.set", {"deliver_at_ns": "soon"}, "k")])
        )
    )
    unit.poke("go")
    assert unit.log == ["TimerFired k error effect_params_invalid"]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (EffectRequest("llm.generate", {}), "effects[0]: ex/Room@1 does not declare the effect llm.generate"),
        (EffectRequest("ex.echo", {"text": "x"}), "effects[0]: ex/Room@1 does not declare the effect ex.echo"),
        (
            replace(timer_request(1), grant="blob"),
            "effects[0].grant: ex/Room@1 does not declare the grant blob for timer.set",
        ),
        (own_effect_request("two"), "effects[0].grant: say which grant: ex, echo"),
        ("timer.set", "effects[0]: is an EffectRequest"),
        (EffectRequest("timer.set", {}, cast(str, 7)), "effects[0].key: is a text"),
    ],
)
def test_a_step_that_requests_an_undeclared_effect_or_grant_fails(request_: Any, message: str) -> None:
    effects = [*ALLOWED, {"kind": "ex.own", "cap": "echo"}]
    unit = Kernel(
        effect_requesting_manifest(
            lambda state, event, context: Step(set={"n": 1}, effects=[request_]), effects=effects
        )
    )
    unit.poke("go")
    [step] = unit.records_of("step")
    assert step.body == {"error": {"code": "invalid_step", "message": message}}
    assert (unit.state.cell, unit.intents) == (None, [])


def test_a_grant_may_be_named_where_there_are_several() -> None:
    effects = [*ALLOWED, {"kind": "ex.own", "cap": "echo"}]
    unit = Kernel(
        effect_requesting_manifest(
            effect_requesting_reducer(lambda what: [replace(own_effect_request("x"), grant=what)]), effects=effects
        )
    )
    unit.poke("echo")
    unit.poke("ex")
    assert [intent.grant for intent in unit.intents] == ["echo", "ex"]


def test_parameters_that_are_no_plain_data_make_the_step_fail() -> None:
    unit = Kernel(
        effect_requesting_manifest(
            effect_requesting_reducer(lambda what: [EffectRequest("timer.set", {"deliver_at_ns": object()})])
        )
    )
    unit.poke("go")
    assert unit.records_of("step")[0].body["error"]["code"] == "invalid_step"


# -- limits -----------------------------------------------------------------------------------------------------------


def test_a_step_asks_for_64_effects_and_no_more() -> None:
    unit = Kernel(
        effect_requesting_manifest(effect_requesting_reducer(lambda what: [timer_request(n) for n in range(int(what))]))
    )
    unit.poke("64")
    assert len(unit.intents) == 64
    unit.poke("65")
    assert unit.records_of("step")[-1].body["error"]["message"] == "the step asks for more than 64 effects"


def test_a_reducer_that_answers_each_denial_with_more_comes_to_an_end() -> None:
    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        return Step(set={"n": 1}, effects=[timer_request(n) for n in range(3)])

    unit = Kernel(effect_requesting_manifest(reduce, rules=[]))
    unit.poke("go")
    assert len(unit.records_of("decision")) == 1023
    [error, *_] = [step.body["error"] for step in unit.records_of("step") if "error" in step.body]
    assert error == {"code": "invalid_step", "message": "this ingress has asked for more than 1024 effects"}


def test_plans_that_one_event_starts_ask_for_1024_effects_at_most() -> None:
    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        return Step(set={"n": 1}, events=[ask_event("x", n) for n in range(20)] if event["$tag"] == "Poke" else ())

    unit = Kernel(small_manifest([plan([emit_effect_step(f"s{n}", f"h{n}", "x") for n in range(60)])], reduce))
    unit.poke("go")
    assert len(unit.intents) == 1024
    ended = [record.body for record in unit.records_of("plan_ended") if record.body["status"] == "error"]
    assert {(body["code"], body["message"]) for body in ended} == {
        ("plan_failed", "this ingress has asked for more than 1024 effects")
    }
    unit.poke("go")
    assert len(unit.intents) == 2048, "the next ingress has its own"


def test_the_blobs_of_an_ingress_are_16_mib_at_most() -> None:
    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        size = int(event["$value"]["what"])
        return Step(set={"n": 1}, blobs=[bytes(size), b"x"])

    unit = Kernel(small_manifest([], reduce))
    unit.poke(str((16 << 20) - 1))
    assert len(unit.last.new_blobs) == 2
    unit.poke(str(16 << 20))
    assert unit.records_of("step")[-1].body["error"]["message"] == "this ingress has made more than 16 MiB of blobs"
    assert not unit.last.new_blobs


# -- digests, budgets, replay -----------------------------------------------------------------------------------------


def _only(request: EffectRequest, _what: str) -> list[EffectRequest]:
    return [request]


def test_the_digest_of_a_step_covers_what_it_asks_for() -> None:
    digests = set()
    for request in (
        timer_request(1),
        timer_request(2),
        timer_request(1, "k"),
        replace(timer_request(1), grant="timer"),
        blob_put_request(b"x"),
    ):
        unit = Kernel(effect_requesting_manifest(effect_requesting_reducer(partial(_only, request))))
        unit.poke("go")
        digests.add(unit.records_of("step")[0].body["digest"])
    assert len(digests) == 5


def test_a_run_goes_on_while_its_timer_does_and_a_budget_that_is_over_denies() -> None:
    policy = ToolPolicy(budgets=Budgets(run=Allowance(max_wall_ms=1500)))
    chain = effect_requesting_reducer(lambda what: [timer_request(7, what)])

    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        made = chain(state, event, context)
        return replace(made, effects=[timer_request(8, "again")]) if event["$value"].get("key") == "one" else made

    unit = Kernel(effect_requesting_manifest(reduce, tool_policy=policy))
    unit.poke("one")
    [intent] = unit.intents
    assert intent.run is not None
    assert intent.run in unit.state.runs
    unit.now_ns += 10**9
    unit.receipt(intent, succeeded(delivered_at_ns=8, key=None))
    assert unit.log == ["TimerFired one ok delivered_at_ns,key", "TimerFired again error deadline_exceeded"]
    assert unit.state.runs == {}


def test_replay_of_the_ingress_is_the_history() -> None:
    unit = Kernel(
        effect_requesting_manifest(
            effect_requesting_reducer(
                lambda what: [timer_request(1, "a"), blob_put_request(b"x", "b"), own_effect_request("c", "c")]
            )
        )
    )
    unit.poke("go")
    for intent in unit.intents:
        unit.receipt(intent, failed("nothing", "nothing"))
    again = Kernel(unit.manifest)
    for manifest, ingress in unit.taken:
        outcome = advance(manifest, again.state, ingress, {})
        assert isinstance(outcome, Advance)
        again.state = outcome.state
        again.records += outcome.records
    assert [record.hash for record in again.records] == [record.hash for record in unit.records]
    assert plain_data(again.state) == plain_data(unit.state)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 9)), max_size=12))
def test_a_unit_that_is_kept_and_loaded_at_any_time_does_the_same(moves: list[tuple[int, bool, int]]) -> None:
    ask_some = effect_requesting_reducer(
        lambda what: [timer_request(1, "a"), blob_put_request(b"x", "b"), own_effect_request("c", "c")][: int(what)]
    )
    straight, kept = Kernel(effect_requesting_manifest(ask_some)), Kernel(effect_requesting_manifest(ask_some))
    for count, is_ok, which in moves:
        for unit in (straight, kept):
            if unit.intents and count == 0:
                intent = unit.intents[which % len(unit.intents)]
                unit.receipt(intent, succeeded(some=which) if is_ok else failed("nothing", "nothing"))
            else:
                unit.poke(str(count))
        restore_from_snapshot(kept)
        assert [record.hash for record in kept.records] == [record.hash for record in straight.records]
        assert plain_data(kept.state) == plain_data(straight.state)


# -- nothing is thrown ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [SystemExit(3), GeneratorExit(), BaseException(), MemoryError(), RecursionError()])
def test_every_exception_of_a_reducer_is_recorded_as_a_failed_step(fault: BaseException) -> None:
    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        raise fault

    unit = Kernel(small_manifest([], reduce))
    unit.poke("go")
    assert unit.records_of("step")[0].body == {"error": {"code": "reducer_failed", "message": type(fault).__name__}}


def test_ctrl_c_and_a_missing_blob_are_no_faults_of_the_reducer() -> None:
    def stop(state: Any, event: Any, context: ReducerContext) -> Step:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Kernel(small_manifest([], stop)).poke("go")

    def read(state: Any, event: Any, context: ReducerContext) -> Step:
        try:
            return Step(set={"n": len(context.blob(ref_of(b"four")))})
        except Exception as error:  # what a reducer may do, and does not get in the way
            raise AssertionError from error

    unit = Kernel(small_manifest([], read))
    unit.put(b"four")
    unit.poke("go")
    assert unit.state.cell is not None
    assert unit.state.cell["n"] == 4
    assert issubclass(MissingBlob, BaseException)


OWN_OF_TYPE = [
    ("llm.basic", {"max_tokens": 5}),
    ("http.out", {}),
    ("workspace", {"path_prefixes": ["x"]}),
    ("vault", {"aliases": []}),
    ("tool", {"tools": ["x"]}),
    ("blob", {"max_bytes": 1}),
]


@pytest.mark.parametrize(("cap_type", "params"), OWN_OF_TYPE)
def test_an_own_effect_of_a_built_in_cap_type_that_was_taken_unchecked_is_decided_on(
    cap_type: str, params: Mapping[str, Any]
) -> None:
    mine = {**OWN, "kind": "ex.mine", "name": "ex/mine@1", "cap_type": cap_type, "origin_scope": "plan"}
    mine["params_schema"] = "ex/Odd@1"
    steps = [
        emit_effect_step("go", "h", ref("@plan.input.text"), kind="ex.mine", cap="g"),
        await_receipt_step("wait", "h", "r"),
        raise_event_step("say", ref("@var:r.status"), ref("@var:r.payload.code")),
    ]
    steps[0]["params"] = {"record": {"path": {"list": []}, "content": ref("@plan.input.text")}}
    manifest = small_manifest(
        [plan(steps, [edge("go", "wait"), edge("wait", "say")])],
        grants=[{"name": "g", "cap": f"sys/{cap_type}@1", "params": params}],
        definitions=[mine],
        schemas={"ex/Odd@1": {"record": {"path": {"list": {"text": {}}}, "content": {"text": {}}}}},
        check=False,
    )
    unit = Kernel(manifest)
    unit.poke("ask:x")
    assert unit.intents == []
    [decision] = unit.records_of("decision")
    assert unit.log == ["asked", f"error:{decision.body['code']}"]
