"""What counts is the latest report of each evaluation, and a limit is exceeded by one more, not by reaching it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge import Budget, BudgetTracker, Deadline, DemiurgeError, InvalidValue
from demiurge.tools import BudgetExceededError, TokenUsage
from demiurge.values.clock import FixedClock

COUNTS = st.integers(0, 10**9)
USAGES = st.builds(TokenUsage, COUNTS, COUNTS, COUNTS)


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"max_total_tokens": 0},
        {"max_input_tokens": -1},
        {"max_output_tokens": 1.5},
        {"max_cost_micros": True},
        {"max_total_tokens": "1"},
        {"deadline": datetime(2100, 1, 1, tzinfo=UTC)},
    ],
)
def test_a_budget_without_limits_or_with_invalid_limits_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at least|Deadline") as raised:
        Budget(**limits)
    assert isinstance(raised.value, InvalidValue)


@pytest.mark.parametrize("counts", [(-1, 0, 0), (0, 1.0, 0), (0, 0, True)])
def test_a_token_usage_with_an_invalid_count_is_refused(counts: tuple[Any, Any, Any]) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        TokenUsage(*counts)


def test_total_tokens_are_input_and_output() -> None:
    assert TokenUsage(10, 5, cached_tokens=4).total_tokens == 15


REPORTS = st.lists(st.tuples(st.sampled_from("abc"), USAGES, st.none() | COUNTS))


@given(REPORTS)
def test_the_latest_figure_of_each_evaluation_counts(reports: list[tuple[str, TokenUsage, int | None]]) -> None:
    tracker = BudgetTracker(Budget(max_total_tokens=1))
    latest: dict[str, TokenUsage] = {}
    costs: dict[str, int] = {}
    for evaluation, usage, cost in reports:
        tracker.record_cumulative(evaluation, usage, cost_micros=cost)
        latest[evaluation] = usage
        costs[evaluation] = cost if cost is not None else costs.get(evaluation, 0)
    assert tracker.consumed.input_tokens == sum(usage.input_tokens for usage in latest.values())
    assert tracker.consumed.output_tokens == sum(usage.output_tokens for usage in latest.values())
    assert tracker.consumed.cached_tokens == sum(usage.cached_tokens for usage in latest.values())
    assert tracker.cost_micros == sum(costs.values())


@pytest.mark.parametrize(
    ("budget", "dimension"),
    [
        (Budget(max_total_tokens=30), "total_tokens"),
        (Budget(max_input_tokens=20), "input_tokens"),
        (Budget(max_output_tokens=10), "output_tokens"),
        (Budget(max_cost_micros=7), "cost_micros"),
    ],
)
def test_a_limit_may_be_reached_and_not_exceeded(budget: Budget, dimension: str) -> None:
    tracker = BudgetTracker(budget)
    tracker.check()
    tracker.record_cumulative("a", TokenUsage(12, 6), cost_micros=4)
    tracker.record_cumulative("b", TokenUsage(8, 4), cost_micros=3)
    tracker.check()
    tracker.record_cumulative("b", TokenUsage(9, 5), cost_micros=4)
    with pytest.raises(BudgetExceededError) as raised:
        tracker.check()
    error = raised.value
    assert (error.budget, error.consumed, error.cost_micros) == (budget, TokenUsage(21, 11), 8)
    assert (error.exceeded_dimension, error.code) == (dimension, "budget_exceeded")
    assert isinstance(error, DemiurgeError)
    assert isinstance(error, RuntimeError)


def test_an_expired_deadline_is_a_dimension() -> None:
    clock = FixedClock(0)
    tracker = BudgetTracker(Budget(Deadline(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), clock=clock), 10))
    tracker.record_cumulative("a", TokenUsage(11))
    with pytest.raises(BudgetExceededError) as raised:
        tracker.check()
    assert raised.value.exceeded_dimension == "total_tokens"
    clock.advance(1_000_000_000)
    assert tracker.budget.deadline is not None
    assert tracker.budget.deadline.remaining() == timedelta()
    with pytest.raises(BudgetExceededError) as raised:
        tracker.check()
    assert raised.value.exceeded_dimension == "deadline"


def test_a_cost_below_nothing_is_refused_and_changes_nothing() -> None:
    tracker = BudgetTracker(Budget(max_cost_micros=1))
    with pytest.raises(InvalidValue):
        tracker.record_cumulative("a", TokenUsage(1), cost_micros=-5)
    assert (tracker.consumed, tracker.cost_micros) == (TokenUsage(), 0)


def test_reports_from_many_threads_are_all_counted() -> None:
    tracker = BudgetTracker(Budget(max_total_tokens=10**9))

    def report(evaluation: str) -> None:
        for total in range(1, 501):
            tracker.record_cumulative(evaluation, TokenUsage(total, 2 * total), cost_micros=total)

    threads = [threading.Thread(target=report, args=(f"e{index}",)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tracker.consumed, tracker.cost_micros) == (TokenUsage(4000, 8000), 4000)
