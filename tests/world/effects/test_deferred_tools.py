"""The sentence in a request to a model that names the tools which the request does not describe."""

from __future__ import annotations

from demiurge.tools import CORE_TOOLS, ToolSpec
from demiurge.tools.ids import FIND_TOOLS
from demiurge.world.effects.deferred_tools import MOST_NAMED, deferred_text, with_deferred

FIND = next(tool.spec for tool in CORE_TOOLS if tool.name == FIND_TOOLS)


def test_small_groups_are_named_and_large_ones_counted() -> None:
    server = [f"mcp__tickets__t{number}" for number in range(MOST_NAMED + 1)]
    text = deferred_text([*server, "mcp__time__now", "mcp__time__zone", "send_mail", "introspect__state"])
    assert f"mcp__tickets ({MOST_NAMED + 1})" in text
    assert "mcp__time__now, mcp__time__zone" in text
    assert "send_mail" in text
    assert "state of this world (1)" in text
    assert deferred_text([f"own_{number}" for number in range(400)]) == "There are: others (400)."


def test_only_the_search_tool_says_what_can_be_found() -> None:
    other = ToolSpec("send_mail", "Send.", {"type": "object"})
    assert with_deferred(other, ["introspect__state"]) is other
    assert with_deferred(FIND, []) is FIND
    told = with_deferred(FIND, ["introspect__state"])
    assert told.description.startswith(f"{FIND.description} There are: ")
    assert (told.name, told.input_schema) == (FIND.name, FIND.input_schema)
