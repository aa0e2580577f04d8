"""A model finds further tools through a capability."""

from __future__ import annotations

from typing import Any

from demiurge.tools import CORE_TOOLS, Introspection, ToolPolicy, ToolRunner, ToolSpec
from demiurge.tools.capabilities import FindableTools
from demiurge.tools.ids import FIND_TOOLS

MAIL = ToolSpec(
    "send_mail",
    "Send a mail.\nAsk before.",
    {"type": "object", "properties": {"to": {"type": "string"}, "copy": {"type": "string"}}, "required": ["to"]},
)


class World:
    def __init__(self, *, in_turn: bool = True) -> None:
        self.in_turn = in_turn

    async def tools(self) -> FindableTools:
        return FindableTools([MAIL.to_json()], self.in_turn)


def runner(resources: dict[Any, Any]) -> ToolRunner:
    return ToolRunner(CORE_TOOLS, policy=ToolPolicy((FIND_TOOLS,)), resources=resources)


async def test_a_found_tool_is_told_with_its_first_line_and_its_arguments() -> None:
    result = await runner({Introspection: World()}).exec(FIND_TOOLS, {"query": "mail"})
    [found] = result.value["tools"]
    assert found == {
        "id": "send_mail",
        "description": "Send a mail.",
        "arguments": ["to", "copy?"],
        "input_schema": None,
    }
    assert result.content.startswith("You can call these now.")


async def test_outside_a_turn_the_schema_is_told() -> None:
    result = await runner({Introspection: World(in_turn=False)}).exec(FIND_TOOLS, {"query": "mail"})
    assert result.value["tools"][0]["input_schema"] == MAIL.to_json()["input_schema"]


async def test_a_search_without_a_match_says_how_to_go_on() -> None:
    result = await runner({Introspection: World()}).exec(FIND_TOOLS, {"query": "zebra"})
    assert result.value == {"tools": []}
    assert "Try other words" in result.content


async def test_without_the_capability_the_search_is_unavailable() -> None:
    assert (await runner({}).exec(FIND_TOOLS, {"query": "mail"})).error_code == "unavailable"
