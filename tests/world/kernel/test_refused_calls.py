"""Tool calls that the rules, or the reducer to which they were proposed, refuse: intents that their adapter answers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.world.budget_worlds import ASKED, BUMP, CALL, tool_call_step
from tests.world.small_world import Kernel, await_receipt_step, edge, plan, raise_event_step, ref, small_manifest

from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode
from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets, ToolPolicy
from demiurge.world.effect import failed
from demiurge.world.state import OpenIntent


def room_with_call(tool: str = BUMP, refused: str | None = None, *, budgets: Budgets | None = None) -> Kernel:
    """A room that has called a tool by a plan, with the refusal that its reducer gave it."""
    step: dict[str, Any] = tool_call_step("go", "h", tool)
    if refused is not None:
        step["params"]["record"]["refused"] = {"text": refused}
    told = raise_event_step("say", ref("@var:r.payload.code"), ref("@var:r.payload.message"))
    policy = ToolPolicy(
        (BUMP, ASKED), require_approval_for_tools=(ASKED,), budgets=budgets if budgets is not None else Budgets()
    )
    grants = [{"name": "tool", "cap": "sys/tool@1", "params": {}}]
    steps = [step, await_receipt_step("wait", "h", "r"), told]
    unit = Kernel(
        small_manifest([plan(steps, [edge("go", "wait"), edge("wait", "say")])], grants=grants, tool_policy=policy)
    )
    unit.put(CALL)
    unit.poke("ask:x")
    return unit


def only_intent(unit: Kernel) -> tuple[OpenIntent, dict[str, Any]]:
    """Its one intent, and the decision that its record has."""
    [intent], [record] = unit.intents, unit.records_of("intent")
    return intent, record.body["admitted"]


def test_a_call_that_the_rules_deny_is_an_intent_that_is_answered_and_never_asked_about() -> None:
    unit = room_with_call("other")
    intent, decision = only_intent(unit)
    assert (decision["by"], decision["verdict"], decision["code"]) == ("tool_policy", "deny", "policy_denied")
    assert intent.refused == {"code": "policy_denied", "message": decision["message"]}
    assert (unit.last.intents, unit.last.asks, unit.records_of("decision")) == ((intent,), (), [])
    unit.receipt(intent, failed("policy_denied", "No."))
    assert unit.log == ["asked", "policy_denied:No."]


@pytest.mark.parametrize("tool", [BUMP, ASKED, "other"])
def test_a_call_that_its_reducer_refuses_does_not_run_whatever_the_rules_say(tool: str) -> None:
    unit = room_with_call(tool, "repeated_call")
    intent, decision = only_intent(unit)
    message = SAFE_MESSAGES[ToolErrorCode.REPEATED_CALL]
    said = {"by": "reducer", "rule": "repeated_call", "verdict": "deny", "code": "repeated_call", "message": message}
    assert decision == said
    assert intent.refused == {"code": "repeated_call", "message": message}
    assert (intent.approval, unit.last.asks) == (None, ())


def test_a_refusal_that_the_rules_give_too_is_recorded_as_theirs() -> None:
    _, decision = only_intent(room_with_call("other", "policy_denied"))
    assert decision["by"] == "tool_policy"
    _, decision = only_intent(room_with_call(BUMP, "policy_denied"))
    assert decision["by"] == "reducer"


def test_a_refusal_with_a_code_that_is_not_a_closed_one_is_a_denial() -> None:
    unit = room_with_call(BUMP, "because")
    [decision] = unit.records_of("decision")
    message = "refused: is one of the closed error codes"
    assert (decision.body["by"], decision.body["code"]) == ("schema", "effect_params_invalid")
    assert (decision.body["message"], unit.log) == (message, ["asked", f"effect_params_invalid:{message}"])
    assert unit.intents == []


def test_a_call_that_the_rules_deny_is_denied_by_them_though_its_budget_is_used_up() -> None:
    for tool, by in (("other", "tool_policy"), (BUMP, "budget"), (ASKED, "budget")):
        intent, decision = only_intent(room_with_call(tool, budgets=Budgets(run=Allowance(max_tool_calls=0))))
        assert (decision["by"], intent.approval) == (by, None)


def test_a_refused_call_takes_nothing_of_a_budget_and_is_told_nothing_of_it() -> None:
    budgets = Budgets(run=Allowance(max_tool_calls=1), unit=Allowance(max_tool_calls=1))
    unit = room_with_call("other", budgets=budgets)
    intent, _ = only_intent(unit)
    assert intent.left is None
    assert "left" not in unit.records_of("intent")[0].body
    unit.receipt(intent, failed("policy_denied", "No."))
    assert (unit.state.used, unit.state.runs) == (None, {})
    kept = room_with_call(BUMP, budgets=budgets)
    intent, _ = only_intent(kept)
    assert intent.left == {"run": {"tool_calls": 0}, "unit": {"tool_calls": 0}}
    assert kept.records_of("intent")[0].body["left"] == intent.left
