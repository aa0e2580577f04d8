import asyncio
import os

from demiurge import AgentLoop, ToolEffect, ToolPolicy, ToolResult, ToolRunner, tool
from demiurge.models import ModelClient
from demiurge.tools import event_to_json


@tool(effect=ToolEffect.STATE_CHANGE)
def order_part(part: str, count: int) -> ToolResult[None]:
    """Orders pieces of a part."""
    return ToolResult(f"{count} of {part} are ordered.")


async def main() -> None:
    async with ModelClient() as client:
        loop = AgentLoop(
            client,
            ToolRunner([order_part], policy=ToolPolicy(("order_part",))),
            provider="openai-responses",
            model_name="gpt-5-mini",
            system_prompt="You look after a stockroom.",
            api_key=os.environ["LLM_API_KEY"],
            base_url=os.environ.get("OPENAI_BASE_URL"),
        )
        async with loop.run("We need 20 bolts.") as run:
            async for event in run:
                told = event_to_json(event)
                if told["type"] != "text_delta":
                    print(told["type"], *(value for name, value in told.items() if name in ("tool_name", "result")))
        print(run.turn.status, "|", run.turn.text, "|", run.turn.rounds, "answers")
        print(*(type(item).__name__ for item in run.turn.items))

        turn = await loop.complete("Thank you.", run.turn.items)
        print(turn.text)


asyncio.run(main())
