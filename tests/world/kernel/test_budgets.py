"""Budgets of runs and of units: what would go beyond one is refused and told, and what one run lends to another is
neither lost nor spent twice.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.world.budget_worlds import ASKED, B, Units, model_result, room_order, spending_manifest, tool_result
from tests.world.small_world import SECOND, A, Kernel, plain_data, plan, raise_event_step, small_manifest

from demiurge.errors import InvalidValue
from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets
from demiurge.world.budget import Used
from demiurge.world.effect import failed
from demiurge.world.reducer import Emit, Step
from demiurge.world.state import UnitState

BUMP = "bump"


def units_with_run_budget(**limits: int) -> Units:
    return Units(spending_manifest(Budgets(run=Allowance(**limits))))


def units_with_unit_budget(**limits: int) -> Units:
    return Units(spending_manifest(Budgets(unit=Allowance(**limits))))


def denials_of(kernel: Kernel) -> list[tuple[str, str]]:
    """The rule and the code of each refusal, in the order of their records."""
    made = [r.body.get("admitted", r.body) for r in kernel.records if r.kind in ("decision", "intent")]
    return [(decision["rule"], decision["code"]) for decision in made if "code" in decision]


# -- calls and requests -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budgets", ["run", "unit"])
def test_a_call_beyond_the_budget_is_denied_and_told_in_a_sentence(budgets: str) -> None:
    world = {"run": units_with_run_budget, "unit": units_with_unit_budget}[budgets](max_tool_calls=2)
    world.tell(calls=[BUMP, BUMP, BUMP])
    assert len(world.a.intents) == 2
    assert denials_of(world.a) == [(f"{budgets}.max_tool_calls", "budget_exceeded")]
    sentence = f"The budget for this {budgets} is used up: 0 of 2 tool calls are left."
    assert world.log == [f"budget_exceeded:{sentence}"]


def test_an_event_from_outside_begins_a_run_with_a_budget_of_its_own() -> None:
    world = units_with_run_budget(max_tool_calls=1)
    for _ in range(2):
        world.tell(calls=[BUMP])
    assert len(world.a.intents) == 2
    assert len(world.a.state.runs) == 2


def test_a_units_budget_is_for_all_its_runs_and_days() -> None:
    world = units_with_unit_budget(max_tool_calls=2, max_llm_requests=1)
    for _ in range(3):
        world.tell(calls=[BUMP], think=[10])
        for intent in world.a.intents:
            world.answer(A, intent, tool_result() if intent.kind == "tool.call" else model_result(5, 5))
    assert world.a.state.used == Used(2, 1, 10, 0, 0)
    assert [code for code, _ in (line.split(":", 1) for line in world.log)].count("budget_exceeded") == 3


def test_a_step_caused_by_a_receipt_belongs_to_the_same_run() -> None:
    world = units_with_run_budget(max_tool_calls=1)
    world.tell(calls=[BUMP])
    [intent] = world.a.intents
    assert intent.run is not None
    before = world.a.state.runs[intent.run]
    assert before.used == Used()
    world.answer(A, intent)
    assert world.log == ["ok:"]
    assert world.a.state.runs == {}


def test_a_call_that_a_person_refuses_takes_nothing() -> None:
    world = units_with_run_budget(max_tool_calls=1)
    world.tell(calls=[ASKED, BUMP])
    [asked] = world.a.intents
    world.decide(A, asked, approve=False)
    assert world.log[0].startswith("budget_exceeded")
    assert world.log[1].startswith("approval_rejected")
    world = units_with_unit_budget(max_tool_calls=1)
    world.tell(calls=[ASKED])
    world.decide(A, world.a.intents[0], approve=False)
    world.tell(calls=[BUMP])
    assert len(world.a.intents) == 1


def test_a_call_that_waits_for_a_person_keeps_its_place_in_the_budget() -> None:
    world = units_with_unit_budget(max_tool_calls=1)
    world.tell(calls=[ASKED])
    world.tell(calls=[BUMP])
    assert denials_of(world.a) == [("unit.max_tool_calls", "budget_exceeded")]
    world.decide(A, world.a.intents[0], approve=True)
    assert world.a.last.intents == (world.a.intents[0],)


def test_a_budget_that_got_smaller_while_a_person_thought_is_the_one_that_counts() -> None:
    world = units_with_unit_budget(max_tool_calls=2)
    world.tell(calls=[BUMP])
    world.answer(A, world.a.intents[0])
    world.tell(calls=[ASKED])
    world.a.manifest = spending_manifest(Budgets(unit=Allowance(max_tool_calls=1)))
    world.a.blobs[world.a.manifest.ref] = world.a.manifest.node
    world.decide(A, world.a.intents[0], approve=True)
    assert world.a.intents == []
    assert denials_of(world.a) == [("unit.max_tool_calls", "budget_exceeded")]


def test_an_effect_that_failed_has_been_made() -> None:
    world = units_with_unit_budget(max_tool_calls=1, max_llm_requests=1)
    world.tell(calls=[BUMP], think=[1])
    for intent in world.a.intents:
        world.answer(A, intent, failed("gone", "It is gone."))
    assert world.a.state.used == Used(1, 1)


# -- tokens and money -------------------------------------------------------------------------------------------------


def test_a_request_that_may_take_more_tokens_than_are_left_is_denied() -> None:
    world = units_with_run_budget(max_total_tokens=100)
    world.tell(think=[60, 41, 40])
    assert [intent.params["max_tokens"] for intent in world.a.intents] == [60, 40]
    sentence = "The budget for this run is used up: 40 of 100 tokens are left, and 41 may be needed."
    assert world.log == [f"budget_exceeded:{sentence}"]


def test_an_answer_of_which_nobody_says_what_it_took_has_taken_what_it_might() -> None:
    world = units_with_unit_budget(max_total_tokens=100)
    world.tell(think=[90])
    world.answer(A, world.a.intents[0], model_result(0, 0))
    assert world.a.state.used == Used(0, 1, 90)
    world.tell(think=[11])
    assert world.a.intents == []


def test_tokens_that_a_request_did_not_take_are_there_for_the_next() -> None:
    world = units_with_unit_budget(max_total_tokens=100)
    world.tell(think=[90])
    world.answer(A, world.a.intents[0], model_result(10, 20))
    world.tell(think=[71])
    world.tell(think=[70])
    assert [intent.params["max_tokens"] for intent in world.a.intents] == [70]


def test_a_prompt_that_goes_beyond_stops_all_that_comes_next() -> None:
    world = units_with_unit_budget(max_total_tokens=100)
    world.tell(think=[90])
    world.answer(A, world.a.intents[0], model_result(80, 40))
    world.tell(think=[1], calls=[BUMP])
    assert [rule for rule, _ in denials_of(world.a)] == ["unit.max_total_tokens"] * 2
    assert world.a.intents == []


def test_a_budget_that_is_just_used_up_still_lets_tools_run() -> None:
    world = units_with_unit_budget(max_total_tokens=100)
    world.tell(think=[90])
    world.answer(A, world.a.intents[0], model_result(60, 40))
    world.tell(calls=[BUMP], think=[1])
    assert [intent.kind for intent in world.a.intents] == ["tool.call"]


def test_money_is_counted_exactly_and_stops_the_next_request() -> None:
    world = units_with_unit_budget(max_cost_micros=1000)
    for cost in (999, 1):
        world.tell(think=[1])
        world.answer(A, world.a.intents[0], model_result(1, 1, cost, world.a.put))
    assert world.a.state.used is not None
    assert world.a.state.used.cost_micros == 1000
    world.tell(think=[1])
    assert denials_of(world.a) == [("unit.max_cost_micros", "budget_exceeded")]


def test_a_receipt_without_its_usage_costs_whole_cents() -> None:
    world = units_with_unit_budget(max_cost_micros=20_000)
    world.tell(think=[1])
    world.answer(A, world.a.intents[0], model_result(1, 1, 1))
    assert world.a.state.used == Used(0, 1, 2, 10_000, 0)


@pytest.mark.parametrize("has_usage", [True, False])
def test_after_an_answer_of_unknown_cost_no_more_is_spent(has_usage: bool) -> None:
    world = units_with_unit_budget(max_cost_micros=1000)
    world.tell(think=[1])
    world.answer(A, world.a.intents[0], model_result(1, 1, None, world.a.put if has_usage else None))
    world.tell(think=[1], calls=[BUMP])
    assert [intent.kind for intent in world.a.intents] == ["tool.call"]
    assert "nobody knows what an earlier answer cost" in world.log[-1]


def test_usage_that_a_tool_reports_counts_against_the_budget() -> None:
    world = units_with_unit_budget(max_total_tokens=100)
    world.tell(calls=[BUMP])
    result = tool_result()
    usage = {"total_tokens": 101, "cost_micros": 7}
    world.answer(A, world.a.intents[0], {**result, "payload": {**result["payload"], "usage": usage}})
    assert world.a.state.used == Used(1, 0, 101, 7, 0)
    world.tell(calls=[BUMP])
    assert denials_of(world.a) == [("unit.max_total_tokens", "budget_exceeded")]


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_call_that_would_begin_after_the_deadline_of_its_run_is_denied() -> None:
    world = units_with_run_budget(max_wall_ms=1500)
    world.tell(calls=[BUMP, ASKED])
    first, asked = world.a.intents
    begun = world.a.now_ns
    assert first.deadline_ns == begun + 1_500_000_000
    world.decide(A, asked, approve=True)  # a second later
    assert asked.id in {intent.id for intent in world.a.last.intents}
    world = units_with_run_budget(max_wall_ms=500)
    world.tell(calls=[ASKED])
    world.decide(A, world.a.intents[0], approve=True)
    assert world.log == ["deadline_exceeded:The time of this run is over."]
    assert denials_of(world.a)[0] == ("run.deadline", "deadline_exceeded")


def test_a_new_run_has_time_of_its_own() -> None:
    world = units_with_run_budget(max_wall_ms=500)
    for _ in range(3):
        world.tell(calls=[BUMP])
    assert len(world.a.intents) == 3


# -- runs in other units ----------------------------------------------------------------------------------------------


def note_with_budget(text: str = "call", **budget: int) -> dict[str, Any]:
    return {"text": text, "budget": {f"max_{name}": limit for name, limit in budget.items()}}


def test_a_share_is_reserved_when_its_event_goes_and_settled_when_its_run_is_over() -> None:
    world = units_with_run_budget(max_tool_calls=3)
    world.tell(notes=[note_with_budget(tool_calls=2)], calls=[BUMP])
    [mine] = world.a.state.runs.values()
    assert mine.reserved("tool_calls") == 2
    world.deliver()
    assert len(world.b.intents) == 2
    world.answer(B, world.b.intents[0])
    assert not world.post
    world.answer(B, world.b.intents[0])
    [settled] = world.b.records_of("settled")
    assert settled.body["used"]["tool_calls"] == 2
    assert world.b.state.runs == {}
    world.deliver()
    [mine] = world.a.state.runs.values()
    assert (mine.used.tool_calls, mine.reserved("tool_calls")) == (2, 0)
    world.answer(A, world.a.intents[0])
    assert world.a.state.runs == {}


def test_a_parent_run_gets_back_the_budget_that_its_child_did_not_use() -> None:
    world = units_with_run_budget(max_tool_calls=3)
    world.tell(notes=[note_with_budget("nothing", tool_calls=2)], calls=[ASKED])
    [mine] = world.a.state.runs.values()
    assert mine.reserved("tool_calls") == 2
    world.deliver_all()
    [mine] = world.a.state.runs.values()
    assert (mine.used, mine.reserved("tool_calls")) == (Used(), 0)


def test_a_parent_can_not_use_what_it_has_lent() -> None:
    world = units_with_run_budget(max_tool_calls=2)
    world.tell(
        calls=[BUMP], notes=[note_with_budget(tool_calls=2)]
    )  # events are judged before the effects that follow from them
    assert denials_of(world.a) == [("run.max_tool_calls", "budget_exceeded")]


def test_a_child_can_not_use_more_than_its_share() -> None:
    world = units_with_run_budget(max_tool_calls=9)
    world.tell(notes=[note_with_budget(tool_calls=1)])
    world.deliver()
    assert len(world.b.intents) == 1
    assert denials_of(world.b) == [("run.max_tool_calls", "budget_exceeded")]


def test_an_event_that_says_no_share_takes_nothing_of_a_bounded_run() -> None:
    world = units_with_run_budget(max_tool_calls=9)
    world.tell(notes=[{"text": "call"}])
    world.deliver()
    assert world.b.intents == []
    assert not world.post, "nothing was lent, so nothing is settled"
    assert world.a.state.runs == {}


def test_a_dimension_that_is_not_bounded_needs_no_share() -> None:
    world = units_with_run_budget(max_llm_requests=9)
    world.tell(notes=[{"text": "call"}])
    world.deliver()
    assert len(world.b.intents) == 2
    world = Units(spending_manifest())
    world.tell(notes=[{"text": "call"}])
    assert "budget" not in world.post[0][1].cause
    world.deliver()
    assert len(world.b.intents) == 2
    assert world.b.state.runs == {}


def test_an_unbounded_run_may_bound_what_it_begins() -> None:
    world = Units(spending_manifest())
    world.tell(notes=[note_with_budget(tool_calls=1)])
    world.deliver()
    assert len(world.b.intents) == 1
    world.answer(B, world.b.intents[0])
    assert not world.post


@pytest.mark.parametrize(
    "notes", [[note_with_budget(tool_calls=3)], [note_with_budget(tool_calls=1), note_with_budget(tool_calls=2)]]
)
def test_a_step_that_would_lend_more_than_there_is_does_not_happen(notes: list[Any]) -> None:
    world = units_with_run_budget(max_tool_calls=2)
    world.tell(notes=notes, calls=[BUMP])
    assert not world.post
    assert world.a.intents == []
    [step, *_] = world.a.records_of("step")
    assert step.body["error"]["code"] == "budget_exceeded"


@pytest.mark.parametrize(("schema", "value"), [("ex/Aside@1", "x"), ("ex/Ev@1", room_order(calls=[]))])
def test_a_share_for_an_event_that_stays_is_refused(schema: str, value: Any) -> None:
    def reduce(_state: Any, _event: Any, _context: Any) -> Step:
        return Step(set={"n": 0}, events=[Emit(schema, value, Allowance(max_tool_calls=1))])

    kernel = Kernel(small_manifest(reduce=reduce))
    kernel.poke("x")
    [step] = kernel.records_of("step")
    message = f"{schema} stays in this unit, so it takes no budget along"
    assert step.body["error"] == {"code": "invalid_step", "message": message}


def test_a_plan_lends_too_and_fails_when_there_is_not_enough() -> None:
    for given, sent in ((1, 1), (0, 0)):
        world = units_with_run_budget(max_tool_calls=2)
        world.tell(notes=[note_with_budget("pass", tool_calls=given) if given else {"text": "pass"}])
        world.deliver()
        assert len(world.post) == sent
        [ended] = world.b.records_of("plan_ended")
        assert ended.body["status"] == ("ok" if sent else "error")
        assert ended.body.get("code") == (None if sent else "budget_exceeded")


def test_a_run_gets_back_the_budget_that_its_grandchild_did_not_use() -> None:
    world = units_with_run_budget(max_tool_calls=3)
    world.tell(notes=[note_with_budget("pass", tool_calls=2)], calls=[ASKED])
    world.deliver()
    assert world.b.records_of("settled") == [], "its own child goes on"
    world.deliver()
    assert len(world.c.intents) == 1
    world.answer(world.c.state.unit, world.c.intents[0])
    world.deliver_all()
    [mine] = world.a.state.runs.values()
    assert (mine.used.tool_calls, mine.reserved("tool_calls")) == (1, 0)


@pytest.mark.parametrize("sent", [note_with_budget("reply", tool_calls=1), {"text": "reply"}])
def test_a_reply_from_another_unit_belongs_to_the_run_that_sent_the_message(sent: dict[str, Any]) -> None:
    world = units_with_run_budget(max_tool_calls=3)
    world.tell(notes=[sent], calls=[ASKED])
    [mine] = world.a.state.runs.values()
    world.deliver_all()
    assert [intent.run for intent in world.a.intents] == [mine.id, mine.id]
    assert list(world.a.state.runs) == [mine.id]


def test_a_reply_to_an_unbounded_run_is_unbounded() -> None:
    world = Units(spending_manifest())
    world.tell(notes=[note_with_budget("reply", tool_calls=1)])
    world.deliver_all()
    assert [intent.run for intent in world.a.intents] == [None]
    assert world.a.state.runs == {}


def test_a_reply_to_a_run_that_is_over_has_no_budget() -> None:
    world = units_with_run_budget(max_tool_calls=3)
    world.tell(notes=[{"text": "reply"}])
    assert world.a.state.runs == {}
    world.deliver_all()
    assert denials_of(world.a) == [("run.max_tool_calls", "budget_exceeded")]


def test_a_child_has_its_parents_deadline_or_an_earlier_one() -> None:
    world = units_with_run_budget(max_wall_ms=60_000)
    begun = world.a.now_ns + SECOND
    world.tell(notes=[{"text": "call"}, note_with_budget(wall_ms=2000)])
    assert [sent.cause["budget"]["deadline_ns"] for _, sent in world.post] == [begun + 60 * SECOND, begun + 2 * SECOND]
    world.b.now_ns = begun + 61 * SECOND
    world.deliver_all()
    assert {code for _, code in denials_of(world.b)} == {"deadline_exceeded"}


def test_a_settlement_that_nobody_lent_for_changes_nothing() -> None:
    world = units_with_run_budget(max_tool_calls=2)
    world.tell(notes=[note_with_budget(tool_calls=1)])
    [mine] = world.a.state.runs.values()
    used = Used(tool_calls=1)._asdict()
    for unit_name, seq in (("ex/Board@1/c", next(iter(mine.lent))), (str(B), 99)):
        cause = {"unit": unit_name, "seq": 1, "index": 0, "settles": seq}
        world.a.take("event", {"schema": "sys/BudgetSettled@1", "value": used}, cause=cause)
    assert list(world.a.state.runs.values()) == [mine]


# -- what was before --------------------------------------------------------------------------------------------------


def test_records_of_a_world_without_budgets_hold_no_budget_fields() -> None:
    world = Units(spending_manifest())
    world.tell(calls=[BUMP, ASKED], think=[5], notes=[{"text": "call"}])
    world.deliver()
    for intent in world.a.intents:
        assert (intent.run, intent.left) == (None, None)
    world.answer(A, world.a.intents[0])
    assert (world.a.state.runs, world.a.state.used) == ({}, None)
    for record in (*world.a.records, *world.b.records):
        assert not {"left", "budget"} & set(record.body)
        assert not isinstance(record.cause, dict) or set(record.cause) == {"unit", "seq", "index"}


def test_a_history_replays_to_the_same_state() -> None:
    world = units_with_run_budget(max_tool_calls=3, max_total_tokens=50)
    world.tell(notes=[note_with_budget(tool_calls=2)], calls=[BUMP, BUMP], think=[40, 40])
    world.deliver_all()
    for kernel in (world.a, world.b):
        again = Kernel(kernel.manifest, kernel.state.unit)
        again.blobs = kernel.blobs
        for _, ingress in kernel.taken:
            again.step(ingress)
        assert plain_data(again.state) == plain_data(kernel.state)
        assert [r.hash for r in again.records] == [r.hash for r in kernel.records]


def test_the_budget_of_a_plans_event_is_checked_before_it_runs() -> None:
    step = {**raise_event_step("t", "s", "d"), "budget": ref_nowhere()}
    with pytest.raises(InvalidValue, match=r"@plan\.input\.nothing"):
        small_manifest([plan([step])])


def ref_nowhere() -> dict[str, str]:
    return {"ref": "@plan.input.nothing"}


def test_a_unit_begins_with_nothing_used() -> None:
    assert (UnitState("w", A).runs, UnitState("w", A).used) == ({}, None)
