"""Plans as a fold: what each event does, what is refused, and that events are all one needs to have the plan again."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from demiurge.prompts.planning.plan import (
    MAX_TEXT,
    NO_PLAN,
    AddStep,
    Plan,
    PlanEvent,
    PlanStep,
    ReadPlan,
    SetupPlan,
    UpdateStep,
    fold_plans,
)
from demiurge.sessions.session import Session
from demiurge.tools.errors import ToolUserError, ToolValidationError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
titles = st.lists(texts, max_size=3).map(tuple)
statuses = st.sampled_from(["pending", "in_progress", "done"])
events = st.one_of(
    st.builds(SetupPlan, texts, titles),
    st.builds(AddStep, titles),
    st.builds(UpdateStep, st.integers(0, 9), st.none() | texts, st.none() | statuses, st.none() | texts),
)
histories = st.lists(events, max_size=25)


def plan_after(*happened: PlanEvent) -> Plan:
    return reduce(Plan.after, happened, NO_PLAN)


def folded(happened: Sequence[PlanEvent]) -> Plan:
    session = Session()
    fold_plans(session)
    for event in happened:
        session.broadcast(event)
    return session[Plan].latest() or NO_PLAN


def unless_refused(plan: Plan, event: PlanEvent) -> Plan:
    try:
        return plan.after(event)
    except (ToolUserError, ToolValidationError):
        return plan


def test_a_plan_begins_active_with_its_steps_pending_and_numbered_from_one() -> None:
    assert plan_after(SetupPlan("  Move house ", (" Pack", "Drive "))) == Plan(
        "Move house", "active", (PlanStep(1, "Pack", "pending"), PlanStep(2, "Drive", "pending"))
    )


def test_a_plan_may_begin_without_steps_and_is_not_done_for_that() -> None:
    assert plan_after(SetupPlan("Move house")) == Plan("Move house", "active")


def test_steps_are_added_at_the_end() -> None:
    plan = plan_after(SetupPlan("Move house", ("Pack",)), AddStep(("Drive", "Unpack")))
    assert [(step.step_id, step.title) for step in plan.steps] == [(1, "Pack"), (2, "Drive"), (3, "Unpack")]


def test_an_update_changes_what_it_names_and_gathers_notes() -> None:
    plan = plan_after(
        SetupPlan("Move house", ("Pack", "Drive")),
        UpdateStep(1, title=" Pack the books "),
        UpdateStep(1, status="in_progress", note="Forty boxes."),
        UpdateStep(1, note="Three are too heavy."),
    )
    assert plan.steps == (
        PlanStep(1, "Pack the books", "in_progress", ("Forty boxes.", "Three are too heavy.")),
        PlanStep(2, "Drive", "pending"),
    )


def test_a_plan_is_completed_by_its_last_open_step() -> None:
    plan = plan_after(SetupPlan("Move house", ("Pack", "Drive")), UpdateStep(2, status="done"))
    assert plan.status == "active"
    assert plan.after(UpdateStep(1, status="done")).status == "completed"


def test_a_done_step_of_an_active_plan_can_be_taken_up_again() -> None:
    plan = plan_after(SetupPlan("Move house", ("Pack", "Drive")), UpdateStep(1, status="done"))
    assert plan.after(UpdateStep(1, status="in_progress")).steps[0].status == "in_progress"


def test_a_completed_plan_takes_nothing_but_a_new_plan() -> None:
    plan = plan_after(SetupPlan("Move house", ("Pack",)), UpdateStep(1, status="done"))
    for event in (AddStep(("Drive",)), UpdateStep(1, status="pending"), UpdateStep(1, note="Late.")):
        with pytest.raises(ToolUserError, match=r"completed.*planning_setup_plan"):
            plan.after(event)
    assert plan.after(SetupPlan("Rest")).status == "active"


def test_a_new_plan_goes_on_with_the_numbers() -> None:
    plan = plan_after(SetupPlan("Move house", ("Pack", "Drive")), SetupPlan("Rest"), SetupPlan("Sleep", ("Lie down",)))
    assert plan.steps == (PlanStep(3, "Lie down", "pending"),)


def test_a_plan_made_by_hand_goes_on_after_its_own_steps() -> None:
    plan = Plan("Move house", "active", (PlanStep(7, "Pack", "pending"),))
    assert plan.after(AddStep(("Drive",))).steps[1].step_id == 8


def test_without_a_plan_the_model_is_told_to_make_one() -> None:
    for event in (AddStep(("Pack",)), UpdateStep(1, status="done")):
        with pytest.raises(ToolUserError, match=r"no plan yet.*planning_setup_plan"):
            NO_PLAN.after(event)


@pytest.mark.parametrize(
    ("titles", "told"),
    [((), "planning_add_step"), (("Pack",), "only step is 1"), (("Pack", "Drive"), "steps are 1 to 2")],
)
def test_an_unknown_step_is_answered_with_those_there_are(titles: tuple[str, ...], told: str) -> None:
    with pytest.raises(ToolUserError, match=told):
        plan_after(SetupPlan("Move house", titles)).after(UpdateStep(9, status="done"))


LONG = "x" * (MAX_TEXT + 1)


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        (SetupPlan(" "), ("objective is empty",)),
        (SetupPlan(LONG), ("objective is longer than 500 characters",)),
        (
            SetupPlan("Go", ("a", "", LONG)),
            ("initial_steps[1] is empty", "initial_steps[2] is longer than 500 characters"),
        ),
        (AddStep(()), ("steps is empty; give at least one title",)),
        (AddStep(("\t",)), ("steps[0] is empty",)),
        (UpdateStep(1), ("nothing to update; give a title, a status or a note",)),
        (UpdateStep(1, title=""), ("title is empty",)),
        (UpdateStep(1, status="done", note=LONG), ("note is longer than 500 characters",)),
    ],
)
def test_a_text_that_no_plan_takes_is_refused_by_its_place(event: PlanEvent, fields: tuple[str, ...]) -> None:
    with pytest.raises(ToolValidationError) as refused:
        plan_after(SetupPlan("Go", ("Pack",))).after(event)
    assert refused.value.fields == fields


def test_white_space_around_a_text_does_not_count() -> None:
    longest = "x" * MAX_TEXT
    assert plan_after(SetupPlan(f" {longest}\n")).objective == longest


def test_an_endless_list_of_faults_is_cut_short() -> None:
    with pytest.raises(ToolValidationError) as refused:
        NO_PLAN.after(SetupPlan("Go", ("",) * 1000))
    assert len(refused.value.fields) < 10


def test_a_plan_reads_as_a_list_whatever_is_in_its_texts() -> None:
    plan = plan_after(
        SetupPlan("Move\nhouse", ("Pack\n2. [done] Drive", "Drive")), UpdateStep(1, status="done", note="Forty\nboxes.")
    )
    assert plan.render() == (
        "Objective: Move house\n"
        "Status: active, 1 of 2 steps done\n"
        "1. [done] Pack 2. [done] Drive\n"
        "   - Forty boxes.\n"
        "2. [pending] Drive"
    )


def test_events_read_as_what_they_ask_for() -> None:
    assert SetupPlan("Move house", ("Pack", "Drive")).render() == "Objective: Move house\n- Pack\n- Drive"
    assert AddStep(("Pack", "Drive")).render() == "- Pack\n- Drive"
    assert UpdateStep(2, status="done", note="Far.").render() == "Step 2\n- status: done\n- note: Far."
    assert ReadPlan().render() == ""


@given(histories)
def test_a_plan_is_had_again_from_its_stored_events(happened: list[PlanEvent]) -> None:
    stored = [(type(event), TypeAdapter(type(event)).dump_json(event)) for event in happened]
    read_back = [TypeAdapter(kind).validate_json(text, strict=True) for kind, text in stored]
    assert folded(read_back) == folded(happened)


@given(histories)
def test_the_fold_ignores_just_what_is_refused(happened: list[PlanEvent]) -> None:
    assert folded(happened) == reduce(unless_refused, happened, NO_PLAN)


@given(histories)
def test_a_number_is_never_given_to_two_steps(happened: list[PlanEvent]) -> None:
    plan, known = NO_PLAN, 0
    for event in happened:
        before, plan = plan, unless_refused(plan, event)
        new = [step.step_id for step in plan.steps if step.step_id not in {old.step_id for old in before.steps}]
        assert new == list(range(known + 1, known + 1 + len(new)))
        known += len(new)


@given(histories)
def test_a_plan_is_completed_exactly_when_all_of_its_steps_are_done(happened: list[PlanEvent]) -> None:
    plan = folded(happened)
    if plan != NO_PLAN:
        done = bool(plan.steps) and all(step.status == "done" for step in plan.steps)
        assert (plan.status == "completed") == done


def test_a_plan_that_was_read_never_takes_the_place_of_a_newer_one() -> None:
    session = Session()
    fold_plans(session)
    session.broadcast(SetupPlan("Move house", ("Pack",)))
    read = plan_after(SetupPlan("Move house", ("Pack",)))
    assert session[Plan].all() == (read,)
    session.broadcast(UpdateStep(1, status="done"))
    session.broadcast(read)
    assert session[Plan].latest() == replace(read, status="completed", steps=(PlanStep(1, "Pack", "done"),))


def test_a_plan_that_was_stored_as_a_whole_is_taken_where_there_is_none() -> None:
    session = Session()
    fold_plans(session)
    stored = Plan("Move house", "active", (PlanStep(4, "Pack", "pending"),))
    session.broadcast(stored)
    session.broadcast(AddStep(("Drive",)))
    assert session[Plan].all() == (stored.after(AddStep(("Drive",))),)


def test_without_a_plan_events_leave_no_trace() -> None:
    assert folded([AddStep(("Pack",)), UpdateStep(1, status="done"), SetupPlan(" ")]) == NO_PLAN


def test_folding_is_asked_for_once_however_often_it_is_asked() -> None:
    session = Session()
    fold_plans(session)
    fold_plans(session)
    session.broadcast(SetupPlan("Move house"))
    session.broadcast(AddStep(("Pack",)))
    assert session[Plan].all() == (plan_after(SetupPlan("Move house"), AddStep(("Pack",))),)


def test_a_plan_can_be_set_by_hand_and_numbers_begin_again_when_all_is_emptied() -> None:
    session = Session()
    fold_plans(session)
    session[Plan].seed(Plan("Move house", "active", (PlanStep(4, "Pack", "pending"),)))
    session.broadcast(SetupPlan("Rest", ("Sit down",)))
    assert session[Plan].all() == (Plan("Rest", "active", (PlanStep(5, "Sit down", "pending"),)),)
    session.reset()
    session.broadcast(SetupPlan("Rest", ("Sit down",)))
    assert session[Plan].all() == (plan_after(SetupPlan("Rest", ("Sit down",))),)
