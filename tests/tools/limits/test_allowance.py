"""Allowances as data: what they may say, and that they come back as they were written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.errors import InvalidValue
from demiurge.tools.limits.allowance import Allowance
from demiurge.tools.policy import Budgets, ToolPolicy

counts = st.none() | st.integers(0, 10**12)


@given(st.builds(Allowance, counts, counts, counts, counts, st.none() | st.integers(1, 10**12)))
def test_an_allowance_comes_back_as_it_was_written(allowance: Allowance) -> None:
    assert Allowance.from_json(allowance.to_json()) == allowance
    policy = ToolPolicy(("a",), budgets=Budgets(run=allowance))
    assert ToolPolicy.from_json(policy.to_json()) == policy


@pytest.mark.parametrize("value", [-1, True, 1.0, "1", 2**53])
def test_a_value_that_is_no_count_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidValue, match="max_tool_calls: is a whole number from 0 to 9007199254740991"):
        Allowance(max_tool_calls=value)


def test_a_moment_that_no_calendar_has_is_no_limit() -> None:
    with pytest.raises(InvalidValue, match="max_wall_ms"):
        Allowance(max_wall_ms=10**15)


def test_no_time_at_all_is_no_limit_that_anybody_means() -> None:
    with pytest.raises(InvalidValue, match="max_wall_ms: is a whole number from 1 to 3162240000000"):
        Allowance(max_wall_ms=0)


@pytest.mark.parametrize(
    ("budgets", "problem"),
    [
        ({"run": {"max_calls": 1}}, "budgets.run: unknown key 'max_calls'"),
        ({"run": 1}, "budgets.run: must be an object"),
        ({"unit": {"max_tool_calls": -1}}, "budgets.unit.max_tool_calls: is a whole number from 0 to"),
        (
            {"unit": {"max_wall_ms": 1}},
            "budgets.unit.max_wall_ms: a unit never ends, so its time cannot be limited; remove max_wall_ms",
        ),
    ],
)
def test_a_policy_says_where_its_budget_is_wrong(budgets: Any, problem: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        ToolPolicy.from_json({"allowed_tools": [], "budgets": budgets})
    assert raised.value.message.startswith(problem)


def test_a_policy_without_them_is_written_as_it_was() -> None:
    assert ToolPolicy().to_json()["budgets"] == {"max_runtime_ms": None, "max_result_bytes": None}
    assert ToolPolicy().digest == ToolPolicy(budgets=Budgets(run=None)).digest
    assert ToolPolicy().digest != ToolPolicy(budgets=Budgets(run=Allowance(max_tool_calls=1))).digest
