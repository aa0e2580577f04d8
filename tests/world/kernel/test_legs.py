"""A call that asks a person half-way: the intents of its legs, their budgets, and the decisions on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.world.budget_worlds import BUMP, Units, spending_manifest
from tests.world.kernel.test_approvals import in_force, stored_manifest
from tests.world.small_world import A

from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.values.refs import ref_of
from demiurge.world.manifest import Manifest
from demiurge.world.record import Record
from demiurge.world.snapshot import read_snapshot, take_snapshot
from demiurge.world.state import OpenIntent

ANSWER = ref_of(b'{"answers":{}}')


def asks_of(world: Units, intent: OpenIntent, **more: Any) -> dict[str, Any]:
    """What the receipt of a leg says of its questions."""
    spec = world.a.manifest.toolset.get(intent.params["tool"])
    known = {"ref": ref_of(b"questions"), "state_ref": ref_of(b"state"), "args_digest": ref_of(b"{}")}
    return {**known, "spec_hash": spec.spec_hash if spec is not None else None, **more}


def end_leg(world: Units, intent: OpenIntent, **more: Any) -> list[Record]:
    """Ends a leg with questions; the records of the step."""
    payload = {"code": "input_required", "message": "It asks."}
    body = {"intent": intent.id, "status": "error", "payload": payload, "asks": asks_of(world, intent, **more)}
    return world.a.take("receipt", body)


def asked(budgets: Budgets | None = None, **more: Any) -> tuple[Units, OpenIntent, OpenIntent]:
    """A room with a call that asks: the intent of its first leg, and the one that waits."""
    world = Units(spending_manifest(budgets) if budgets is not None else spending_manifest())
    world.tell(calls=[BUMP])
    [first] = world.a.intents
    end_leg(world, first, **more)
    [waiting] = world.a.intents
    return world, first, waiting


def decide(world: Units, intent: OpenIntent, verdict: str, **more: Any) -> list[Record]:
    body = {"intent": intent.id, "verdict": verdict, "reason": "", "by": "anna", **more}
    return world.a.take("approval", body)


def test_the_next_leg_takes_the_place_of_the_first_and_its_result_answers_the_plan() -> None:
    world, first, waiting = asked()
    receipt, intent = world.a.records[-2:]
    assert (receipt.kind, intent.kind, intent.cause) == ("receipt", "intent", receipt.unit_seq)
    assert set(intent.refs) >= {ref_of(b"questions"), ref_of(b"state")}
    assert waiting.leg == {
        "of": first.id,
        "after": first.id,
        "number": 2,
        "granted": None,
        "asks": ref_of(b"questions"),
        "state": ref_of(b"state"),
        "tied": False,
    }
    assert (waiting.awaits_approval, waiting.is_question, waiting.only_asks) == (True, True, False)
    assert world.a.last.asks == (waiting,)
    assert world.log == []
    decide(world, waiting, "answer", answer_ref=ANSWER)
    [going] = world.a.last.intents
    assert (going.answer_ref, going.may_run) == (ANSWER, True)
    world.answer(A, going)
    assert world.log == ["ok:"]
    assert not world.a.state.is_open


def test_a_later_leg_asks_again_under_an_id_of_its_own() -> None:
    world, first, waiting = asked()
    decide(world, waiting, "answer", answer_ref=ANSWER)
    end_leg(world, world.a.intents[0])
    [third] = world.a.intents
    assert third.leg is not None
    assert (third.leg["number"], third.leg["of"], third.leg["after"]) == (3, first.id, waiting.id)
    assert len({first.id, waiting.id, third.id}) == 3
    assert third.awaits_approval


def test_the_call_counts_once_in_a_budget_and_its_legs_do_not_stand_in_their_way() -> None:
    world, _, waiting = asked(Budgets(run=Allowance(max_tool_calls=1, max_total_tokens=50)), usage={"total_tokens": 20})
    [run] = world.a.state.runs.values()
    assert (run.used.tool_calls, run.used.total_tokens) == (0, 20)
    decide(world, waiting, "answer", answer_ref=ANSWER)
    [going] = world.a.intents
    assert going.refused is None
    world.answer(A, going)
    assert world.log == ["ok:"]


@pytest.mark.parametrize("verdict", ["approve", "expire"])
def test_a_yes_and_an_expiry_are_no_answer(verdict: str) -> None:
    world, _, waiting = asked()
    assert decide(world, waiting, verdict) == []
    assert world.a.intents == [waiting]


def test_a_wait_that_ends_lets_the_call_go_on_without_an_answer() -> None:
    world, _, waiting = asked(expires_ns=10**18, tied=True)
    assert waiting.approval is not None
    assert waiting.approval["expires_ns"] == 10**18
    decide(world, waiting, "end")
    [going] = world.a.last.intents
    assert (going.may_run, going.answer_ref, (going.approved or {})["ended"]) == (True, None, True)


def test_an_answer_that_comes_too_late_is_none() -> None:
    world, _, waiting = asked(expires_ns=1)
    decide(world, waiting, "answer", answer_ref=ANSWER)
    [going] = world.a.last.intents
    assert (going.answer_ref, (going.approved or {})["ended"]) == (None, True)


def test_a_rejection_is_for_the_adapter_to_word() -> None:
    world, _, waiting = asked()
    decide(world, waiting, "reject", reason="No.")
    [refused] = world.a.last.intents
    assert refused.refused == {"code": "approval_rejected", "message": "No."}
    assert not refused.awaits_approval


def test_a_tool_that_is_denied_when_it_asks_is_refused_at_once() -> None:
    world = Units(spending_manifest())
    world.tell(calls=[BUMP])
    [first] = world.a.intents
    in_force(world.a, denying(world))
    end_leg(world, first)
    [refused] = world.a.last.intents
    assert refused.refused is not None
    assert refused.refused["code"] == "policy_denied"
    assert (world.a.last.asks, world.a.intents) == ((), [refused])


@pytest.mark.parametrize(("verdict", "more"), [("answer", {"answer_ref": ANSWER}), ("end", {})])
def test_a_tool_that_is_denied_when_it_is_answered_does_not_go_on(verdict: str, more: dict[str, Any]) -> None:
    world, _, waiting = asked()
    in_force(world.a, denying(world))
    decide(world, waiting, verdict, **more)
    [refused] = world.a.last.intents
    assert refused.refused is not None
    assert refused.refused["code"] == "policy_denied"


def test_a_tool_that_is_another_one_by_now_does_not_go_on() -> None:
    world, _, waiting = asked(spec_hash=ref_of(b"another tool"))
    assert waiting.awaits_approval or waiting.refused is not None
    [refused] = world.a.intents
    assert refused.refused is not None
    assert refused.refused["code"] == "approval_expired"


def test_the_approval_of_the_call_stays_with_its_legs() -> None:
    world, first, waiting = asked()
    approval, approved = {"expires_ns": 5, "tool": BUMP}, {"by": "anna", "reason": "", "at_ms": 1}
    edited = {"intent": b"p" * 32, "call_ref": ref_of(b"call")}
    approved_first = replace(first, approval=approval, approved=approved, edited_from=edited)
    world = Units(spending_manifest())
    world.tell(calls=[BUMP])
    world.a.state.intents[first.id] = approved_first
    end_leg(world, approved_first)
    [waiting] = world.a.intents
    assert waiting.permitted.approval == approval
    assert (waiting.permitted.id, waiting.permitted.approved) == (first.id, approved)
    assert waiting.asked_for == edited["intent"]
    assert approved_first.permitted is approved_first


def test_a_snapshot_keeps_the_leg() -> None:
    world, _, waiting = asked()
    state, blobs = world.a.state, list[bytes]()
    snapshot = take_snapshot(state, blobs)
    assert snapshot is not None
    known = {ref_of(data): data for data in blobs}
    [read] = read_snapshot(snapshot, state.world, state.unit, known.__getitem__).intents.values()
    assert read == waiting


def denying(world: Units) -> Manifest:
    return stored_manifest(world.a.manifest, tool_policy=ToolPolicy().to_json())
