"""Effects that a running tool asks for: while its call is open, each number once, in the name of the call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.world.budget_worlds import ASKED, BUMP, CALL, tool_call_step, tool_result
from tests.world.small_world import (
    Kernel,
    await_receipt_step,
    echo_result,
    edge,
    plan,
    raise_event_step,
    ref,
    small_manifest,
)

from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.values import cbor
from demiurge.world.effect import failed
from demiurge.world.record import Record
from demiurge.world.state import OpenIntent, Request

MINE = {
    "$kind": "defeffect",
    "name": "ex/mine@1",
    "kind": "ex.mine",
    "params_schema": "ex/EchoParams@1",
    "receipt_schema": "ex/EchoReceipt@1",
    "cap_type": "mine",
    "origin_scope": "tool",
}
CAP = {"$kind": "defcap", "name": "ex/mine@1", "cap_type": "mine", "schema": {"record": {}}}
ONE = ("mine",)


def room_with_tools(grants: tuple[str, ...] = ONE, budgets: Budgets | None = None) -> Kernel:
    """A room whose plan calls a tool, and whose tools may ask for `ex.mine` under these grants."""
    steps = [
        tool_call_step("go", "h", ref("@plan.input.text")),
        await_receipt_step("wait", "h", "r"),
        raise_event_step("say", ref("@var:r.status"), "d"),
    ]
    manifest = small_manifest(
        [plan(steps, [edge("go", "wait"), edge("wait", "say")])],
        grants=[
            {"name": "tool", "cap": "sys/tool@1", "params": {}},
            *({"name": name, "cap": "ex/mine@1", "params": {}} for name in grants),
        ],
        definitions=[MINE, CAP],
        tool_policy=ToolPolicy(
            (BUMP, ASKED), require_approval_for_tools=(ASKED,), budgets=budgets if budgets is not None else Budgets()
        ),
    )
    unit = Kernel(manifest)
    unit.put(CALL)
    return unit


def room_with_calls(*tools: str, **given: Any) -> tuple[Kernel, OpenIntent]:
    """A room with a call of each tool, and the first of them."""
    unit = room_with_tools(**given)
    unit.poke(f"ask:{','.join(tools)}")
    return unit, unit.intents[0]


def request_effect(
    unit: Kernel, parent: OpenIntent | bytes, ordinal: int = 0, kind: str = "ex.mine", text: str = "x"
) -> Any:
    parent_id = parent.id if isinstance(parent, OpenIntent) else parent
    body = {"parent": parent_id, "ordinal": ordinal, "kind": kind, "params": {"text": text}}
    made: list[Record] = unit.take("capability_request", body)
    return made


def test_a_running_tool_asks_for_an_effect_and_has_its_answer() -> None:
    unit, parent = room_with_calls(BUMP)
    request, intent = request_effect(unit, parent, 3)
    assert (request.kind, request.cause) == ("capability_request", None)
    assert (intent.kind, intent.cause) == ("intent", request.unit_seq)
    _, made = unit.intents
    digest = cbor.digest({"text": "x"})
    assert made.id == cbor.digest([parent.id, 3, "ex.mine", digest])
    assert (made.kind, made.params, made.grant) == ("ex.mine", {"text": "x"}, "mine")
    assert made.origin == {"kind": "tool", "name": BUMP, "parent": parent.id, "ordinal": 3}
    assert unit.last.intents == (made,)
    open_request = Request("ex.mine", digest, made.id)
    assert unit.state.intents[parent.id] == replace(parent, requests={3: open_request})

    answered = echo_result("x")
    [receipt] = unit.receipt(made, answered)
    assert receipt.kind == "receipt"
    assert unit.last.answers == ((made.id, answered),)
    assert unit.state.intents[parent.id].requests == {3: replace(open_request, answer=answered)}
    assert list(unit.state.intents) == [parent.id]


def test_each_request_of_a_call_is_kept_with_its_own_answer() -> None:
    unit, parent = room_with_calls(BUMP)
    for ordinal in (0, 1):
        request_effect(unit, parent, ordinal)
    _, first, second = unit.intents
    assert first.id != second.id, "equal requests of one call are two"
    unit.receipt(second, echo_result("b"))
    unit.receipt(first, failed("gone", "It is gone."))
    kept = unit.state.intents[parent.id].requests
    assert [kept[number].answer for number in (0, 1)] == [failed("gone", "It is gone."), echo_result("b")]
    unit.receipt(unit.state.intents[parent.id], tool_result())
    assert unit.log == ["asked", "ok:d"]


def test_a_number_that_a_call_has_used_is_not_taken_again() -> None:
    unit, parent = room_with_calls(BUMP)
    request_effect(unit, parent, 0)
    before = unit.intents
    assert request_effect(unit, parent, 0, text="other") == []
    assert unit.intents == before


def test_only_a_running_tool_call_may_request_an_effect() -> None:
    unit, asked = room_with_calls(ASKED, BUMP)
    _, bump = unit.intents
    request_effect(unit, bump)
    _, _, effect = unit.intents
    for parent in (b"?" * 32, effect, asked):
        assert request_effect(unit, parent) == []
    unit.take("approval", {"intent": asked.id, "verdict": "reject", "reason": "", "by": "anna"})
    assert request_effect(unit, asked) == [], "refused"
    unit.receipt(bump, tool_result())
    assert request_effect(unit, bump, 1) == [], "over"


def test_an_approved_call_may_request_an_effect() -> None:
    unit, asked = room_with_calls(ASKED)
    unit.take("approval", {"intent": asked.id, "verdict": "approve", "reason": "", "by": "anna"})
    assert [record.kind for record in request_effect(unit, asked)] == ["capability_request", "intent"]


@pytest.mark.parametrize("grants", [(), ("mine", "other")])
def test_without_a_grant_or_with_several_a_request_is_denied(grants: tuple[str, ...]) -> None:
    unit, parent = room_with_calls(BUMP, grants=grants)
    request, decision = request_effect(unit, parent)
    assert (decision.kind, decision.cause, decision.body["code"]) == ("decision", request.unit_seq, "no_grant")
    assert decision.body["message"] == "no grant '' for ex.mine"
    [(_, result)] = unit.last.answers
    assert (result["status"], result["payload"]["code"]) == ("error", "no_grant")
    assert unit.state.intents[parent.id].requests[0].answer == result


def test_a_grant_for_something_else_is_no_second_one() -> None:
    unit, parent = room_with_calls(BUMP)
    assert [grant.cap_type for grant in unit.manifest.grants.values()] == ["tool", "mine"]
    request_effect(unit, parent)
    assert unit.intents[-1].grant == "mine"


def test_an_effect_that_nobody_knows_is_denied_in_a_sentence() -> None:
    unit, parent = room_with_calls(BUMP)
    request, decision = request_effect(unit, parent, kind="ex.nothing")
    message = "There is no effect ex.nothing."
    said = {"verdict": "deny", "by": "schema", "code": "unknown_effect", "message": message}
    [(intent_id, result)] = unit.last.answers
    assert intent_id == cbor.digest([parent.id, 0, "ex.nothing", cbor.digest({"text": "x"})])
    origin = {"kind": "tool", "name": BUMP, "parent": parent.id, "ordinal": 0}
    assert decision.body == {"intent": intent_id, "kind": "ex.nothing", "origin": origin, **said}
    assert decision.cause == request.unit_seq
    assert result == failed("unknown_effect", message)


def test_the_answer_to_a_request_of_a_call_that_is_over_is_recorded_and_given_on() -> None:
    unit, parent = room_with_calls(BUMP)
    request_effect(unit, parent)
    _, made = unit.intents
    unit.receipt(parent, tool_result())
    [receipt] = unit.receipt(made, echo_result("late"))
    assert receipt.kind == "receipt"
    assert unit.last.answers == ((made.id, echo_result("late")),)
    assert not unit.state.is_open


def test_an_effect_requested_by_a_tool_belongs_to_the_run_of_its_call() -> None:
    unit, parent = room_with_calls(BUMP, budgets=Budgets(run=Allowance(max_tool_calls=1)))
    request_effect(unit, parent)
    _, made = unit.intents
    assert parent.run is not None
    assert made.run == parent.run
    unit.receipt(parent, tool_result())
    assert list(unit.state.runs) == [parent.run], "its request goes on"
    unit.receipt(made, echo_result("x"))
    assert unit.state.runs == {}


def test_an_effect_that_costs_nothing_is_not_stopped_by_a_budget_that_is_used_up() -> None:
    unit, parent = room_with_calls(BUMP, BUMP, budgets=Budgets(unit=Allowance(max_total_tokens=10, max_tool_calls=9)))
    result = tool_result()
    unit.receipt(unit.intents[1], {**result, "payload": {**result["payload"], "usage": {"total_tokens": 11}}})
    request_effect(unit, parent)
    assert [intent.kind for intent in unit.intents] == ["tool.call", "ex.mine"]
    unit.poke(f"ask:{BUMP}")
    assert unit.intents[-1].refused is not None
