"""A person's decision about a call: which intents it concerns, and what of it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.world.budget_worlds import ASKED, BUMP, Units, spending_manifest, tool_result
from tests.world.small_world import SECOND, A, Kernel

from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.values import cbor
from demiurge.values.refs import ref_of
from demiurge.world.manifest import Manifest
from demiurge.world.record import Record
from demiurge.world.state import OpenIntent

ANSWER = ref_of(b'{"answer":"Rome","choice":0}')


def room_with_waiting_call(manifest: Manifest | None = None) -> tuple[Units, OpenIntent]:
    """A room with one call that waits for a person."""
    world = Units(manifest if manifest is not None else spending_manifest())
    world.tell(calls=[ASKED])
    [intent] = world.a.intents
    return world, intent


def decide_call(
    unit: Kernel, intent: OpenIntent | bytes, verdict: str = "approve", reason: str = "fine"
) -> list[Record]:
    intent_id = intent.id if isinstance(intent, OpenIntent) else intent
    return unit.take("approval", {"intent": intent_id, "verdict": verdict, "reason": reason, "by": "anna"})


def test_an_approved_intent_runs_and_says_who_approved_it_why_and_when() -> None:
    world, intent = room_with_waiting_call()
    assert intent in world.a.last.asks
    world.a.now_ns += 999_999  # what is less than a millisecond is left out
    [record] = decide_call(world.a, intent)
    assert (record.kind, record.cause) == ("approval", None)
    approved = replace(intent, approved={"by": "anna", "reason": "fine", "at_ms": world.a.now_ns // 1_000_000})
    assert world.a.intents == [approved]
    assert world.a.last.intents == (approved,)
    assert not world.a.last.asks
    world.answer(A, approved)
    assert world.log == ["ok:"]


def test_a_decision_on_what_does_not_wait_for_one_is_not_recorded() -> None:
    world = Units(spending_manifest())
    world.tell(calls=[BUMP])
    [running] = world.a.intents
    for intent in (running, b"?" * 32):
        assert decide_call(world.a, intent) == []
        assert world.a.last.intents == ()
    assert world.a.intents == [running]


@pytest.mark.parametrize("first", ["approve", "reject"])
@pytest.mark.parametrize("second", ["approve", "reject"])
def test_a_second_decision_is_not_recorded(first: str, second: str) -> None:
    world, intent = room_with_waiting_call()
    decide_call(world.a, intent, first)
    [once] = world.a.intents
    assert decide_call(world.a, intent, second) == []
    assert (world.a.intents, world.a.last.intents) == ([once], ())


def test_a_rejected_call_is_for_its_adapter_to_answer() -> None:
    world, intent = room_with_waiting_call()
    [record] = decide_call(world.a, intent, "reject", "Not today.")
    assert record.kind == "approval", "a person's word is no decision of the rules"
    refused = replace(intent, refused={"code": "approval_rejected", "message": "Not today."})
    assert (world.a.intents, world.a.last.intents) == ([refused], (refused,))


def test_an_approval_that_the_rules_in_force_deny_is_recorded_with_their_decision() -> None:
    world, intent = room_with_waiting_call()
    in_force(world.a, stored_manifest(world.a.manifest, tool_policy=ToolPolicy().to_json()))
    approval, _, decision = decide_call(world.a, intent)
    assert (approval.kind, decision.kind, decision.cause) == ("approval", "decision", approval.unit_seq)
    body = dict(decision.body)
    assert (body.pop("intent"), body.pop("kind")) == (intent.id, "tool.call")
    assert {"by": "tool_policy", "verdict": "deny", "code": "policy_denied"}.items() <= body.items()
    [refused] = world.a.intents
    assert refused.refused == {"code": "policy_denied", "message": body["message"]}
    assert world.a.last.intents == (refused,)


def test_an_approval_for_which_there_is_no_budget_any_more_is_recorded_with_the_limit() -> None:
    world, intent = room_with_waiting_call(spending_manifest(Budgets(run=Allowance(max_wall_ms=500))))
    approval, decision = decide_call(world.a, intent)
    message = "The time of this run is over."
    said = {"by": "budget", "rule": "run.deadline", "verdict": "deny", "code": "deadline_exceeded", "message": message}
    assert decision.body == {"intent": intent.id, "kind": "tool.call", **said}
    assert decision.cause == approval.unit_seq
    assert world.a.last.intents[0].refused == {"code": "deadline_exceeded", "message": message}


@pytest.mark.parametrize(("late_ns", "runs"), [(0, True), (1, False)])
def test_an_approval_comes_in_time_until_the_deadline_and_not_in_it(late_ns: int, *, runs: bool) -> None:
    world, intent = room_with_waiting_call(spending_manifest(Budgets(run=Allowance(max_wall_ms=500))))
    assert intent.deadline_ns is not None
    world.a.now_ns = intent.deadline_ns - 1 - SECOND + late_ns
    decide_call(world.a, intent)
    assert (world.a.intents[0].approved is not None) == runs


def test_a_call_does_not_stand_in_its_own_way_in_the_budget() -> None:
    world, intent = room_with_waiting_call(spending_manifest(Budgets(run=Allowance(max_tool_calls=1))))
    decide_call(world.a, intent)
    assert world.a.intents[0].approved is not None


def test_under_a_manifest_from_before_a_rejected_call_is_closed_at_once() -> None:
    world, intent = room_with_waiting_call(with_calls(spending_manifest(), lambda d: {**d, "answers_refusals": False}))
    approval, event, *_ = decide_call(world.a, intent, "reject", "Not today.")
    assert (approval.kind, event.kind, event.cause) == ("approval", "event", approval.unit_seq)
    assert world.log == ["approval_rejected:Not today."]
    assert (world.a.intents, world.a.last.intents) == ([], ())


def test_a_rejected_call_of_a_kind_that_the_manifest_no_longer_has_is_closed_at_once() -> None:
    world, intent = room_with_waiting_call()
    in_force(world.a, with_calls(world.a.manifest, lambda _: None))
    decide_call(world.a, intent, "reject", "Not today.")
    assert world.log == ["approval_rejected:Not today."]
    assert world.a.intents == []


@pytest.mark.parametrize("verdict", ["approve", "answer"])
@pytest.mark.parametrize("is_question", [False, True])
def test_only_an_answer_lets_a_question_go_on_and_only_an_approval_another_call(
    verdict: str, *, is_question: bool
) -> None:
    world, intent = room_with_waiting_call()
    if is_question:
        intent = replace(intent, approval={**(intent.approval or {}), "expires_ns": None})
        world.a.state.intents[intent.id] = intent
    body = {"intent": intent.id, "verdict": verdict, "reason": "", "by": "anna", "answer_ref": ANSWER}
    recorded = world.a.take("approval", body)
    if is_question is (verdict == "answer"):
        assert [record.kind for record in recorded] == ["approval"]
        [answered] = world.a.intents
        assert answered.answer_ref == (ANSWER if is_question else None)
        assert not answered.awaits_approval
    else:
        assert recorded == []
        assert world.a.intents == [intent]


def test_a_question_waits_for_ever() -> None:
    world, intent = room_with_waiting_call()
    intent = replace(intent, approval={**(intent.approval or {}), "expires_ns": None})
    world.a.state.intents[intent.id] = intent
    world.a.now_ns += 1000 * 24 * 3600 * SECOND
    world.a.take("approval", {"intent": intent.id, "verdict": "answer", "reason": "", "by": "b", "answer_ref": ANSWER})
    assert world.a.intents[0].answer_ref == ANSWER


def test_a_refused_call_is_open_until_its_adapter_has_answered() -> None:
    world, intent = room_with_waiting_call()
    decide_call(world.a, intent, "reject")
    assert world.a.state.is_open
    world.answer(A, world.a.intents[0], tool_result())
    assert not world.a.state.is_open


def stored_manifest(manifest: Manifest, **parts: Any) -> Manifest:
    """The manifest with other parts, as one that somebody stored: nobody checks it."""
    return Manifest.load(cbor.encode({**cbor.decode(manifest.node), **parts}), manifest.reducers)


def with_calls(manifest: Manifest, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Manifest:
    """The manifest with another definition of `tool.call`, or without one."""
    system = [change(d) if d.get("kind") == "tool.call" else d for d in cbor.decode(manifest.node)["system"]]
    return stored_manifest(manifest, system=[d for d in system if d is not None])


def in_force(unit: Kernel, manifest: Manifest) -> None:
    unit.put(unit.manifest.node)
    unit.manifest = manifest
