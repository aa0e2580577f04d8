"""Budgets: how much money, tokens and time a run may use, and how much it has used.

Providers report usage as running totals, once per model answer or many times while it streams. So a report replaces
the earlier one of the same evaluation, and the consumption is the sum over evaluations: a repeated report counts
once. Reaching a limit is within the budget; exceeding it is not.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta

from demiurge.tools.errors import BudgetDimension, BudgetExceededError, InvalidLimit
from demiurge.tools.limits.deadline import Deadline
from demiurge.values.forks import lock_over_forks

__all__ = ["Budget", "BudgetTracker", "TokenUsage"]


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one evaluation so far; `cached_tokens` are part of `input_tokens`. Raises InvalidLimit for a number
    that is not a count."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    def __post_init__(self) -> None:
        for entry in fields(self):
            _check_count(getattr(self, entry.name), 0, entry.name)

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a run, at least one; None is no limit. Counts are tokens, `max_cost_micros` millionths of a dollar,
    each at least 1. Raises InvalidLimit (a ValueError)."""

    deadline: Deadline | None = None
    max_total_tokens: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    max_cost_micros: int | None = None

    def __post_init__(self) -> None:
        limits = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        if all(limit is None for limit in limits.values()):
            raise InvalidLimit("a budget needs at least one limit")
        if not isinstance(limits.pop("deadline"), Deadline | None):
            raise InvalidLimit("must be a Deadline", path="deadline")
        for name, limit in limits.items():
            if limit is not None:
                _check_count(limit, 1, name)


class BudgetTracker:
    """The consumption of `budget`; safe to use from several threads."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._lock = lock_over_forks()
        self._latest: dict[str, tuple[TokenUsage, int]] = {}
        self._consumed = TokenUsage()
        self._cost_micros = 0

    def record_cumulative(self, evaluation_id: str, usage: TokenUsage, cost_micros: int | None = None) -> None:
        """Stores an evaluation's totals so far, in place of its earlier ones. A cost of None is unknown: the cost
        reported before stays, if any. Raises InvalidLimit for a cost below 0."""
        if cost_micros is not None:
            _check_count(cost_micros, 0, "cost_micros")
        with self._lock:
            before, cost_before = self._latest.get(evaluation_id, (TokenUsage(), 0))
            cost = cost_before if cost_micros is None else cost_micros
            self._latest[evaluation_id] = usage, cost
            self._cost_micros += cost - cost_before
            self._consumed = TokenUsage(
                self._consumed.input_tokens + usage.input_tokens - before.input_tokens,
                self._consumed.output_tokens + usage.output_tokens - before.output_tokens,
                self._consumed.cached_tokens + usage.cached_tokens - before.cached_tokens,
            )

    @property
    def consumed(self) -> TokenUsage:
        """The sum of each evaluation's latest totals."""
        return self._consumed

    @property
    def cost_micros(self) -> int:
        """The sum of each evaluation's latest cost that is known, in millionths of a dollar."""
        return self._cost_micros

    def check(self) -> None:
        """Raises BudgetExceededError for the first limit that is exceeded: time, then tokens, then cost."""
        with self._lock:
            consumed, cost = self._consumed, self._cost_micros
        budget = self.budget
        if budget.deadline is not None and budget.deadline.remaining() <= timedelta():
            raise BudgetExceededError(budget, consumed, "deadline", cost_micros=cost)
        dimensions: tuple[tuple[BudgetDimension, int, int | None], ...] = (
            ("total_tokens", consumed.total_tokens, budget.max_total_tokens),
            ("input_tokens", consumed.input_tokens, budget.max_input_tokens),
            ("output_tokens", consumed.output_tokens, budget.max_output_tokens),
            ("cost_micros", cost, budget.max_cost_micros),
        )
        for dimension, used, limit in dimensions:
            if limit is not None and used > limit:
                raise BudgetExceededError(budget, consumed, dimension, cost_micros=cost)


def _check_count(value: object, least: int, name: str) -> None:
    if type(value) is not int or value < least:
        raise InvalidLimit(f"must be a whole number of at least {least}", path=name)
