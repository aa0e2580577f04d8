from demiurge import ToolEffect, ToolResult, tool


@tool(effect=ToolEffect.READ_ONLY)
def stock_count(part: str) -> str:
    """How many pieces of a part are in stock."""
    return "120 pieces"


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def order_part(part: str, count: int) -> ToolResult[None]:
    """Order pieces of a part from the supplier."""
    return ToolResult(message=f"Ordered {count} of {part}.", value=None)
