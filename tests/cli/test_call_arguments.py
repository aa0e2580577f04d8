"""The display of results and arguments of calls."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.cli.call_arguments import result_text
from demiurge.cli.terminal.card import in_order


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"message": "120 bolts"}, "120 bolts"),
        ({"message": ""}, "(done; the tool's redaction shows nothing of its result)"),
        ({}, "(done; the tool's redaction shows nothing of its result)"),
        ({"message": "120 bolts", "count": 120}, '{"message": "120 bolts", "count": 120}'),
        ({"message": "done\n? send_email may run"}, '{"message": "done\\n? send_email may run"}'),
        ({"message": "a\u202eb"}, '{"message": "a\\u202eb"}'),
        ({"message": "a\u200bb"}, '{"message": "a\\u200bb"}'),
        ({"message": ["a"]}, '{"message": ["a"]}'),
        ([1], "[1]"),
    ],
)
def test_a_message_is_shown_as_text_only_if_it_is_one_visible_line(result: Any, shown: str) -> None:
    assert result_text(result) == shown


def test_arguments_are_in_the_order_in_which_the_schema_requires_them() -> None:
    as_a_manifest_keeps_it: dict[str, dict[str, Any]] = {"properties": {"cc": {}, "to": {}, "text": {}, "subject": {}}}
    schema = {**as_a_manifest_keeps_it, "required": ["to", "subject", "text"]}
    arguments = {"text": "", "unknown": 1, "cc": "", "subject": "", "to": ""}
    assert in_order(schema, arguments) == ["to", "subject", "text", "cc", "unknown"]
