"""What the record of an effect says, whether it is admitted, asked about or denied, and what the open intent keeps."""

from __future__ import annotations

from typing import Any

import pytest
from tests.world.budget_worlds import ASKED, BUMP, CALL, Units, room_order, spending_manifest, tool_call_step
from tests.world.reducer_effects import (
    ALLOWED,
    GRANTS,
    blob_put_request,
    effect_requesting_manifest,
    effect_requesting_reducer,
    timer_request,
)
from tests.world.small_world import (
    SECOND,
    START_NS,
    A,
    Kernel,
    await_receipt_step,
    edge,
    emit_effect_step,
    plan,
    raise_event_step,
    ref,
    small_manifest,
)

from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.values import cbor
from demiurge.values.caller import USER, Caller
from demiurge.values.refs import ref_of
from demiurge.world.authority.approval import LIFETIME_NS
from demiurge.world.kernel import advance
from demiurge.world.kernel.ingress import Ingress
from demiurge.world.kernel.outcome import Advance, Need
from demiurge.world.record import Stamp
from demiurge.world.reducer import EffectRequest, ReducerContext, Step
from demiurge.world.state import OpenIntent, UnitState


def test_an_admitted_effect_is_recorded_with_what_decided_on_it() -> None:
    unit = Kernel(small_manifest())
    unit.event({"$tag": "Poke", "$value": {"room": "a", "what": "ask:x"}}, actor="anna")
    [record], [intent] = unit.records_of("intent"), unit.intents
    origin = {"id": 1, "kind": "plan", "name": "ex/plan@1"}
    assert record.body == {
        "id": intent.id,
        "kind": "ex.echo",
        "grant": "echo",
        "origin": origin,
        "params": {"text": "x"},
        "admitted": {"by": "policy", "rule": "rule 0", "verdict": "allow"},
    }
    assert (record.cause, record.refs) == (3, ())
    made = OpenIntent(intent.id, 4, "ex.echo", {"text": "x"}, "echo", origin, Caller("anna"), unit.manifest.ref)
    assert intent == made


def test_the_record_of_an_effect_exposes_the_blobs_that_its_parameters_name() -> None:
    world = Units(spending_manifest())
    world.tell(calls=[BUMP])
    assert world.a.records_of("intent")[0].refs == (ref_of(CALL),)


def test_an_effect_that_a_person_is_asked_about_is_recorded_with_the_question() -> None:
    world = Units(spending_manifest())
    world.tell(calls=[ASKED])
    [record], [intent] = world.a.records_of("intent"), world.a.intents
    assert intent.approval is not None
    assert record.body["approval"] == intent.approval
    assert (intent.approval["tool"], intent.approval["tool_call_id"]) == (ASKED, "c1")
    assert (intent.approval["actor"], intent.approval["expires_ns"]) == ("user", world.a.now_ns + LIFETIME_NS)
    assert record.body["admitted"]["verdict"] == "require_approval"
    assert world.a.last.asks == (intent,)
    assert world.a.last.intents == ()
    assert intent.approved is None


def test_the_parameters_are_recorded_in_the_normal_form_of_their_schema() -> None:
    world = Units(spending_manifest())
    world.tell(calls=[BUMP])
    [intent] = world.a.intents
    assert intent.params == {"tool": BUMP, "tool_call_id": "c1", "call_ref": ref_of(CALL), "refused": None}
    assert world.a.records_of("intent")[0].body["params"] == intent.params


def test_a_denied_effect_is_recorded_with_what_denied_it() -> None:
    unit = Kernel(small_manifest(rules=[]))
    unit.poke("ask:x")
    [decision] = unit.records_of("decision")
    body = dict(decision.body)
    assert len(body.pop("intent")) == 32
    assert body == {
        "kind": "ex.echo",
        "origin": {"id": 1, "kind": "plan", "name": "ex/plan@1"},
        "by": "policy",
        "rule": "no rule matches",
        "verdict": "deny",
        "code": "policy_denied",
        "message": "no rule of the world's policy allows ex.echo",
    }
    assert decision.cause == 3


def test_parameters_that_break_their_schema_are_denied_with_the_path() -> None:
    unit = Kernel(
        effect_requesting_manifest(
            effect_requesting_reducer(lambda what: [EffectRequest("timer.set", {"deliver_at_ns": "soon"}, "k")])
        )
    )
    unit.poke("go")
    [decision] = unit.records_of("decision")
    body = decision.body
    assert (body["by"], body["verdict"], body["code"]) == ("schema", "deny", "effect_params_invalid")
    assert body["message"].startswith("deliver_at_ns: ")
    assert body["origin"] == {"key": "k", "kind": "reducer", "name": "ex/Room@1"}


def broken_call(call: bytes) -> Kernel:
    """A room whose plan calls a tool that a person is to be asked about, by this blob."""
    step: dict[str, Any] = tool_call_step("go", "h", ASKED)
    step["params"]["record"]["call_ref"] = {"hash": ref_of(call)}
    told = raise_event_step("say", ref("@var:r.payload.code"), ref("@var:r.payload.message"))
    policy = ToolPolicy((ASKED,), require_approval_for_tools=(ASKED,))
    manifest = small_manifest(
        [plan([step, await_receipt_step("wait", "h", "r"), told], [edge("go", "wait"), edge("wait", "say")])],
        grants=[{"name": "tool", "cap": "sys/tool@1", "params": {}}],
        tool_policy=policy,
    )
    unit = Kernel(manifest)
    unit.put(call)
    unit.poke("ask:x")
    return unit


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (b"{}", "The grant tool can't be held against these parameters (KeyError)."),
        (b"no JSON", "Not valid JSON"),
    ],
)
def test_a_call_that_nobody_can_ask_about_is_denied(call: bytes, message: str) -> None:
    unit = broken_call(call)
    assert (unit.intents, unit.last.asks) == ([], ())
    [decision] = unit.records_of("decision")
    assert (decision.body["by"], decision.body["code"]) == ("schema", "effect_params_invalid")
    assert message in decision.body["message"]
    assert (decision.body["kind"], decision.cause) == ("tool.call", unit.records_of("event")[1].unit_seq)
    assert unit.log == ["asked", f"effect_params_invalid:{decision.body['message']}"]


def test_each_denial_counts_as_an_effect_and_the_next_is_judged_by_itself() -> None:
    steps = [emit_effect_step("a", "h1", "x", cap="none"), emit_effect_step("b", "h2", "x")]
    unit = Kernel(small_manifest([plan(steps)], check=False))
    unit.poke("ask:x")
    assert unit.records_of("decision")[0].body["code"] == "no_grant"
    assert [intent.grant for intent in unit.intents] == ["echo"]


def test_the_deadline_of_a_grant_is_that_of_the_ingress() -> None:
    unit = Kernel(
        small_manifest(grants=[{"name": "echo", "cap": "ex/echo@1", "params": {}, "expiry_ns": ns_after_ingress(1)}])
    )
    unit.poke("ask:x")
    assert len(unit.intents) == 1
    unit.poke("ask:x")
    assert len(unit.intents) == 1
    assert unit.records_of("decision")[0].body["code"] == "expired"


def ns_after_ingress(seconds: int) -> int:
    """The nanosecond after an ingress that comes so many seconds after the beginning."""
    return Kernel(small_manifest()).now_ns + seconds * SECOND + 1


def test_the_call_that_a_person_is_asked_about_is_a_blob_that_the_step_needs() -> None:
    manifest, state = spending_manifest(), UnitState("world_1", A)
    body = {"schema": "ex/Ev@1", "value": room_order(calls=[ASKED])}
    ingress = Ingress("event", "i", body, Stamp(START_NS, b"e" * 16, USER, manifest.ref))
    assert advance(manifest, state, ingress, {}) == Need(ref_of(CALL))
    assert isinstance(advance(manifest, state, ingress, {ref_of(CALL): CALL}), Advance)


def test_an_effect_of_a_reducer_is_identified_by_all_that_led_to_it() -> None:
    unit = Kernel(
        effect_requesting_manifest(
            effect_requesting_reducer(lambda what: [timer_request(7, "one"), timer_request(7, "two")])
        )
    )
    unit.poke("go")
    [step] = unit.records_of("step")
    for number, intent in enumerate(unit.intents, 1):
        digest = cbor.digest({"deliver_at_ns": 7, "key": None})
        assert intent.id == cbor.digest(["world_1", str(A), step.unit_seq, number, "timer.set", digest, "timer"])


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (blob_put_request(b"x"), "op_not_allowed"),
        (EffectRequest("ex.nothing", {}), "unknown_effect"),
        (EffectRequest("timer.set", {"deliver_at_ns": "soon"}), "effect_params_invalid"),
    ],
)
def test_the_reaction_of_a_reducer_to_a_denial_belongs_to_the_run_of_the_denied_effect(
    request_: EffectRequest, code: str
) -> None:
    def reduce(state: Any, event: Any, context: ReducerContext) -> Step:
        return Step(set={"n": 1}, effects=[request_ if event["$tag"] == "Poke" else timer_request(7)])

    grants = [{**grant, "params": {"ops": ["get"]}} if grant["name"] == "blob" else grant for grant in GRANTS]
    effects = [*ALLOWED, {"kind": "ex.nothing", "cap": "timer"}]
    policy = ToolPolicy(budgets=Budgets(run=Allowance(max_tool_calls=1)))
    unit = Kernel(effect_requesting_manifest(reduce, grants=grants, effects=effects, tool_policy=policy, check=False))
    unit.poke("go")
    [decision], [intent], [run] = unit.records_of("decision"), unit.intents, unit.state.runs
    assert (decision.body["code"], decision.cause) == (code, unit.records_of("step")[0].unit_seq)
    assert (intent.kind, intent.run) == ("timer.set", run)
    assert unit.records_of("step")[1].cause == decision.unit_seq
