import asyncio

from demiurge import World, tool
from demiurge.testing import ScriptedModel, call


@tool()
def search_tickets(query: str) -> str:
    """Search the tickets of our tracker."""
    return f"no ticket about {query}"


async def main() -> None:
    model = ScriptedModel(
        [
            call("core__find_tools", query="remarks about long lines of a text"),
            call("core__line_editor", text="It was was cold."),
            "One word stands there twice.",
        ]
    )
    async with World.open("on-demand-world", [search_tickets], model=model) as world:
        reply = await world.chat("draft").send("Look at this: It was was cold.")
        for each in reply.tool_calls:
            print(each.name, each.ok)
        for request in model.requests:
            print(len(request.specs), "core__line_editor" in [spec.name for spec in request.specs])


asyncio.run(main())
