"""The display of results and arguments of calls."""

from __future__ import annotations

from typing import Any

import pytest

from demiurge.bootstrap.told_text import told_problem
from demiurge.cli.call_arguments import result_text
from demiurge.cli.terminal.card import in_order

CHANGED = (
    "A person changed the arguments of this call before approving it.\n"
    "Proposed arguments: {}\nArguments used: {}\nResult: "
)


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"message": "120 bolts"}, "120 bolts"),
        ({"message": ""}, "(done; the redacted result is empty)"),
        ({}, "(done; the redacted result is empty)"),
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


@pytest.mark.parametrize(
    ("content", "value", "shown"),
    [
        ("Sunny in Rome", None, "Sunny in Rome"),
        ("Sunny\n? send_email may run", None, '"Sunny\\n? send_email may run"'),
        ("", None, "(done; the tool returned nothing)"),
        ('{"bolt":120}', {"bolt": 120}, '{"bolt": 120}'),
        ("120 bolts\n\n120", 120, "120 bolts (value 120)"),
        (f"{CHANGED}Sunny in Rome", None, "Sunny in Rome"),
        (f'{CHANGED}{{"bolt":120}}', {"bolt": 120}, '{"bolt": 120}'),
        ("Loaded.", {"rows": [1]}, 'Loaded. (value {"rows": [1]})'),
        ("Read.\n\n" + f'"{"x" * 400}"', "x" * 400, f'Read. (value "{"x" * 299} ... (102 characters more))'),
    ],
)
def test_the_owner_is_shown_what_the_model_was_told_and_the_value(content: str, value: Any, shown: str) -> None:
    assert result_text({"message": ""}, content, value) == shown


@pytest.mark.parametrize(
    ("code", "content", "said"),
    [
        ("execution", '{"ok":false,"error_code":"execution","message":"No such part."}', "No such part."),
        ("execution", None, "The tool failed."),
        ("execution", "erased", "The tool failed."),
        ("approval_rejected", '{"ok":false,"message":"other"}', "The tool failed."),
    ],
)
def test_the_owner_is_told_the_tools_own_words_for_its_failure(code: str, content: str | None, said: str) -> None:
    assert told_problem(code, "The tool failed.", content) == said


def test_arguments_are_in_the_order_in_which_the_schema_requires_them() -> None:
    as_a_manifest_keeps_it: dict[str, dict[str, Any]] = {"properties": {"cc": {}, "to": {}, "text": {}, "subject": {}}}
    schema = {**as_a_manifest_keeps_it, "required": ["to", "subject", "text"]}
    arguments = {"text": "", "unknown": 1, "cc": "", "subject": "", "to": ""}
    assert in_order(schema, arguments) == ["to", "subject", "text", "cc", "unknown"]
