"""The tools of a world as data: whose each is, and whether a server's tool is pinned."""

from __future__ import annotations

import pytest

from demiurge import ToolSpec
from demiurge.bootstrap.tool_view import new_world_node, tool_rows
from demiurge.tools.bound import BoundTool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.foreign.tool import foreign_tool
from demiurge.tools.redaction import Redaction
from demiurge.tools.source import StaticToolSource
from demiurge.values.caller import USER


def foreign(name: str, *, untrusted: bool) -> BoundTool:
    return foreign_tool(
        name,
        "Reads.",
        {"type": "object"},
        lambda arguments, context: None,
        redaction=Redaction.message_only(),
        effect=ToolEffect.READ_ONLY,
        untrusted=untrusted,
    )


@pytest.mark.parametrize(
    ("name", "untrusted", "source", "trust"),
    [
        ("mcp__mail__read", True, "mcp mail", "pinned"),
        ("mcp__mail__read", False, "yours", None),
        ("mcp__mail", True, "yours", None),
        ("look_up", True, "yours", None),
    ],
)
def test_a_tool_of_an_mcp_server_has_its_name_as_source(
    name: str, untrusted: bool, source: str, trust: str | None
) -> None:
    node = new_world_node(StaticToolSource([foreign(name, untrusted=untrusted)]), None)
    [row] = tool_rows(node, USER, with_denied=True)
    assert (row["source"], row["trust"]) == (source, trust)


def test_a_quarantined_tool_says_so() -> None:
    spec = ToolSpec(
        "mcp__mail__read", "", {"type": "object"}, ToolEffect.READ_ONLY, Redaction.message_only(), quarantined=True
    )
    policy = new_world_node(StaticToolSource([]), None)["tool_policy"]
    [row] = tool_rows({"tool_policy": policy, "toolset": [spec.to_json()]}, USER, with_denied=True)
    assert (row["source"], row["trust"], row["decision"]) == ("mcp mail", "quarantined", "deny")
    assert "nobody has trusted its present text" in row["why"]
