"""The shipped tools as data."""

from __future__ import annotations

import json

import pytest

from demiurge.tools import CORE_TOOLS, PromptValidationError, Tool, ToolEffect
from demiurge.tools.core.time import CurrentTime, GetCurrentTime, get_current_time

ARGUMENTS = {
    "core__ask_user": {"question", "choices", "allow_other"},
    "core__get_current_time": {"timezone"},
    "introspect__manifest": set(),
    "introspect__module": {"name"},
    "introspect__schemas": {"prefix"},
    "core__find_tools": {"query"},
    "core__read_result": {"ref", "offset", "limit"},
    "introspect__state": {"module", "key"},
    "workspace__list": {"path", "workspace"},
    "workspace__read": {"path", "workspace"},
    "workspace__write": {"path", "text", "workspace", "expected_version"},
}


def test_ids_arguments_and_effects() -> None:
    assert {tool.name: set(tool.spec.input_schema["properties"]) for tool in CORE_TOOLS} == ARGUMENTS
    changing = {tool.name for tool in CORE_TOOLS if tool.effect is not ToolEffect.READ_ONLY}
    assert changing == {"workspace__write"}


def test_no_description_holds_an_example() -> None:
    for tool in CORE_TOOLS:
        words = json.dumps(tool.spec.to_json())
        assert not any(hint in words for hint in ("e.g.", "example", "for instance", "such as")), tool.name


def test_a_users_tool_can_not_take_a_core_name() -> None:
    with pytest.raises(PromptValidationError):
        Tool[GetCurrentTime, CurrentTime](
            name="core__get_current_time", description="d", handler=get_current_time.handler
        )
