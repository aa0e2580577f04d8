"""`ToolLimits`: the rest of a run's budget, as a tool finds it in its context, and the use that the tool reports.

The kernel keeps the budget (`demiurge.world.budget`). A handler that calls a model itself reports the use to the
tracker in its context; the receipt carries it, and from then on it counts.
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
    """The limits of one tool call. `resources` are for the runner: a Deadline if the run has one, a BudgetTracker if
    tokens or money are bounded."""

    def __init__(self, call: EffectCall, clock: Clock) -> None:
        self._call = call
        self._tokens, self._cost = self._left("total_tokens"), self._left("cost_micros")
        self._tracker = self._new_tracker()
        ends_ns = call.intent.deadline_ns if call.restart != "reconcile" else None  # reconciling has no deadline
        deadline = Deadline.handed_on(ends_ns, clock=clock) if ends_ns is not None else None
        self.resources: Mapping[Any, Any] = {Deadline: deadline, BudgetTracker: self._tracker}

    def used(self) -> dict[str, Any]:
        """Returns the receipt's `usage` field; empty if nothing was used, or if the call's manifest has no such
        field."""
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

    def _new_tracker(self) -> BudgetTracker | None:
        """Returns a tracker of the rest. A budget is at least 1, so if nothing is left, that 1 is used up."""
        if self._tokens is None and self._cost is None:
            return None
        most = [None if left is None else max(1, left) for left in (self._tokens, self._cost)]
        tracker = BudgetTracker(Budget(max_total_tokens=most[0], max_cost_micros=most[1]))
        if 0 in (self._tokens, self._cost):
            used_up = TokenUsage(input_tokens=int(self._tokens == 0))
            tracker.record_cumulative(_NOTHING_LEFT, used_up, int(self._cost == 0))
        return tracker
