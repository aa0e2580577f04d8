import json
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from demiurge import PromptValidationError, Tool, ToolContext, ToolEffect, ToolResult, tool


@tool(effect=ToolEffect.READ_ONLY)
def find_parts(word: str, limit: Annotated[int, Field(ge=1, le=50)] = 10) -> list[str]:
    """Finds parts by a word in their name.

    Use it before an order, which needs the exact name.

    Args:
        word: A word or its beginning.

    Returns:
        The names of the parts.
    """
    return [name for name in ("hex bolt", "hex nut", "wood screw") if word in name][:limit]


class Order(BaseModel):
    part: str
    count: int = Field(ge=1, description="Pieces, not boxes.")
    speed: Literal["normal", "express"] = "normal"


def order_part(order: Order, *, context: ToolContext) -> ToolResult[None]:
    """Orders pieces of a part."""
    return ToolResult(f"Ordered {order.count} of {order.part} for {context.caller.actor}.")


ordering = Tool.wrap(order_part, name="parts__order")

for made in (find_parts, ordering):
    print(f"{made.name}, {made.effect}: {made.spec.model_description}")
    for name, schema in made.spec.input_schema["properties"].items():
        print(f"  {name}: {json.dumps(schema)}")

try:

    @tool
    def pack(box: tuple[int, int, int]) -> str:
        """Packs a box."""
        return str(box)
except PromptValidationError as error:
    print(error)
