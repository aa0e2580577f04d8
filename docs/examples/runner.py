import asyncio

from demiurge import AiEvent, ToolEffect, ToolPolicy, ToolResult, ToolRunner, ToolUserError, tool
from demiurge.tools import event_to_json

ORDERS = {"A-17": "shipped", "A-18": "packed"}


@tool(effect=ToolEffect.READ_ONLY)
async def order_status(order: str) -> ToolResult[None]:
    """Says where an order is."""
    await asyncio.sleep(0)  # asking the warehouse
    if order not in ORDERS:
        raise ToolUserError(f"There is no order {order}. Orders look like A-17.")
    return ToolResult(f"Order {order} is {ORDERS[order]}.")


@tool(effect=ToolEffect.STATE_CHANGE)
async def cancel_order(order: str, reason: str) -> ToolResult[None]:
    """Cancels an order that has not been shipped."""
    ORDERS[order] = "cancelled"
    return ToolResult(f"Order {order} is cancelled.")


def tell(event: AiEvent) -> None:
    print(*event_to_json(event).values())


runner = ToolRunner(
    [order_status, cancel_order],
    policy=ToolPolicy(allowed_tools=("order_status", "cancel_order")),
    emit=tell,
    max_parallel=4,
)

TURN = [  # what a model asked for in one answer, as it came
    ("call_1", "order_status", '{"order": "A-17"}'),
    ("call_2", "order_status", '{"order": "17"}'),
    ("call_3", "cancel_order", '{"order": "A-18"}'),
    ("call_4", "cancel_order", '{"order": "A-18", "reason": "ordered twice"}'),
    ("call_5", "order_status", '{"order": "A-18"'),
]

for result in asyncio.run(runner.exec_many(TURN)):
    print(result.tool_call_id, "|", result.content)
