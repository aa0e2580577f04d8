from demiurge import tool
from demiurge.testing import assert_tool_called, call


@tool(effect="read_only")
def stock(part: str) -> str:
    """Says how many parts are in stock."""
    return f"12 of {part}."


def test_the_tool_alone():
    assert stock.run_direct(part="bolt").value == "12 of bolt."


async def test_a_turn(demiurge_world, scripted_model):
    scripted_model.say(call("stock", part="bolt"), "There are 12.")
    async with demiurge_world([stock]) as world:
        reply = await world.chat("main").send("How many bolts are there?")
    assert_tool_called(reply, "stock", times=1, arguments={"part": "bolt"}, ok=True)
    assert reply.text == "There are 12."
    scripted_model.assert_told("12 of bolt.")
