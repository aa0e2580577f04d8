from collections.abc import Mapping
from typing import Any

from demiurge import (
    PromptValidationError,
    Redaction,
    ToolCatalog,
    ToolContext,
    ToolEffect,
    ToolPolicy,
    ToolResult,
    ToolRunner,
    ToolSpec,
    tool,
)
from demiurge.tools import BoundTool, CompositeToolSource, StaticToolSource
from demiurge.tools.foreign.tool import foreign_id, foreign_tool


@tool(effect=ToolEffect.READ_ONLY)
def stock_count(part: str) -> int:
    """How many pieces of a part are in stock."""
    return 120


def look_up(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
    return ToolResult("From the price server.", {"sku": arguments["sku"], "cents": 12})


class PriceServer:
    """Somebody else's tools, as their server lists them today."""

    def __init__(self) -> None:
        self.tools: dict[str, BoundTool] = {}

    def list(self, name: str, description: str, schema: Mapping[str, Any]) -> None:
        tool_id = foreign_id("mcp", "prices", name)
        self.tools[tool_id] = foreign_tool(tool_id, description, schema, look_up, redaction=Redaction.allow("sku"))

    def get(self, tool_id: str) -> BoundTool | None:
        return self.tools.get(tool_id)

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.tools.values())


sku = {"type": "object", "properties": {"sku": {"type": "string", "pattern": "^[A-Z]-[0-9]+$"}}, "required": ["sku"]}
server = PriceServer()
server.list("look_up", "Looks up a price.", sku)
source = CompositeToolSource(StaticToolSource([stock_count]), server)
policy = ToolPolicy(("stock_count", "mcp__prices__look_up"))
runner = ToolRunner(source, policy=policy)

for arguments in ({"sku": "B-17"}, {"sku": "bolts"}):
    result = runner.exec_sync("mcp__prices__look_up", arguments)
    print(result.value or result.safe_message)

server.list("set price!", "Sets a price.", sku)
print([spec.name for spec in source.specs()])
print([spec.name for spec in ToolCatalog.compile(source, policy).specs()])

try:
    StaticToolSource([stock_count, stock_count])
except PromptValidationError as error:
    print(error.code, "-", error)
