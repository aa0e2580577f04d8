import asyncio

from demiurge import AgentLoop, InMemoryApprovals, ToolEffect, ToolPolicy, ToolResult, ToolRunner, tool
from demiurge.models import ScriptedModel
from demiurge.wire import Completion, Message, Text, ToolCall, ToolOutput


@tool(effect=ToolEffect.READ_ONLY)
def order_status(order: str) -> ToolResult[None]:
    """Says where an order is."""
    return ToolResult(f"{order} is late.")


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def send_mail(to: str, text: str) -> ToolResult[None]:
    """Sends a mail."""
    return ToolResult(f"Sent to {to}.")


calls = (
    ToolCall("c1", "send_mail", '{"to": "ada@example.com", "text": "Your order is late."}'),
    ToolCall("c2", "order_status", '{"order": "A-17"}'),
    ToolCall("c3", "order_status", '{"order": "A-1'),  # cut short
)
words = Message("assistant", (Text("I told her."),))
model = ScriptedModel(  # stands in for a model
    [Completion("", calls, "tool_calls", None, calls), Completion(words.text, (), "stop", None, (words,))]
)

policy = ToolPolicy(("order_status", "send_mail"), require_approval_for_effects=(ToolEffect.EXTERNAL_SIDE_EFFECT,))
approvals = InMemoryApprovals()
runner = ToolRunner([order_status, send_mail], policy=policy, approvals=approvals)
loop = AgentLoop(model, runner)


async def main() -> None:
    turn = await loop.complete("Tell Ada about A-17.")
    print(turn.status)
    for call in turn.open_calls:
        print("to decide:", call.name, call.arguments_json)
    for approval_id in turn.approvals:
        approvals.approve(approval_id, by="bob")

    turn = await loop.complete(turn.items)  # now, or later from where the items were kept
    print(turn.status, "|", turn.text)
    for item in turn.items:
        if isinstance(item, ToolOutput):
            print(item.id, "|", item.content)


asyncio.run(main())
