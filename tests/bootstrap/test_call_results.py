"""The result of a call as its owner sees it: what the model was told, and the value."""

from __future__ import annotations

from pathlib import Path

from demiurge import ToolEffect, ToolPolicy, ToolResult, World, tool
from demiurge.testing import ScriptedModel, call


@tool(effect=ToolEffect.READ_ONLY)
def weather(city: str) -> str:
    """Says the weather."""
    return f"Sunny in {city}"


@tool(effect=ToolEffect.READ_ONLY)
def stock() -> dict[str, int]:
    """Counts the stock."""
    return {"bolt": 120, "large": 2**60}


@tool(effect=ToolEffect.READ_ONLY)
def long_list() -> ToolResult[list[int]]:
    """Lists much."""
    return ToolResult("Many numbers.", list(range(2000)), exclude_value_from_context=True)


@tool(effect=ToolEffect.READ_ONLY)
def much_text() -> str:
    """Says much."""
    return "x" * 5000


TOOLS = (weather, stock, long_list, much_text)


async def test_the_owner_sees_what_the_model_was_told_and_the_value(tmp_path: Path) -> None:
    model = ScriptedModel()
    model.say([call("weather", city="Rome"), call("stock"), call("long_list"), call("much_text")], "Done.")
    async with World.open(tmp_path / "w", TOOLS, ToolPolicy(tuple(each.name for each in TOOLS)), model=model) as world:
        chat = world.chat("main")
        said, counted, listed, _ = (await chat.send("Go.")).tool_calls
        assert (said.content, said.value) == ("Sunny in Rome", None)
        assert counted.content == '{"bolt":120,"large":1152921504606846976}'
        assert counted.value == {"bolt": 120, "large": "1152921504606846976"}
        assert (listed.content, listed.value) == ("Many numbers.", list(range(2000)))
        assert said.result == counted.result == {"message": ""}, "what everybody else sees"

        nodes = [node for node in (await chat.trace()).nodes if "content" in node]
        assert [node["content"][:13] for node in nodes] == ["Sunny in Rome", '{"bolt":120,"', "Many numbers.", "x" * 13]
        assert (len(nodes[3]["content"]), nodes[3]["content_cut"]) == (4000, 5000)
        assert (await world.replay(check=True))["ok"]


async def test_an_erased_result_has_neither_text_nor_value(tmp_path: Path) -> None:
    model = ScriptedModel()
    model.say([call("long_list")], "Done.")
    async with World.open(tmp_path / "w", TOOLS, ToolPolicy(("long_list",)), model=model) as world:
        await world.chat("main").send("Go.")
        [ref] = [message["ref"] for message in await world.chat("main").messages() if "tool" in message]
        await world.erase(ref, "by request")
        [listed] = (await world.chat("main").reply()).tool_calls
        assert (listed.content, listed.value, listed.result) == ("", None, None)
        kept = [
            path for path in (tmp_path / "w").rglob("*") if path.is_file() and b"1997,1998,1999" in path.read_bytes()
        ]
        assert kept == []
