"""The planning tools as a model meets them: through the runner, in a session."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.prompts.planning import AddStep, Plan, PlanStep, SetupPlan, UpdateStep, fold_plans, planning_tools
from demiurge.prompts.planning.plan import NO_PLAN
from demiurge.sessions.session import Session
from demiurge.tools import ToolEffect, ToolErrorCode, ToolExecResult, ToolPolicy, ToolRunner
from demiurge.tools.invoked import ToolInvoked

TOOLS = planning_tools()
POLICY = ToolPolicy(tuple(tool.name for tool in TOOLS))
BY_NAME = {tool.name: tool for tool in TOOLS}


class Planner:
    """A runner and its session."""

    def __init__(self) -> None:
        self.session = Session()
        fold_plans(self.session)
        self.runner = ToolRunner(TOOLS, policy=POLICY, session=self.session)

    def call(self, name: str, **arguments: Any) -> ToolExecResult:
        return self.runner.exec_sync(f"planning_{name}", arguments)

    def refused(self, name: str, **arguments: Any) -> str:
        """What a call that fails says, to the model and to everybody; it has changed nothing."""
        before = self.plan
        result = self.call(name, **arguments)
        assert not result.ok
        assert result.safe_message is not None
        assert json.loads(result.content)["message"].replace("field all;", "field;") == result.safe_message
        assert self.plan == before
        return result.safe_message

    @property
    def told(self) -> ToolInvoked:
        """What the session heard of the last call."""
        found = self.session[ToolInvoked].latest()
        assert found is not None
        return found

    @property
    def plan(self) -> Plan | None:
        return self.session[Plan].latest()


def test_a_plan_from_its_first_step_to_its_last() -> None:
    planner = Planner()
    assert planner.call("setup_plan", objective=" Move house ", initial_steps=["Pack"]).ok
    assert planner.call("add_step", steps=["Drive"]).ok
    assert planner.call("update_step", step_id=1, status="done", note="Forty boxes.").ok
    assert planner.plan == Plan(
        "Move house", "active", (PlanStep(1, "Pack", "done", ("Forty boxes.",)), PlanStep(2, "Drive", "pending"))
    )
    assert planner.call("update_step", step_id=2, status="done").ok
    assert planner.plan is not None
    assert planner.plan.status == "completed"


def test_the_model_is_told_what_became_of_it() -> None:
    planner = Planner()
    told = [
        planner.call(name, **arguments).content
        for name, arguments in (
            ("setup_plan", {"objective": "Move house"}),
            ("read_plan", {}),
            ("add_step", {"steps": ["Pack"]}),
            ("add_step", {"steps": ["Drive", "Unpack"]}),
            ("update_step", {"step_id": 1, "status": "in_progress"}),
            ("setup_plan", {"objective": "Rest", "initial_steps": ["Sit down"]}),
            ("update_step", {"step_id": 4, "status": "done"}),
            ("read_plan", {}),
        )
    ]
    assert told == [
        "The plan is set up with no steps yet.\n\nObjective: Move house",
        "The plan has no steps yet.\n\nObjective: Move house\nStatus: active, 0 of 0 steps done",
        "Added step 1.\n\n- Pack",
        "Added 2 steps, 2 to 3.\n\n- Drive\n- Unpack",
        "Updated step 1.\n\nStep 1\n- status: in_progress",
        "The plan is set up with step 4.\n\nObjective: Rest\n- Sit down",
        "Updated step 4. All steps are done: the plan is completed.\n\nStep 4\n- status: done",
        "The plan has step 4.\n\nObjective: Rest\nStatus: completed, 1 of 1 steps done\n4. [done] Sit down",
    ]


def test_reading_gives_the_plan_and_changes_nothing() -> None:
    planner = Planner()
    planner.call("setup_plan", objective="Move house", initial_steps=["Pack"])
    before = planner.session[Plan].all()
    planner.call("read_plan")
    assert planner.told.result.value == planner.plan
    assert planner.session[Plan].all() == before


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("add_step", {"steps": ["Pack"]}), ("update_step", {"step_id": 1, "status": "done"}), ("read_plan", {})],
)
def test_a_planning_tool_without_a_plan_says_how_to_make_one(name: str, arguments: dict[str, Any]) -> None:
    planner = Planner()
    assert planner.refused(name, **arguments) == "There is no plan yet. Make one with planning_setup_plan first."
    assert planner.plan is None


def test_a_completed_plan_says_what_can_still_be_done() -> None:
    planner = Planner()
    planner.call("setup_plan", objective="Move house", initial_steps=["Pack"])
    planner.call("update_step", step_id=1, status="done")
    for name, arguments in (("add_step", {"steps": ["Drive"]}), ("update_step", {"step_id": 1, "note": "Late."})):
        assert "planning_setup_plan" in planner.refused(name, **arguments)
    assert planner.call("setup_plan", objective="Rest").ok


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("setup_plan", {"objective": "  "}, "objective is empty"),
        ("setup_plan", {"objective": "x" * 501}, "objective is longer than 500 characters"),
        ("setup_plan", {"objective": "Go", "initial_steps": ["Pack", ""]}, "initial_steps[1] is empty"),
        ("setup_plan", {}, "objective: is required"),
        ("add_step", {"steps": []}, "give at least one title"),
        ("update_step", {"step_id": 1}, "give a title, a status or a note"),
        ("update_step", {"step_id": 1, "status": "finished"}, "status: one of done, in_progress, pending"),
        ("update_step", {"step_id": 1, "note": "x" * 501}, "note is longer than 500 characters"),
        ("update_step", {"step_id": 7, "status": "done"}, "Its only step is 1."),
        ("update_step", {"step_id": "1", "status": "done"}, "step_id: must be an integer"),
        ("read_plan", {"all": True}, "unknown field"),
    ],
)
def test_a_call_that_makes_no_sense_says_why(name: str, arguments: dict[str, Any], told: str) -> None:
    planner = Planner()
    planner.call("setup_plan", objective="Move house", initial_steps=["Pack"])
    assert told in planner.refused(name, **arguments)


async def test_calls_of_one_batch_see_each_other() -> None:
    planner = Planner()
    results = await planner.runner.exec_many(
        [
            ("call_1", "planning_setup_plan", {"objective": "Move house", "initial_steps": ["Pack"]}),
            ("call_2", "planning_add_step", {"steps": ["Drive"]}),
            ("call_3", "planning_update_step", {"step_id": 2, "status": "done"}),
            ("call_4", "planning_update_step", {"step_id": 1, "status": "done"}),
            ("call_5", "planning_add_step", {"steps": ["Too late"]}),
        ]
    )
    assert [result.ok for result in results] == [True, True, True, True, False]
    assert planner.plan is not None
    assert planner.plan.status == "completed"


def test_a_call_that_its_listeners_refuse_leaves_the_plan_alone() -> None:
    planner = Planner()
    planner.call("setup_plan", objective="Move house", initial_steps=["Pack"])
    before = planner.plan

    def broken(event: ToolInvoked) -> None:
        raise OSError("the disk is full")

    planner.session.event_bus.subscribe(ToolInvoked, broken)
    assert not planner.call("update_step", step_id=1, status="done").ok
    assert not planner.call("setup_plan", objective="Rest").ok
    assert planner.plan == before
    planner.session.event_bus.unsubscribe(ToolInvoked, broken)
    assert planner.call("add_step", steps=["Drive"]).content.startswith("Added step 2.")


def test_without_a_session_there_is_no_plan_to_promise() -> None:
    runner = ToolRunner(TOOLS, policy=POLICY)
    result = runner.exec_sync("planning_setup_plan", {"objective": "Move house"})
    assert result.error_code is ToolErrorCode.UNAVAILABLE
    assert result.safe_message == "There is no session here to keep a plan in."


def test_the_texts_of_a_plan_are_private() -> None:
    planner = Planner()
    results = [
        planner.call("setup_plan", objective="secret-1", initial_steps=["secret-2"]),
        planner.call("add_step", steps=["secret-3"]),
        planner.call("update_step", step_id=1, status="done", title="secret-4", note="secret-5"),
        planner.call("read_plan"),
    ]
    assert "secret" not in repr([result.value for result in results])
    assert results[2].value == {"step_id": 1, "status": "done"}
    assert results[3].value == {
        "status": "active",
        "steps": [{"step_id": 1, "status": "done"}, {"step_id": 2, "status": "pending"}],
    }


def test_only_reading_is_read_only_and_none_reaches_outside() -> None:
    effects = {name: tool.effect for name, tool in BY_NAME.items()}
    assert effects.pop("planning_read_plan") is ToolEffect.READ_ONLY
    assert set(effects.values()) == {ToolEffect.STATE_CHANGE}


def test_the_tools_come_in_the_order_of_the_seed_with_examples_and_described_parameters() -> None:
    assert [tool.name for tool in TOOLS] == [
        "planning_setup_plan",
        "planning_add_step",
        "planning_update_step",
        "planning_read_plan",
    ]
    for tool in TOOLS:
        assert tool.examples
        assert all(node.get("description") for node in tool.spec.input_schema["properties"].values())
    status = BY_NAME["planning_update_step"].spec.input_schema["properties"]["status"]
    assert set(status["enum"]) == {"pending", "in_progress", "done"}


texts = st.sampled_from(["", "Pack", " Drive ", "x" * 501])
calls: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.one_of(
    st.tuples(
        st.just("setup_plan"), st.fixed_dictionaries({"objective": texts, "initial_steps": st.lists(texts, max_size=2)})
    ),
    st.tuples(st.just("add_step"), st.fixed_dictionaries({"steps": st.lists(texts, max_size=2)})),
    st.tuples(
        st.just("update_step"),
        st.fixed_dictionaries(
            {"step_id": st.integers(0, 6)},
            optional={"title": texts, "note": texts, "status": st.sampled_from(["pending", "in_progress", "done"])},
        ),
    ),
    st.tuples(st.just("read_plan"), st.just({})),
)


@given(st.lists(calls, max_size=12))
def test_the_stored_values_of_successful_calls_are_the_plan(made: list[tuple[str, dict[str, Any]]]) -> None:
    planner = Planner()
    for name, arguments in made:
        planner.call(name, **arguments)
    stored = []
    for event in planner.session[ToolInvoked].all():
        if event.result.success:
            bound = BY_NAME[event.name].bound
            stored.append(bound.load(bound.dump(event.result.value)))
    restarted = Session()
    fold_plans(restarted)
    for value in stored:
        restarted.broadcast(value)
    assert restarted[Plan].latest() == planner.plan


@given(st.lists(calls, max_size=12))
def test_a_call_succeeds_exactly_when_its_event_takes_effect(made: list[tuple[str, dict[str, Any]]]) -> None:
    planner = Planner()
    for name, arguments in made:
        expected = planner.plan
        if planner.call(name, **arguments).ok and name != "read_plan":
            value = planner.told.result.value
            assert isinstance(value, SetupPlan | AddStep | UpdateStep)
            expected = (expected or NO_PLAN).after(value)
        assert planner.plan == expected


def test_steps_added_in_many_threads_are_all_kept_under_numbers_of_their_own() -> None:
    planner = Planner()
    planner.call("setup_plan", objective="Move house")
    rooms = [f"Room {number}" for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        assert all(result.ok for result in threads.map(lambda room: planner.call("add_step", steps=[room]), rooms))
    assert planner.plan is not None
    assert [step.step_id for step in planner.plan.steps] == list(range(1, 41))
    assert sorted(step.title for step in planner.plan.steps) == sorted(rooms)
