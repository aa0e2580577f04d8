import asyncio
from datetime import timedelta

from demiurge import ToolResult, tool
from demiurge.testing import (
    FrozenClock,
    ScriptedModel,
    assert_tool_called,
    assert_tool_denied,
    assert_waits_for_approval,
    call,
    memory_world,
)


@tool(effect="read_only")
def stock(part: str) -> ToolResult[int]:
    """Says how many parts are in stock."""
    return ToolResult(f"12 of {part}.", 12)


@tool
def order(part: str, count: int) -> ToolResult[None]:
    """Orders parts."""
    return ToolResult(f"Ordered {count} of {part}.")


async def main() -> None:
    model = ScriptedModel(
        [call("stock", part="bolt"), ["12 are too few.", call("order", part="bolt", count=20)], "Ordered."]
    )
    clock = FrozenClock("2030-01-01T08:00:00+00:00")
    async with memory_world([stock, order], model=model, clock=clock) as world:
        chat = world.chat("main")
        reply = await chat.send("Order bolts if there are fewer than 20.")
        assert_tool_called(reply, "stock", times=1, arguments={"part": "bolt"}, ok=True)
        assert_waits_for_approval(reply, "order")
        model.assert_told("12 of bolt.")
        model.assert_offered("stock", "order")

        await world.decide(reply.approvals[0], approve=True, reason="Few are left.")
        await chat.resume()
        reply = await chat.reply()
        print(reply.status, reply.text)
        assert_tool_called(world, "order", times=1, ok=True)
        model.assert_finished()

        model.say(call("order", part="nut", count=7), "Nobody decided.")
        await chat.send("Order 7 nuts.")
        clock.advance(timedelta(days=8))
        await world.settle()
        try:
            assert_tool_denied(world, "order")
        except AssertionError as error:
            print(error)


asyncio.run(main())
