"""What is left of a run, as a tool finds it in its context, and what it says that it used of that itself.

The kernel keeps the budget (`demiurge.world.budget`). A handler that asks a model of its own reports what that took to
the tracker in its context; the receipt says it, and from there it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demiurge.tools.limits.budget import Budget, BudgetTracker, TokenUsage
from demiurge.tools.limits.deadline import Deadline
from demiurge.values.clock import Clock
from demiurge.world.effect import EffectCall

__all__ = ["ToolLimits"]

_NOTHING_LEFT = "nothing was left"


class ToolLimits:
    """`resources` are for the runner: a Deadline when the run has one, a BudgetTracker when tokens or money are
    bounded."""

    def __init__(self, call: EffectCall, clock: Clock) -> None:
        self._call = call
        self._tokens, self._cost = self._left("total_tokens"), self._left("cost_micros")
        self._tracker = self._made()
        ends_ns = call.intent.deadline_ns if call.restart != "reconcile" else None  # to find out is never too late
        deadline = Deadline.handed_on(ends_ns, clock=clock) if ends_ns is not None else None
        self.resources: Mapping[Any, Any] = {Deadline: deadline, BudgetTracker: self._tracker}

    def used(self) -> dict[str, Any]:
        """The receipt's part, empty when there is nothing to say, or no place for it under the call's manifest."""
        tracker = self._tracker
        receipt = self._call.manifest.schemas.get(self._call.manifest.effects[self._call.intent.kind].receipt)
        if tracker is None or "usage" not in receipt["record"]:
            return {}
        tokens = tracker.consumed.total_tokens - int(self._tokens == 0)
        cost = tracker.cost_micros - int(self._cost == 0)
        return {"usage": {"total_tokens": tokens, "cost_micros": cost}} if tokens > 0 or cost > 0 else {}

    def _left(self, dimension: str) -> int | None:
        limits = (self._call.intent.left or {}).values()
        return min((part[dimension] for part in limits if dimension in part), default=None)

    def _made(self) -> BudgetTracker | None:
        """A budget is of at least 1: where nothing is left, that 1 is used up."""
        if self._tokens is None and self._cost is None:
            return None
        most = [None if left is None else max(1, left) for left in (self._tokens, self._cost)]
        tracker = BudgetTracker(Budget(max_total_tokens=most[0], max_cost_micros=most[1]))
        if 0 in (self._tokens, self._cost):
            gone = TokenUsage(input_tokens=int(self._tokens == 0))
            tracker.record_cumulative(_NOTHING_LEFT, gone, int(self._cost == 0))
        return tracker
