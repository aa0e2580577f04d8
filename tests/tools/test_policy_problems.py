"""Every mistake of a policy is found, and none in one that can be read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demiurge.errors import InvalidValue
from demiurge.tools import ToolPolicy
from demiurge.tools.policy_problems import policy_problems

ANYTHING = st.none() | st.integers(-1, 3) | st.sampled_from(["a", "b c", "read_only"])
PARTS = ANYTHING | st.lists(ANYTHING, max_size=3) | st.dictionaries(st.sampled_from(["max_llm_calls", "x"]), ANYTHING)
FIELDS = ["allowed_tools", "require_approval_for_effects", "require_approval_for_tools", "x"]
BUDGETS = st.dictionaries(st.sampled_from(["max_runtime_ms", "max_result_bytes", "run", "unit", "x"]), PARTS)


@given(st.dictionaries(st.sampled_from(FIELDS), PARTS), st.none() | BUDGETS)
def test_a_policy_has_problems_exactly_when_it_can_not_be_read(fields: dict[str, Any], budgets: Any) -> None:
    data = fields | ({"budgets": budgets} if budgets is not None else {})
    try:
        ToolPolicy.from_json(data)
        sound = True
    except InvalidValue:
        sound = False
    found = policy_problems(data)
    assert (found == []) is sound
    assert all(error.message for error in found)


@pytest.mark.parametrize("data", [None, 1, "x", []])
def test_no_object_is_no_policy(data: Any) -> None:
    assert len(policy_problems(data)) == 1


def test_each_mistake_is_one() -> None:
    found = policy_problems({"require_approval_for_tools": ["a b", "c", "d e"], "budgets": {"run": {"x": 1}, "y": 2}})
    lists = "require_approval_for_tools"
    assert [error.path for error in found][:3] == ["allowed_tools", f"{lists}[0]", f"{lists}[2]"]
    assert len(found) == 5
