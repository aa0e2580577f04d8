"""The planning section: what it puts into a prompt and into its session."""

from typing import Any

import pytest

from demiurge.prompts.planning import (
    AddStep,
    Plan,
    PlanningConfig,
    PlanningStrategy,
    PlanningToolsSection,
    SetupPlan,
)
from demiurge.prompts.planning.strategy import instructions
from demiurge.prompts.prompt import Prompt
from demiurge.prompts.template import PromptTemplate
from demiurge.sessions.session import Session
from demiurge.tools import ToolPolicy, ToolRunner


def titles(session: Session) -> list[str]:
    session.broadcast(SetupPlan("Move house", ("Pack",)))
    session.broadcast(AddStep(("Drive",)))
    plan = session[Plan].latest()
    assert plan is not None
    return [step.title for step in plan.steps]


def test_a_prompt_with_the_section_has_its_text_and_its_four_tools() -> None:
    section = PlanningToolsSection(session=Session(), strategy=PlanningStrategy.PLAN_ACT_REFLECT)
    rendered = Prompt(PromptTemplate(ns="tests", key="planning", sections=[section])).render()
    assert rendered.text.startswith("## 1. Planning Tools (planning.tools)\n")
    assert instructions(PlanningStrategy.PLAN_ACT_REFLECT).strip() in rendered.text
    assert rendered.tools == section.tools
    assert [tool.name for tool in rendered.tools] == [
        "planning_setup_plan",
        "planning_add_step",
        "planning_update_step",
        "planning_read_plan",
    ]


def test_the_planning_section_makes_its_session_fold_plans() -> None:
    session = Session()
    PlanningToolsSection(session=session)
    assert session[Plan].latest() is None
    assert titles(session) == ["Pack", "Drive"]


def test_two_sections_in_one_session_fold_once() -> None:
    session = Session()
    PlanningToolsSection(session=session)
    PlanningToolsSection(session=session)
    assert titles(session) == ["Pack", "Drive"]


def test_react_is_the_default_and_overrides_are_refused() -> None:
    section = PlanningToolsSection(session=Session())
    assert section.original_body() == instructions(PlanningStrategy.REACT).strip()
    assert not section.accepts_overrides
    assert not any(tool.accepts_overrides for tool in section.tools)


def test_a_config_says_the_same_as_the_keywords() -> None:
    config = PlanningConfig(PlanningStrategy.GOAL_DECOMPOSE_ROUTE_SYNTHESISE, accepts_overrides=True)
    for section in (
        PlanningToolsSection(session=Session(), config=config),
        PlanningToolsSection(session=Session(), strategy=config.strategy, accepts_overrides=True),
    ):
        assert section.config == config
        assert section.accepts_overrides
        assert all(tool.accepts_overrides for tool in section.tools)


def test_a_strategy_may_be_its_word() -> None:
    word: Any = "plan_act_reflect"
    assert PlanningToolsSection(session=Session(), strategy=word).config == PlanningConfig(
        PlanningStrategy.PLAN_ACT_REFLECT
    )
    with pytest.raises(ValueError, match="'slowly'"):
        PlanningConfig(strategy="slowly")  # type: ignore[arg-type]


def test_a_section_needs_a_session() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="a Session, not in NoneType"):
        PlanningToolsSection(session=nothing)


def test_a_clone_is_the_same_for_another_session() -> None:
    section = PlanningToolsSection(session=Session(), strategy=PlanningStrategy.PLAN_ACT_REFLECT)
    other = Session()
    twin = section.clone(session=other)
    assert (twin.session, twin.config) == (other, section.config)
    assert titles(other) == ["Pack", "Drive"]
    assert section.session[Plan].latest() is None


def test_a_clone_in_a_cloned_session_goes_its_own_way_from_the_same_plan() -> None:
    session = Session()
    section = PlanningToolsSection(session=session)
    session.broadcast(SetupPlan("Move house", ("Pack",)))
    copy = session.clone()
    section.clone(session=copy)
    copy.broadcast(AddStep(("Drive",)))
    ours, theirs = session[Plan].latest(), copy[Plan].latest()
    assert ours is not None
    assert theirs == ours.after(AddStep(("Drive",)))


def test_a_clone_needs_a_session() -> None:
    with pytest.raises(TypeError, match="session"):
        PlanningToolsSection(session=Session()).clone()


def test_the_tools_follow_the_session_of_the_call() -> None:
    session, other = Session(), Session()
    section = PlanningToolsSection(session=session)
    policy = ToolPolicy(tuple(tool.name for tool in section.tools))
    runner = ToolRunner(section.tools, policy=policy, session=other)
    assert runner.exec_sync("planning_setup_plan", {"objective": "Move house"}).ok
    assert session[Plan].latest() is None
    assert other[Plan].latest() == Plan("Move house", "active")
