import asyncio

from demiurge import Budgets, ToolContext, ToolPolicy, ToolResult, World, tool
from demiurge.tools import Allowance


@tool
def order_part(part: str, count: int, context: ToolContext) -> ToolResult[None]:
    """Order pieces of a part from the supplier."""
    assert context.budget_tracker is not None
    assert context.deadline is not None
    print(
        context.budget_tracker.budget.max_total_tokens, "tokens and", context.deadline.remaining().seconds // 60, "min"
    )
    return ToolResult(message=f"Ordered {count} of {part}.", value=None)


message = Allowance(max_llm_requests=1, max_total_tokens=5000, max_wall_ms=10 * 60_000)
policy = ToolPolicy(("order_part",), budgets=Budgets(run=message, unit=Allowance(max_tool_calls=100)))


async def main() -> None:
    async with World.open("budgets.world", [order_part], policy) as world:
        chat = world.chat("shop")
        for text in ("Order 20 bolts.", "What did you order?"):
            reply = await chat.send(text)
            print(reply.status, "|", reply.error_code, "|", reply.message or reply.text)


asyncio.run(main())
