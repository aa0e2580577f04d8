"""Taint: which untrusted tools' text a run has read. The calls of a tainted run are decided more strictly.

The receipt of a tool's call names the untrusted tools whose text is in its result, and the receipt of a model's answer
those whose text was in the request. Each taints the run that it belongs to. An event to another unit takes the taint of
its run along. So nothing is kept for a result: a result that is no longer sent to a model taints no later run.

Runs that nobody counts have no id. In a unit they share one taint, which lasts as long as any of them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from demiurge.world.kernel.step_context import StepContext
from demiurge.world.state import OpenIntent

__all__ = ["carried", "end_taints", "note_taint", "taint", "tainted_by"]


def note_taint(step: StepContext, intent: OpenIntent) -> None:
    """Taints the run of an effect with the untrusted tools that its receipt names."""
    taint(step, intent.run, step.ingress.body.get("untrusted", ()))


def taint(step: StepContext, run: int | None, tools: Collection[str]) -> None:
    """Taints a run with the text of these tools."""
    known = tainted_by(step, run)
    if not set(tools) <= set(known):
        step.state.tainted = {**step.state.tainted, run: tuple(sorted({*known, *tools}))}


def tainted_by(step: StepContext, run: int | None) -> tuple[str, ...]:
    """Returns the untrusted tools whose text a run has read, sorted; none for a run that is not tainted."""
    return step.state.tainted.get(run, ())


def carried(step: StepContext, run: int | None) -> dict[str, Any]:
    """Returns the field about taint in the cause of an event to another unit."""
    tools = tainted_by(step, run)
    return {"tainted": list(tools)} if tools else {}


def end_taints(step: StepContext) -> None:
    """Forgets the taint of runs of which nothing is open any more."""
    state = step.state
    going = {plan.run for plan in state.plans.values()} | {intent.run for intent in state.intents.values()}
    state.tainted = {run: tools for run, tools in state.tainted.items() if run in going}
