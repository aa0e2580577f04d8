"""Which failures of an effect are refusals, and what a model is told of each."""

from __future__ import annotations

import pytest

from demiurge.tools.errors import ToolErrorCode
from demiurge.world.authority.refusals import is_refusal, tool_code


@pytest.mark.parametrize(
    ("code", "refused", "told"),
    [
        ("host_not_allowed", True, "policy_denied"),
        ("no_grant", True, "policy_denied"),
        ("policy_denied", True, "policy_denied"),
        ("too_large", True, "policy_denied"),
        ("no_adapter", False, "unavailable"),
        ("unavailable", False, "unavailable"),
        ("timeout", False, "timeout"),
        ("connection_reset", False, "execution"),
        ("not_allowed", False, "execution"),
    ],
)
def test_a_code_of_the_world_becomes_a_closed_code(code: str, refused: bool, told: str) -> None:
    assert is_refusal(code) is refused
    assert tool_code(code) is ToolErrorCode(told)


@pytest.mark.parametrize("code", list(ToolErrorCode))
def test_a_closed_code_stays_what_it_is(code: ToolErrorCode) -> None:
    assert tool_code(code.value) is code
