from demiurge import ToolEffect, ToolResult, tool

STOCK = {"bolt": 120, "nut": 80}


@tool(effect=ToolEffect.READ_ONLY)
def stock_count(part: str) -> ToolResult[int]:
    """How many pieces of a part are in stock."""
    return ToolResult(message=f"{STOCK.get(part, 0)} pieces of {part} in stock", value=STOCK.get(part, 0))
