import asyncio
import os

from demiurge import ToolCatalog, ToolEffect, ToolPolicy, tool
from demiurge.models import GenerateRequest, ModelClient, ScriptedModel, address_of, cost_of, find_key, provider
from demiurge.models.port import LanguageModel
from demiurge.tools.events import AiEvent, TextDelta
from demiurge.values.clock import SystemClock
from demiurge.wire import Message, Text


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def order_part(part: str, count: int) -> str:
    """Order a part."""
    return f"{count} of {part}"


async def order(model: LanguageModel, request: GenerateRequest) -> None:
    def show(event: AiEvent) -> None:
        if isinstance(event, TextDelta):
            print("  said:", event.delta)

    completion = await model.generate(request, on_event=show)
    for call in completion.tool_calls:
        print("  call:", call.name, call.arguments_json)
    row, now = provider(request.provider), SystemClock().now_ns()
    cost = cost_of(completion, row, model=request.model, base_url=request.base_url, at_ns=now)
    tokens = completion.usage.prompt + completion.usage.completion if completion.usage is not None else None
    print(f"  done: {completion.finish_reason}, tokens: {tokens}, cost: {cost.micros}")


async def main() -> None:
    row = provider("openai-responses")
    address = address_of(row, os.environ)
    request = GenerateRequest(
        provider=row.name,
        model="gpt-5-mini",
        items=(Message("user", (Text("Order 20 bolts."),)),),
        specs=ToolCatalog.compile([order_part], ToolPolicy(("order_part",))).specs(),
        base_url=address.url,
        api_key=find_key(row, os.environ, address),
    )
    print("a provider:")
    async with ModelClient() as client:
        await order(client, request)
    print("a script:")
    scripted = ScriptedModel([[TextDelta("Which "), TextDelta("bolts?")]])
    await order(scripted, request)
    print("it was asked:", scripted.requests[0].items[0].text)


asyncio.run(main())
