import asyncio

from demiurge import ToolContext, ToolEffect, ToolResult, Workspaces, World, tool
from demiurge.testing import ScriptedModel, call


@tool(effect=ToolEffect.STATE_CHANGE, capabilities=(Workspaces,))
async def save_quote(supplier: str, text: str, context: ToolContext) -> ToolResult[None]:
    """Keep a supplier's quote as a file."""
    files = context.resources.get(Workspaces)
    assert files is not None
    done = await files.write(f"quotes/{supplier}.txt", text, workspace="main", expected_version=None)
    return ToolResult(message=f"Saved in version {done.version}.")


async def main() -> None:
    model = ScriptedModel([call("save_quote", supplier="acme", text="100 bolts: 12 EUR"), "Saved."])
    async with World.open("quotes.world", tools=[save_quote], model=model) as world:
        reply = await world.chat().send("Keep this quote of acme: 100 bolts for 12 EUR.")
        print(reply.status, [waiting["tool"] for waiting in await world.approvals()])
        for waiting in await world.approvals():
            await world.decide(waiting["id"], approve=True)
        await world.chat().resume()
        reply = await world.chat().reply()
        print(reply.tool_calls[0].result, "-", reply.text)


asyncio.run(main())
