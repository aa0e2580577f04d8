"""What the records and the messages of a run say of budgets: what is left, what goes along, what is settled."""

from __future__ import annotations

from typing import Any

import pytest
from tests.world.budget_worlds import ASKED, BUMP, CALL, B, Units, model_result, room_order, spending_manifest
from tests.world.small_world import A, Kernel, small_manifest

from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets
from demiurge.world.budget import Used


def run(**limits: int) -> Units:
    return Units(spending_manifest(Budgets(run=Allowance(**limits))))


def units_with_unit_budget(**limits: int) -> Units:
    return Units(spending_manifest(Budgets(unit=Allowance(**limits))))


def denials_of(kernel: Kernel) -> list[Any]:
    made = [r.body.get("admitted", r.body) for r in kernel.records if r.kind in ("decision", "intent")]
    return [decision for decision in made if decision["verdict"] == "deny"]


# -- what is left -----------------------------------------------------------------------------------------------------


def test_a_denial_names_the_budget_the_limit_and_the_sentence() -> None:
    world = units_with_unit_budget(max_tool_calls=0)
    world.tell(calls=[BUMP])
    message = "The budget for this unit is used up: 0 of 0 tool calls are left."
    said = {"by": "budget", "rule": "unit.max_tool_calls", "verdict": "deny", "code": "budget_exceeded"}
    assert denials_of(world.a) == [{**said, "message": message}]
    world = run(max_total_tokens=1)
    world.tell(think=[2])
    message = "The budget for this run is used up: 1 of 1 tokens are left, and 2 may be needed."
    [denial] = denials_of(world.a)
    assert {**said, "rule": "run.max_total_tokens", "message": message}.items() <= denial.items()


def test_an_effect_is_told_what_is_left_to_its_unit_where_runs_are_not_bounded() -> None:
    world = units_with_unit_budget(max_tool_calls=2, max_total_tokens=10)
    world.tell(calls=[BUMP], think=[4])
    call, request = world.a.intents
    assert (call.run, call.left) == (None, {"unit": {"tool_calls": 1, "total_tokens": 10}})
    assert request.left == {"unit": {"tool_calls": 1, "total_tokens": 6}}
    world.answer(A, call)
    world.answer(A, request, model_result(8, 4))
    world.tell(calls=[BUMP, BUMP])
    assert [intent.left for intent in world.a.intents] == []
    assert [denial["rule"] for denial in denials_of(world.a)] == ["unit.max_total_tokens"] * 2


def test_an_effect_is_told_what_is_left_to_its_run_and_when_that_is_over() -> None:
    world = Units(
        spending_manifest(Budgets(run=Allowance(max_tool_calls=2, max_wall_ms=5), unit=Allowance(max_tool_calls=9)))
    )
    world.tell(calls=[BUMP, BUMP])
    deadline_ns = world.a.now_ns + 5_000_000
    assert [intent.left for intent in world.a.intents] == [
        {"run": {"tool_calls": 1, "deadline_ns": deadline_ns}, "unit": {"tool_calls": 8}},
        {"run": {"tool_calls": 0, "deadline_ns": deadline_ns}, "unit": {"tool_calls": 7}},
    ]


def test_tokens_reserved_for_open_model_requests_do_not_stop_a_tool_call() -> None:
    world = units_with_unit_budget(max_total_tokens=100)
    world.tell(think=[50, 40])
    world.answer(A, world.a.intents[0], model_result(70, 0))
    world.tell(calls=[BUMP])  # 70 are used and 40 may be, but a call takes none
    assert [intent.kind for intent in world.a.intents] == ["llm.generate", "tool.call"]
    assert world.a.intents[1].left == {"unit": {"total_tokens": 0}}


def test_each_open_effect_holds_its_place_in_the_budget_of_the_unit_and_of_its_own_run() -> None:
    world = Units(spending_manifest(Budgets(run=Allowance(max_tool_calls=1), unit=Allowance(max_tool_calls=2))))
    for _ in range(3):
        world.tell(calls=[BUMP])
    assert len(world.a.intents) == 2
    assert [denial["rule"] for denial in denials_of(world.a)] == ["unit.max_tool_calls"]


def test_a_refused_call_holds_no_place_in_the_budget_while_it_is_open() -> None:
    kernel = Kernel(spending_manifest(Budgets(unit=Allowance(max_tool_calls=1))))
    kernel.put(CALL)
    kernel.event(room_order(calls=["other", BUMP]))
    refused, allowed = kernel.intents
    assert (refused.refused is None, allowed.refused) == (False, None)


@pytest.mark.parametrize("is_known", [True, False])
def test_money_stops_requests_and_not_tools(*, is_known: bool) -> None:
    world = units_with_unit_budget(max_cost_micros=10)
    world.tell(think=[1])
    world.answer(A, world.a.intents[0], model_result(1, 1, 10 if is_known else None, world.a.put))
    world.tell(think=[1], calls=[BUMP])
    [intent] = world.a.intents
    assert intent.kind == "tool.call"
    [denial] = denials_of(world.a)
    why = (
        "The budget for this unit is used up: 0 of 10 millionths of a dollar are left."
        if is_known
        else "The budget for this unit can't be kept: nobody knows what an earlier answer cost."
    )
    assert denial["message"] == why


# -- what goes along and comes back -----------------------------------------------------------------------------------


def test_a_message_says_its_run_and_what_it_takes_along() -> None:
    world = run(max_tool_calls=3)
    world.tell(notes=[{"text": "nothing"}, {"text": "nothing", "budget": {"max_tool_calls": 2}}])
    [mine] = world.a.state.runs
    plain, lent = (sent.cause for _, sent in world.post)
    first, second = (record.unit_seq for record in world.a.records_of("event")[1:])
    here = {"unit": str(A), "run": mine}
    assert plain == {**here, "seq": first, "index": 0, "budget": {"tool_calls": 0}}
    assert lent == {**here, "seq": second, "index": 1, "budget": {"tool_calls": 2}, "lent": True}
    assert world.a.records_of("event")[2].body["budget"] == {"max_tool_calls": 2}
    assert "budget" not in world.a.records_of("event")[1].body


def test_a_message_of_a_run_that_is_bounded_no_more_says_its_run_alone() -> None:
    world = run(max_tool_calls=3)
    world.tell(calls=[ASKED])
    [mine] = world.a.state.runs
    world.a.put(world.a.manifest.node)
    world.a.manifest = spending_manifest()
    cause = {"unit": str(B), "seq": 1, "index": 0, "back": mine}
    world.a.event(room_order(notes=[{"text": "nothing"}]), cause=cause)
    [sent] = world.a.last.outbox
    assert sent.cause == {"unit": str(A), "seq": world.a.records_of("event")[-1].unit_seq, "index": 0, "run": mine}


def test_a_run_settles_its_use_by_a_message_to_the_run_that_lent_the_budget() -> None:
    world = run(max_tool_calls=3)
    world.tell(notes=[{"text": "call", "budget": {"max_tool_calls": 2}}])
    [lent] = world.a.state.runs[0].lent
    world.deliver()
    [mine] = world.b.state.runs
    for intent in world.b.intents:
        world.answer(B, intent)
    [settled] = world.b.records_of("settled")
    used = Used(tool_calls=2)._asdict()
    receipt = world.b.records_of("receipt")[-1]
    assert settled.body == {"run": mine, "used": used}
    assert settled.cause == receipt.unit_seq
    [(_, sent)] = world.post
    assert (sent.target, sent.schema, sent.value) == (A, "sys/BudgetSettled@1", used)
    assert sent.id == f"{B}#{settled.unit_seq}.0"
    assert sent.cause == {"unit": str(B), "seq": settled.unit_seq, "index": 0, "settles": lent}
    world.deliver()
    assert [record.kind for record in world.a.last.records] == ["event"]
    assert world.a.last.records[0].body == {"schema": "sys/BudgetSettled@1", "value": used}


def test_a_run_ends_though_an_earlier_one_goes_on() -> None:
    world = run(max_tool_calls=1)
    world.tell(calls=[ASKED])
    [first] = world.a.state.runs
    world.tell()
    assert list(world.a.state.runs) == [first]


def test_a_run_goes_on_while_a_plan_of_it_does_or_what_it_lent_is_not_back() -> None:
    world = run(max_tool_calls=3)
    world.tell(notes=[{"text": "nothing", "budget": {"max_tool_calls": 1}}])
    assert len(world.a.state.runs) == 1
    world.deliver_all()
    assert world.a.state.runs == {}
    world.tell(calls=[BUMP])
    [mine] = world.a.state.runs
    assert [instance.run for instance in world.a.state.plans.values()] == [mine]


def test_a_message_from_a_run_that_is_not_counted_begins_one_only_with_a_budget() -> None:
    for sender, counted in (({}, 0), ({"budget": {}, "run": None}, 1), ({"budget": {"tool_calls": 1}}, 1)):
        kernel = Kernel(small_manifest())
        kernel.event(
            {"$tag": "Poke", "$value": {"room": "a", "what": "ask:x"}},
            cause={"unit": str(B), "seq": 7, "index": 0, **sender},
        )
        assert len(kernel.state.runs) == counted


def test_a_run_keeps_who_called_it_who_lent_to_it_and_when_it_began() -> None:
    kernel = Kernel(small_manifest())
    sender = {"budget": {"tool_calls": 1}, "run": 4, "lent": True}
    kernel.event(
        {"$tag": "Poke", "$value": {"room": "a", "what": "ask:x"}},
        cause={"unit": str(B), "seq": 7, "index": 0, **sender},
    )
    [(run_id, mine)] = kernel.state.runs.items()
    assert (run_id, mine.id, mine.begun_ns, mine.given) == (0, 0, kernel.now_ns, {"tool_calls": 1})
    assert (mine.lender, mine.caller) == ((str(B), 7), (str(B), 4))


def test_an_answer_with_a_share_of_its_own_begins_a_run() -> None:
    world = run(max_tool_calls=3)
    world.tell(calls=[ASKED])
    [mine] = world.a.state.runs
    cause = {"unit": str(B), "seq": 1, "index": 0, "back": mine, "budget": {"tool_calls": 1}, "lent": True}
    world.a.event(room_order(calls=[BUMP]), cause=cause)
    assert len(world.a.state.runs) == 2
    assert world.a.intents[-1].run != mine


def test_an_answer_to_a_caller_of_no_counted_run_says_nothing_and_one_to_a_counted_run_says_which() -> None:
    reply = {"text": "reply"}
    for lender, back in ((Units(spending_manifest()), None), (run(max_tool_calls=3), 0)):
        lender.tell(notes=[{**reply, "budget": {"max_tool_calls": 1}}])
        lender.deliver()
        cause = next(sent.cause for _, sent in lender.post if sent.target == A and "settles" not in sent.cause)
        assert cause.get("back") == back
        assert ("back" in cause) == (back is not None)
        assert ("budget" in cause) == (back is not None)


# -- what may be lent -------------------------------------------------------------------------------------------------


def test_the_budget_of_a_unit_bounds_what_it_does_and_not_what_its_runs_lend() -> None:
    world = Units(spending_manifest(Budgets(run=Allowance(max_tool_calls=3), unit=Allowance(max_tool_calls=1))))
    world.tell(notes=[{"text": "nothing", "budget": {"max_tool_calls": 3}}])
    assert len(world.post) == 1


def test_a_share_is_held_against_the_dimensions_that_it_names() -> None:
    world = run(max_tool_calls=2, max_llm_requests=0)
    world.tell(notes=[{"text": "nothing", "budget": {"max_tool_calls": 2}}])
    assert len(world.post) == 1


@pytest.mark.parametrize("limit", [0, 2])
def test_a_run_that_would_lend_too_much_is_told_how_much_there_is(limit: int) -> None:
    world = run(max_tool_calls=limit)
    world.tell(notes=[{"text": "nothing", "budget": {"max_tool_calls": limit + 1}}])
    [step, *_] = world.a.records_of("step")
    message = f"the events take {limit + 1} along, and {limit} of {limit} tool calls are left"
    assert step.body == {"error": {"code": "budget_exceeded", "message": message}}
