from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from demiurge.errors import InvalidValue
from demiurge.tools.spec import ToolSpec
from demiurge.wire import NamedTool, anthropic, openai_chat, openai_responses

SPECS = [ToolSpec("docs__read", "Read a file.", {"type": "object", "properties": {}})]
EVERY_FORMAT = pytest.mark.parametrize("wire", [openai_chat, openai_responses, anthropic])


@EVERY_FORMAT
@pytest.mark.parametrize("choice", ["bogus", "", "any", "Auto", 7, {"type": "auto"}, {"type": "function", "name": "x"}])
@pytest.mark.parametrize("specs", [SPECS, []])
def test_a_choice_that_does_not_exist_is_refused(wire: ModuleType, choice: Any, specs: list[ToolSpec]) -> None:
    with pytest.raises(InvalidValue, match=r"auto, none, required or a NamedTool") as caught:
        wire.encode_tools(specs, choice)
    assert caught.value.path == "tool_choice"


@EVERY_FORMAT
def test_a_tool_that_is_not_offered_cannot_be_chosen(wire: ModuleType) -> None:
    with pytest.raises(InvalidValue, match="'docs__write' is not one of the request's tools"):
        wire.encode_tools(SPECS, NamedTool("docs__write"))
    assert set(wire.encode_tools(SPECS, NamedTool("docs__read"))) == {"tools", "tool_choice"}
