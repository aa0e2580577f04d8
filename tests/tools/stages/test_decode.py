"""No arguments are so long that reading them holds everything else up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from demiurge import ToolEffect, ToolPolicy, ToolRunner, tool
from demiurge.tools.stages.decode import MAX_ARGUMENT_BYTES


@tool(effect=ToolEffect.READ_ONLY)
def measure(text: str) -> int:
    """Measures a text."""
    return len(text)


RUNNER = ToolRunner([measure], policy=ToolPolicy(("measure",)))


def arguments(size: int, filling: str) -> str:
    """JSON of `size` bytes, but for what does not divide."""
    empty = len('{"text": ""}')
    return json.dumps({"text": filling * ((size - empty) // len(filling.encode()))}, ensure_ascii=False)


@pytest.mark.parametrize(
    ("filling", "form"),
    [("x", str), ("é", str), ("😀", str), ("x", str.encode), ("😀", str.encode), ("x", json.loads)],
)
def test_arguments_over_the_limit_are_not_read(filling: str, form: Any) -> None:
    taken = RUNNER.exec_sync("measure", form(arguments(MAX_ARGUMENT_BYTES, filling)))
    assert taken.ok, taken.safe_message
    refused = RUNNER.exec_sync("measure", form(arguments(MAX_ARGUMENT_BYTES + len(filling.encode()), filling)))
    assert (refused.error_code, refused.safe_message) == (
        "validation",
        "The arguments do not fit the tool's schema. Found: the object is longer than 1 MiB.",
    )


@pytest.mark.parametrize("raw", [None, 7, ["text"], {"text"}, {"text": float("nan")}, {"text": {1}}])
def test_a_value_that_cannot_be_written_as_json_is_refused_and_nothing_breaks(
    raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    refused = RUNNER.exec_sync("measure", raw)
    assert (refused.error_code, caplog.messages) == ("invalid_json", [])


def test_a_long_text_of_half_characters_is_refused_as_any() -> None:
    long = json.dumps({"text": ""}).replace('""', '"' + "\ud800" * MAX_ARGUMENT_BYTES + '"')
    assert RUNNER.exec_sync("measure", long).error_code == "validation"
    assert RUNNER.exec_sync("measure", '{"text": "\ud800"}').error_code == "invalid_json"
