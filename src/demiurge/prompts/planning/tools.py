"""The four planning tools. They change nothing but the session in which they are called.

A tool does not even change the session itself. It checks its event against the plan of `context.session` and returns
the event as its value; the session folds the event when it hears of the call. So a failed call has changed no plan,
and the plan can be folded from the stored values of the successful calls.

The texts of a plan come from a conversation, so they are private; numbers and statuses are public.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from demiurge.prompts.planning.plan import (
    NO_PLAN,
    AddStep,
    Plan,
    PlanStep,
    ReadPlan,
    SetupPlan,
    UpdateStep,
    fold_plans,
)
from demiurge.tools.authoring.tool import Tool, ToolExample
from demiurge.tools.context import NullSession, ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.redaction import Redaction
from demiurge.tools.result import ToolResult

__all__ = ["planning_tools"]

ParamsT = TypeVar("ParamsT")
ResultT = TypeVar("ResultT")


def planning_tools(*, accepts_overrides: bool = False) -> tuple[Tool[Any, Any], ...]:
    """Returns `planning_setup_plan`, `planning_add_step`, `planning_update_step`, `planning_read_plan`.

    They work in the session of their call, and fail with `unavailable` if there is none."""
    return (
        _setup_tool(accepts_overrides),
        _add_tool(accepts_overrides),
        _update_tool(accepts_overrides),
        _read_tool(accepts_overrides),
    )


def _setup(params: SetupPlan, *, context: ToolContext) -> ToolResult[SetupPlan]:
    event, after = params.checked(), _plan(context).after(params)
    return ToolResult(f"The plan is set up with {_named(after.steps) or 'no steps yet'}.", event)


def _add(params: AddStep, *, context: ToolContext) -> ToolResult[AddStep]:
    event, after = params.checked(), _plan(context).after(params)
    return ToolResult(f"Added {_named(after.steps[-len(event.steps) :])}.", event)


def _update(params: UpdateStep, *, context: ToolContext) -> ToolResult[UpdateStep]:
    event, after = params.checked(), _plan(context).after(params)
    completed = " All steps are done: the plan is completed." if after.status == "completed" else ""
    return ToolResult(f"Updated step {event.step_id}.{completed}", event)


def _read(params: ReadPlan, *, context: ToolContext) -> ToolResult[Plan]:
    plan = _plan(context)
    plan.require()
    return ToolResult(f"The plan has {_named(plan.steps) or 'no steps yet'}.", plan)


def _plan(context: ToolContext) -> Plan:
    if isinstance(context.session, NullSession):
        raise ToolFailure(ToolErrorCode.UNAVAILABLE, safe_message="There is no session here to keep a plan in.")
    fold_plans(context.session)  # an unprepared session would keep the events and no plan
    plan: Plan | None = context.session[Plan].latest()
    return plan or NO_PLAN


def _named(steps: Sequence[PlanStep]) -> str:
    """Returns `step 3`, or `4 steps, 3 to 6`; "" for no steps."""
    if len(steps) < 2:
        return f"step {steps[0].step_id}" if steps else ""
    return f"{len(steps)} steps, {steps[0].step_id} to {steps[-1].step_id}"


class _PlanningTool(Tool[ParamsT, ResultT], Generic[ParamsT, ResultT]):
    """A tool whose only effect is its value, which a world has as soon as it has the receipt; so a world may repeat
    a call that was interrupted."""

    works_through_capabilities: ClassVar[bool] = True


_SETUP = SetupPlan("Find out why the nightly export is late", ("Read the log of the last run", "Time each stage"))


def _setup_tool(accepts_overrides: bool) -> Tool[SetupPlan, SetupPlan]:
    return _PlanningTool[SetupPlan, SetupPlan](
        name="planning_setup_plan",
        description="Begin a plan with an objective and its first steps. Replaces the plan that is there.",
        handler=_setup,
        examples=(ToolExample("A plan whose first steps are known.", _SETUP, _SETUP),),
        accepts_overrides=accepts_overrides,
        effect=ToolEffect.STATE_CHANGE,
        inline=True,
    )


def _add_tool(accepts_overrides: bool) -> Tool[AddStep, AddStep]:
    added = AddStep(("Compare the slowest stage with last week's",))
    return _PlanningTool[AddStep, AddStep](
        name="planning_add_step",
        description="Add one step or several at the end of the active plan.",
        handler=_add,
        examples=(ToolExample("A step that was not foreseen.", added, added),),
        accepts_overrides=accepts_overrides,
        effect=ToolEffect.STATE_CHANGE,
        inline=True,
    )


def _update_tool(accepts_overrides: bool) -> Tool[UpdateStep, UpdateStep]:
    begun = UpdateStep(2, status="in_progress")
    done = UpdateStep(1, status="done", note="The upload took 40 of 45 minutes.")
    return _PlanningTool[UpdateStep, UpdateStep](
        name="planning_update_step",
        description="Change the title or the status of a step of the active plan, or add a note to it.",
        handler=_update,
        examples=(
            ToolExample("A step is begun.", begun, begun),
            ToolExample("A step is finished, with what was learnt.", done, done),
        ),
        accepts_overrides=accepts_overrides,
        effect=ToolEffect.STATE_CHANGE,
        redaction=Redaction.allow("step_id", "status"),
        inline=True,
    )


def _read_tool(accepts_overrides: bool) -> Tool[ReadPlan, Plan]:
    return _PlanningTool[ReadPlan, Plan](
        name="planning_read_plan",
        description="Show the current plan: its objective, its steps with their status, and their notes.",
        handler=_read,
        examples=(ToolExample("The plan as it is.", ReadPlan(), NO_PLAN.after(_SETUP)),),
        accepts_overrides=accepts_overrides,
        effect=ToolEffect.READ_ONLY,
        redaction=Redaction.paths("status", "steps.step_id", "steps.status"),
        inline=True,
    )
