"""The rules of seed 004 for prompts, sessions, planning and the executor, line by line, where no test beside this one
is about just that line. Its code is here as it is printed there, but for the import lines."""

import logging
import runpy
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import pytest

from demiurge.filesystems import InMemoryFilesystem
from demiurge.prompts import (
    MarkdownSection,
    Prompt,
    PromptEvaluationError,
    PromptTemplate,
    ToolExecutionContext,
    ToolExecutor,
)
from demiurge.prompts.planning import (
    AddStep,
    Plan,
    PlanningStrategy,
    PlanningToolsSection,
    PlanStep,
    ReadPlan,
    SetupPlan,
    UpdateStep,
)
from demiurge.prompts.planning.plan import PlanStatus, StepStatus
from demiurge.prompts.workspace import WorkspaceToolsSection
from demiurge.sessions import InProcessEventBus, Session
from demiurge.tools import (
    Deadline,
    EffectLedger,
    IdempotencyConfig,
    PromptValidationError,
    Tool,
    ToolContext,
    ToolResult,
)
from demiurge.tools.filesystem import Filesystem
from demiurge.tools.invoked import ToolInvoked
from demiurge.values.clock import FixedClock


@dataclass(frozen=True)
class Params:
    name: str


@dataclass(frozen=True)
class Result:
    name: str


@dataclass(frozen=True)
class Event:
    text: str


Handler = Callable[..., ToolResult[Result]]


def say(params: Params, *, context: ToolContext) -> ToolResult[Result]:
    return ToolResult(f"Said {params.name}.", Result(params.name))


def a_tool(name: str = "say", handler: Handler = say, **options: Any) -> Tool[Any, Any]:
    return Tool[Params, Result](name=name, description="Says it.", handler=handler, **options)


def a_prompt(*tools: Tool[Any, Any]) -> Prompt[Any]:
    section = MarkdownSection[None](title="Guidance", key="guidance", template="Use tools.", tools=tools)
    return Prompt(PromptTemplate[None](ns="tests", key="seed", sections=[section]))


class Plans:
    """The planning tools in an executor, and what it says."""

    def __init__(self) -> None:
        self.session = Session()
        section = PlanningToolsSection(session=self.session)
        prompt = Prompt(PromptTemplate[None](ns="tests", key="plans", sections=[section]))
        self.executor = ToolExecutor(prompt=prompt, session=self.session)

    def call(self, name: str, **arguments: Any) -> bool:
        self.executor.execute([("c", f"planning_{name}", arguments)])
        return self.told.result.success

    @property
    def told(self) -> ToolInvoked:
        found = self.session[ToolInvoked].latest()
        assert found is not None
        return found

    @property
    def plan(self) -> Plan:
        found = self.session[Plan].latest()
        assert found is not None
        return found


# Guiding Principles; Tool Invocation


def test_enablement_and_ordering_of_tools_align_with_the_text() -> None:
    sections = [
        MarkdownSection[None](title="One", key="one", template="1", tools=[a_tool("one")]),
        MarkdownSection[None](title="Two", key="two", template="2", tools=[a_tool("two")], enabled=lambda: False),
        MarkdownSection[None](title="Three", key="three", template="3", tools=[a_tool("three")]),
    ]
    rendered = Prompt(PromptTemplate[None](ns="tests", key="seed", sections=sections)).render()
    assert [tool.name for tool in rendered.tools] == ["one", "three"]
    assert rendered.text.index("`one`") < rendered.text.index("`three`")
    assert "`two`" not in rendered.text


def test_a_result_goes_to_the_model_and_into_the_event_the_same_way() -> None:
    session = Session()
    messages, _ = ToolExecutor(prompt=a_prompt(a_tool()), session=session).execute([("c", "say", {"name": "x"})])
    told = session[ToolInvoked].latest()
    assert told is not None
    assert messages == [{"role": "tool", "tool_call_id": "c", "content": 'Said x.\n\n{"name":"x"}'}]
    assert told.rendered_output == messages[0]["content"]
    assert told.result == ToolResult("Said x.", Result("x"))


# ToolContext, ResourceRegistry


def test_a_handler_publishes_on_the_bus_of_its_session() -> None:
    heard: list[Event] = []

    def handler(params: Params, *, context: ToolContext) -> ToolResult[Result]:
        assert context.session.event_bus.publish(Event(params.name)).ok
        return ToolResult("ok", Result(params.name))

    session = Session()
    session.event_bus.subscribe(Event, heard.append)
    ToolExecutor(prompt=a_prompt(a_tool(handler=handler)), session=session).execute([("c", "say", {"name": "x"})])
    assert heard == [Event("x")]


def test_without_a_session_a_handler_publishes_to_nobody() -> None:
    def handler(params: Params, *, context: ToolContext) -> ToolResult[Result]:
        published = context.session.event_bus.publish(Event(params.name))
        published.raise_if_errors()
        assert (published.ok, published.handled_count, published.event) == (True, 0, Event("x"))
        assert (context.session.session_id, dict(context.session.tags)) == (None, {})
        return ToolResult("ok", Result(params.name))

    messages, _ = ToolExecutor(prompt=a_prompt(a_tool(handler=handler))).execute([("c", "say", {"name": "x"})])
    assert messages[0]["content"].startswith("ok")


def test_resources_come_from_workspace_sections_and_from_the_loop() -> None:
    seen: list[ToolContext] = []

    def my_handler(params: Params, *, context: ToolContext) -> ToolResult[Result]:
        seen.append(context)
        fs = context.resources.get(Filesystem)
        if fs is None:
            return ToolResult(message="No filesystem", value=None, success=False)
        fs = context.filesystem
        return ToolResult("ok", Result(params.name))

    files, counter = InMemoryFilesystem(), [0]
    sections = [
        WorkspaceToolsSection(filesystem=files),
        MarkdownSection[None](title="Say", key="say", template="Say.", tools=[a_tool(handler=my_handler)]),
    ]
    prompt = Prompt(PromptTemplate[None](ns="tests", key="seed", sections=sections))
    ToolExecutor(prompt=prompt, resources={list: counter}).execute([("c", "say", {"name": "x"})])
    assert seen[0].filesystem is seen[0].resources.get(Filesystem) is files
    assert seen[0].resources.get(list) is counter


# Registration Lifecycle


def test_a_section_takes_a_sequence_of_tools() -> None:
    lookup_tool, search_tool = a_tool("lookup"), a_tool("search")
    section = MarkdownSection[Params](
        title="Guidance",
        template="Use tools when needed.",
        key="guidance",
        tools=[lookup_tool, search_tool],
    )
    assert section.tools == (lookup_tool, search_tool)
    assert MarkdownSection[None](title="A", key="a", template="A").tools == ()


def test_duplicate_names_are_a_prompt_validation_error_wherever_they_are() -> None:
    inner = MarkdownSection[None](title="In", key="in", template="In", tools=[a_tool()])
    outer = MarkdownSection[None](title="Out", key="out", template="Out", tools=[a_tool()], children=[inner])
    with pytest.raises(PromptValidationError) as raised:
        PromptTemplate[None](ns="tests", key="seed", sections=[outer])
    found = raised.value
    assert (found.section_path, found.dataclass_type, found.placeholder) == (("out", "in"), Params, "say")


def test_declaration_order_is_stable() -> None:
    names = ["zeta", "alpha", "mu"]
    prompt = a_prompt(*map(a_tool, names))
    assert [[tool.name for tool in prompt.render().tools] for _ in range(3)] == [names] * 3
    assert [tool.name for tool in prompt.tools] == names


# Runtime Dispatch


def an_executor_without_time(session: Session) -> ToolExecutor:
    clock = FixedClock(10**18)
    deadline = Deadline(datetime.fromtimestamp(10**9 + 60, UTC), clock=clock)
    clock.advance(timedelta(minutes=2).seconds * 10**9)
    return ToolExecutor(prompt=a_prompt(a_tool()), session=session, deadline=deadline)


@pytest.mark.parametrize(
    ("call", "code"), [(("c", "nobody", {}), "policy_denied"), (("c", "say", {"name": "x", "more": 1}), "validation")]
)
def test_lookup_and_parsing_come_before_the_deadline(call: Any, code: str) -> None:
    session = Session()
    an_executor_without_time(session).execute([call])
    assert [event.error_code for event in session[ToolInvoked].all()] == [code]


def test_the_deadline_comes_before_the_handler_and_the_event_before_the_answer() -> None:
    session = Session()
    with pytest.raises(PromptEvaluationError) as raised:
        an_executor_without_time(session).execute([("c", "say", {"name": "x"})])
    assert raised.value.phase == "tool"
    assert [event.error_code for event in session[ToolInvoked].all()] == ["deadline_exceeded"]
    assert session[Result].all() == ()


def test_an_original_exception_is_logged_and_its_text_is_not(caplog: pytest.LogCaptureFixture) -> None:
    def handler(params: Params, *, context: ToolContext) -> ToolResult[Result]:
        raise RuntimeError("the password is swordfish")

    with caplog.at_level(logging.WARNING, "demiurge"):
        messages, _ = ToolExecutor(prompt=a_prompt(a_tool(handler=handler))).execute([("c", "say", {"name": "x"})])
    assert f"RuntimeError at {__file__}" in caplog.text
    assert "swordfish" not in caplog.text + messages[0]["content"]


# Planning Tool Suite


def test_the_data_model_of_a_plan() -> None:
    assert get_args(StepStatus) == ("pending", "in_progress", "done")
    assert get_args(PlanStatus) == ("active", "completed")
    assert PlanStep(step_id=1, title="a", status="pending") == PlanStep(1, "a", "pending")
    assert Plan(objective="a", status="active") == Plan("a", "active", steps=())


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (PlanStep, ["step_id", "title", "status"]),
        (Plan, ["objective", "status", "steps"]),
        (SetupPlan, ["objective", "initial_steps"]),
        (AddStep, ["steps"]),
        (UpdateStep, ["step_id", "title", "status"]),
        (ReadPlan, []),
    ],
)
def test_planning_types_are_frozen_and_begin_with_the_seeds_fields(kind: Any, names: list[str]) -> None:
    assert kind.__dataclass_params__.frozen
    assert not hasattr(object.__new__(kind), "__dict__")
    declared = [entry.name for entry in fields(kind)]
    assert declared[: len(names)] == names
    added = {PlanStep: ["notes"], Plan: ["next_step_id"], UpdateStep: ["note"]}
    assert declared[len(names) :] == added.get(kind, [])


def test_planning_parameters_have_the_seeds_types_and_defaults() -> None:
    assert (SetupPlan("a").initial_steps, UpdateStep(1).title, UpdateStep(1).status) == ((), None, None)
    assert get_type_hints(UpdateStep)["status"] == Literal["pending", "in_progress", "done"] | None
    assert get_type_hints(AddStep)["steps"] == tuple[str, ...]


def test_setup_creates_or_replaces_and_the_others_need_a_plan() -> None:
    plans = Plans()
    assert not plans.call("add_step", steps=["a"])
    assert not plans.call("update_step", step_id=1, status="done")
    assert not plans.call("read_plan")
    assert plans.call("setup_plan", objective="One", initial_steps=["a"])
    assert plans.call("setup_plan", objective="Two")
    assert (plans.plan.objective, plans.plan.steps) == ("Two", ())


def test_step_ids_are_1_2_3_and_never_used_again() -> None:
    plans = Plans()
    plans.call("setup_plan", objective="One", initial_steps=["a", "b"])
    plans.call("add_step", steps=["c"])
    assert [step.step_id for step in plans.plan.steps] == [1, 2, 3]
    plans.call("setup_plan", objective="Two", initial_steps=["a"])
    assert [step.step_id for step in plans.plan.steps] == [4]


def test_a_plan_is_completed_when_all_steps_are_done() -> None:
    plans = Plans()
    plans.call("setup_plan", objective="One", initial_steps=["a", "b"])
    seen = []
    for step_id in (1, 2):
        plans.call("update_step", step_id=step_id, status="done")
        seen.append(plans.plan.status)
    assert seen == ["active", "completed"]


@pytest.mark.parametrize(("title", "taken"), [("", False), (" ", False), ("a" * 500, True), ("a" * 501, False)])
def test_a_title_is_not_empty_and_has_at_most_500_characters(title: str, taken: bool) -> None:
    plans = Plans()
    assert plans.call("setup_plan", objective="One", initial_steps=[title]) is taken
    plans.call("setup_plan", objective="Two", initial_steps=["a"])
    first = plans.plan.steps[0].step_id
    assert plans.call("add_step", steps=[title]) is taken
    assert plans.call("update_step", step_id=first, title=title) is taken


def test_the_session_integration_of_the_seed() -> None:
    bus = InProcessEventBus()
    session = Session(bus=bus)
    section = PlanningToolsSection(session=session, accepts_overrides=False)
    prompt = Prompt(PromptTemplate[None](ns="tests", key="plans", sections=[section]))
    setup = {"objective": "Move house", "initial_steps": ["Pack"]}
    ToolExecutor(prompt=prompt, session=session).execute([("c", "planning_setup_plan", setup)])
    plan = session[Plan].latest()
    assert plan == Plan("Move house", "active", (PlanStep(1, "Pack", "pending"),))
    assert not section.accepts_overrides


def test_a_section_registers_reducers_for_the_plan_and_its_three_events() -> None:
    session, other = Session(), Session()
    PlanningToolsSection(session=session)
    PlanningToolsSection(session=other)
    for event in (SetupPlan("Move house", ("Pack",)), AddStep(("Drive",)), UpdateStep(1, status="done")):
        session.broadcast(event)
    plan = session[Plan].latest()
    assert plan is not None
    assert [(step.title, step.status) for step in plan.steps] == [("Pack", "done"), ("Drive", "pending")]
    assert not session[SetupPlan].all() + session[AddStep].all() + session[UpdateStep].all()
    other.broadcast(plan)
    assert other[Plan].latest() == plan


def test_reading_returns_the_plan() -> None:
    plans = Plans()
    plans.call("setup_plan", objective="One", initial_steps=["a"])
    assert plans.call("read_plan")
    assert plans.told.params == ReadPlan()
    assert plans.told.result.value == plans.plan


# Planning Strategies


def test_the_strategies_are_an_enum_of_the_seeds_words() -> None:
    assert issubclass(PlanningStrategy, Enum)
    assert {strategy.name: strategy.value for strategy in PlanningStrategy} == {
        "REACT": "react",
        "PLAN_ACT_REFLECT": "plan_act_reflect",
        "GOAL_DECOMPOSE_ROUTE_SYNTHESISE": "goal_decompose_route_synthesise",
    }


def test_a_section_is_made_with_a_strategy() -> None:
    session = Session()
    section = PlanningToolsSection(
        session=session,
        strategy=PlanningStrategy.PLAN_ACT_REFLECT,
    )
    assert section.config.strategy is PlanningStrategy.PLAN_ACT_REFLECT
    assert PlanningToolsSection(session=session).config.strategy is PlanningStrategy.REACT


# Example Registration


def test_the_registration_example_of_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    """It is a page of the docs; here is what it makes."""
    made = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "examples" / "prompts.py"))
    prompt, lookup_tool = made["prompt"], made["lookup_tool"]
    assert prompt.render().tools == (lookup_tool,)
    assert lookup_tool.spec.input_schema["properties"]["entity_id"]["description"] == "ID to fetch"
    messages, _ = ToolExecutor(prompt=prompt).execute([("c", "lookup_entity", {"entity_id": "abc-123"})])
    assert messages[0]["content"].startswith("Fetched abc-123\n\n")
    assert messages[0]["content"] in capsys.readouterr().out


# Failure Semantics; Session and Telemetry


def test_a_failure_may_have_a_payload_that_no_slice_gets() -> None:
    def handler(params: Params, *, context: ToolContext) -> ToolResult[Result]:
        return ToolResult("Sold out.", Result("x"), success=False)

    session = Session()
    executor = ToolExecutor(prompt=a_prompt(a_tool(handler=handler)), session=session)
    messages, _ = executor.execute([("c", "say", {"name": "x"})])
    told = session[ToolInvoked].latest()
    assert told is not None
    assert told.result == ToolResult("Sold out.", Result("x"), success=False)
    assert session[Result].all() == ()
    assert messages[0]["content"].startswith('{"ok":false,"error_code":"execution","message":"Sold out."')


def test_a_result_without_a_value_reaches_no_reducer() -> None:
    def handler(params: Params, *, context: ToolContext) -> ToolResult[Result | None]:
        return ToolResult("Done.", None)

    session = Session()
    tool = Tool[Params, Result | None](name="say", description="Says it, or nothing.", handler=handler)
    session[Event].register(Result, lambda values, event, *, context: (*values, Event(event.name)))
    ToolExecutor(prompt=a_prompt(tool), session=session).execute([("c", "say", {"name": "x"})])
    assert [event.result.success for event in session[ToolInvoked].all()] == [True]
    assert (session[Event].all(), session[Result].all()) == ((), ())


# Idempotency Ledger: Integration with Tool Execution


def test_an_executor_and_a_context_take_the_ledger_that_calls_are_answered_from() -> None:
    ran: list[str] = []

    def handler(params: Params, *, context: ToolContext) -> ToolResult[Result]:
        ran.append(params.name)
        return ToolResult("Done.", Result(params.name))

    ledger, session = EffectLedger(), Session()
    prompt = a_prompt(a_tool(handler=handler, idempotency=IdempotencyConfig()))
    executor = ToolExecutor(prompt=prompt, session=session, effect_ledger=ledger)
    first, _ = executor.execute([("c1", "say", {"name": "x"})])
    again, _ = executor.execute([("c2", "say", {"name": "x"})])
    assert (first[0]["content"], ran) == (again[0]["content"], ["x"])
    assert [event.replayed for event in session[ToolInvoked].all()] == [False, True]
    assert session[Result].all() == (Result("x"), Result("x"))

    context = ToolExecutionContext(prompt=prompt, session=session, effect_ledger=ledger)
    assert context.runner.exec_sync("say", {"name": "x"}, ctx=context.tool_context).content == first[0]["content"]
    assert ran == ["x"]
    executor.execute([("c3", "say", {"name": "x", "more": 1})])
    assert session[ToolInvoked].all()[-1].error_code == "validation"
