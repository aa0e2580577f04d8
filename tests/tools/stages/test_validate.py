"""What a call is told whose arguments its tool can't take: sentences that name fields and never values."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.tools import ToolPolicy, ToolRunner, tool


@tool
def measure(text: str) -> int:
    """Measure a text."""
    return len(text)


@tool
def still() -> int:
    """Take nothing."""
    return 0


@tool
def free(given: dict[str, Any]) -> int:
    """Take anything."""
    return len(given)


RUNNER = ToolRunner([measure, still, free], policy=ToolPolicy(("measure", "still", "free")))


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("measure", "{}", "text: is required."),
        ("measure", '{"text": "x", "more": 1}', "unknown field; known: text."),
        ("measure", '{"more": 1}', "text: is required; unknown field; known: text."),
        ("still", '{"more": 1}', "unknown field; no field is allowed."),
        ("free", '{"given": 1}', "given: must be an object."),
    ],
)
def test_a_value_that_does_not_fit_is_listed(name: str, arguments: str, sentence: str) -> None:
    result = RUNNER.exec_sync(name, arguments)
    assert result.error_code == "validation"
    assert result.safe_message == f"The arguments do not fit the tool's schema. Found: {sentence}"
