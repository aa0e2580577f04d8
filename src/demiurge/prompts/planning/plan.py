"""A session plan and the events that make it: a pure fold, so a plan can be computed again from its events.

One function, `Plan.after`, applies an event to a plan or says why it cannot. A tool calls it before it answers, the
fold calls it afterwards. So a tool never promises what the fold then ignores, and the fold never raises: it ignores
an event that cannot be applied, also when the event is read back later.

The fold assigns ids, not the events, in one sequence for as long as the session keeps its plan. A new plan continues
the sequence of the last one, because the conversation may still mention step 3 of the old plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, TypeAlias

from demiurge.sessions.reducers import SessionReducer, reducer, reducers_of
from demiurge.sessions.session import Session
from demiurge.tools.errors import SAFE_MESSAGES, ToolErrorCode, ToolUserError, ToolValidationError

__all__ = [
    "MAX_TEXT",
    "NO_PLAN",
    "AddStep",
    "Plan",
    "PlanEvent",
    "PlanStatus",
    "PlanStep",
    "ReadPlan",
    "SetupPlan",
    "StepStatus",
    "UpdateStep",
    "fold_plans",
]

StepStatus = Literal["pending", "in_progress", "done"]
PlanStatus = Literal["active", "completed"]

MAX_TEXT = 500
"""The maximum length of an objective, a title or a note, in characters without outer white space."""

_MAX_FAULTS = 8


@dataclass(frozen=True, slots=True)
class SetupPlan:
    """Begins a plan, in place of the one before it."""

    objective: str = field(metadata={"description": "What is to be reached, in one sentence."})
    initial_steps: tuple[str, ...] = field(
        default=(), metadata={"description": "Titles of the first steps, in the order of work. May be left out."}
    )

    def checked(self) -> SetupPlan:
        """Returns the event with every text stripped. Raises ToolValidationError for a text that is empty or longer
        than `MAX_TEXT`."""
        _require([("objective", self.objective), *_numbered("initial_steps", self.initial_steps)])
        return SetupPlan(self.objective.strip(), _stripped(self.initial_steps))

    def render(self) -> str:
        return "\n".join([f"Objective: {_line(self.objective)}", *_listed(self.initial_steps)])


@dataclass(frozen=True, slots=True)
class AddStep:
    """Adds steps at the end of the plan."""

    steps: tuple[str, ...] = field(metadata={"description": "Titles of the new steps, in order; at least one."})

    def checked(self) -> AddStep:
        """Does the same as `SetupPlan.checked`; there has to be at least one step."""
        if not self.steps:
            raise _validation_error("steps is empty; give at least one title")
        _require(_numbered("steps", self.steps))
        return AddStep(_stripped(self.steps))

    def render(self) -> str:
        return "\n".join(_listed(self.steps))


@dataclass(frozen=True, slots=True)
class UpdateStep:
    """Changes a step; fields that are None stay unchanged."""

    step_id: int = field(metadata={"description": "Number of the step, as the plan shows it."})
    title: str | None = field(default=None, metadata={"description": "New title. Leave out to keep it."})
    status: StepStatus | None = field(default=None, metadata={"description": "New status. Leave out to keep it."})
    note: str | None = field(
        default=None, metadata={"description": "An observation or reflection to add to the step's notes."}
    )

    def checked(self) -> UpdateStep:
        """Does the same as `SetupPlan.checked`; at least one field has to change."""
        given = [(name, text) for name, text in (("title", self.title), ("note", self.note)) if text is not None]
        if not given and self.status is None:
            raise _validation_error("nothing to update; give a title, a status or a note")
        _require(given)
        texts = {name: text.strip() for name, text in given}
        return UpdateStep(self.step_id, texts.get("title"), self.status, texts.get("note"))

    def render(self) -> str:
        changes = (("title", self.title), ("status", self.status), ("note", self.note))
        given = (f"{name}: {value}" for name, value in changes if value is not None)
        return "\n".join([f"Step {self.step_id}", *_listed(given)])


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Asks for the plan; it has no arguments."""

    def render(self) -> str:
        return ""


PlanEvent: TypeAlias = SetupPlan | AddStep | UpdateStep


@dataclass(frozen=True, slots=True)
class PlanStep:
    """`step_id` is 1 or more, and is never used for another step. `notes`: oldest first."""

    step_id: int
    title: str
    status: StepStatus
    notes: tuple[str, ...] = ()

    def render(self) -> str:
        lines = [f"{self.step_id}. [{self.status}] {_line(self.title)}"]
        return "\n".join([*lines, *(f"   - {_line(note)}" for note in self.notes)])


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps` in the order of work. `status` is `completed` as soon as all steps are done.

    A completed plan is closed: it can only be read and replaced. `next_step_id`, the id of the next new step, is
    kept when a plan is replaced; it is always above the ids in `steps`, whatever value is passed."""

    objective: str
    status: PlanStatus
    steps: tuple[PlanStep, ...] = ()
    next_step_id: int = 1

    def __post_init__(self) -> None:
        highest = max((step.step_id for step in self.steps), default=0) + 1
        object.__setattr__(self, "next_step_id", max(self.next_step_id, highest))

    def after(self, event: PlanEvent) -> Plan:
        """Returns this plan with the event applied.

        Raises ToolValidationError for an invalid event, ToolUserError for one that does not fit the plan's present
        state; both tell the model what to do."""
        match event.checked():
            case SetupPlan() as setup:
                empty = Plan(setup.objective, "active", next_step_id=self.next_step_id)
                return empty._with_steps(setup.initial_steps)
            case AddStep() as added:
                self._require_active()
                return self._with_steps(added.steps)
            case UpdateStep() as update:
                self._require_active()
                return self._updated(update)

    def require(self) -> None:
        """Raises ToolUserError if this is `NO_PLAN`, or another plan without an objective."""
        if not self.objective:
            raise ToolUserError("There is no plan yet. Make one with planning_setup_plan first.")

    @reducer(on=SetupPlan)
    def on_setup(self, event: SetupPlan) -> Plan:
        return self._folded(event)

    @reducer(on=AddStep)
    def on_add(self, event: AddStep) -> Plan:
        return self._folded(event)

    @reducer(on=UpdateStep)
    def on_update(self, event: UpdateStep) -> Plan:
        return self._folded(event)

    @classmethod
    def fold_into(cls, session: Session) -> None:
        """Does the same as `fold_plans`; a world calls it."""
        fold_plans(session)

    def render(self) -> str:
        done = sum(step.status == "done" for step in self.steps)
        head = [f"Objective: {_line(self.objective)}", f"Status: {self.status}, {done} of {len(self.steps)} steps done"]
        return "\n".join([*head, *(step.render() for step in self.steps)])

    def _folded(self, event: PlanEvent) -> Plan:
        try:
            return self.after(event)
        except (ToolUserError, ToolValidationError):
            return self

    def _require_active(self) -> None:
        self.require()
        if self.status != "active":
            raise ToolUserError(
                "The plan is completed and can't change any more. If there is more to do, "
                "make a new plan with planning_setup_plan."
            )

    def _with_steps(self, titles: Iterable[str]) -> Plan:
        new = tuple(PlanStep(number, title, "pending") for number, title in enumerate(titles, self.next_step_id))
        return replace(self, steps=self.steps + new)

    def _updated(self, update: UpdateStep) -> Plan:
        if all(step.step_id != update.step_id for step in self.steps):
            raise ToolUserError(f"The plan has no step with this step_id. {self._ids()}")
        steps = tuple(_changed(step, update) if step.step_id == update.step_id else step for step in self.steps)
        finished = all(step.status == "done" for step in steps)
        return replace(self, steps=steps, status="completed" if finished else "active")

    def _ids(self) -> str:
        if not self.steps:
            return "It has no steps yet: add them with planning_add_step."
        first, last = self.steps[0].step_id, self.steps[-1].step_id
        return f"Its only step is {first}." if first == last else f"Its steps are {first} to {last}."


NO_PLAN = Plan("", "completed")
"""The plan before the first event, and after a first event that was refused."""


def fold_plans(session: Session) -> None:
    """Makes `session[Plan].latest()` the plan of the session's planning events from now on, None before the first
    event.

    A Plan is an event too: the value of `planning_read_plan`. It may be older than the session's plan when the
    session gets it, so it is used only if there is no plan yet. To set a plan by hand, call
    `session[Plan].seed(plan)`. A second call of this function does nothing."""
    for event_type, fold in _REDUCERS.items():
        session[Plan].register(event_type, fold)


def _keep_known_plan(plans: tuple[Plan, ...], read: Plan, *, context: object) -> tuple[Plan, ...]:
    return plans if plans and plans[-1].objective else (read,)


_REDUCERS: Mapping[type[object], SessionReducer] = MappingProxyType(
    {**reducers_of(Plan, NO_PLAN), Plan: _keep_known_plan}
)
"""Made once, because a session compares reducers by identity, and a section may be cloned into a session that was
cloned."""


def _changed(step: PlanStep, update: UpdateStep) -> PlanStep:
    return PlanStep(
        step.step_id,
        step.title if update.title is None else update.title,
        step.status if update.status is None else update.status,
        step.notes if update.note is None else (*step.notes, update.note),
    )


def _require(texts: Iterable[tuple[str, str]]) -> None:
    faults = [f"{name} {fault}" for name, text in texts if (fault := _fault(text))]
    if faults:
        raise _validation_error(*faults[:_MAX_FAULTS])


def _fault(text: str) -> str:
    length = len(text.strip())
    if length == 0:
        return "is empty"
    return f"is longer than {MAX_TEXT} characters" if length > MAX_TEXT else ""


def _validation_error(*faults: str) -> ToolValidationError:
    return ToolValidationError(SAFE_MESSAGES[ToolErrorCode.VALIDATION], fields=faults)


def _numbered(name: str, texts: Iterable[str]) -> list[tuple[str, str]]:
    return [(f"{name}[{index}]", text) for index, text in enumerate(texts)]


def _stripped(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(text.strip() for text in texts)


def _listed(lines: Iterable[str]) -> list[str]:
    return [f"- {_line(line)}" for line in lines]


def _line(text: str) -> str:
    """Returns the text on one line, so that nothing in a title looks like another step."""
    return " ".join(text.split())
