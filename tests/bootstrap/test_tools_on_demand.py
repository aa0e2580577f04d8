"""A turn finds tools that its requests do not describe, and calls them: what is sent, recorded and replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving

from demiurge import ToolPolicy, World, tool
from demiurge.registry.pack.tools import PACK_TOOLS
from demiurge.tools.ids import FIND_TOOLS

EDITOR = "core__line_editor"
MOST_BYTES_OF_HELLO = 3000


@tool()
def search_tickets(query: str) -> str:
    """Search the tickets of our tracker."""
    return f"no ticket about {query}"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        yield running


def opened(folder: Path, provider: Provider, *tools: Any, **given: Any) -> World:
    environment = {"HOME": str(folder.parent), "LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}
    return World.open(folder, tools, environment=environment, **given)


def sent(provider: Provider) -> list[set[str]]:
    """Returns the tools that each request describes."""
    return [{tool["name"] for tool in request.get("tools", ())} for request in provider.seen]


def calls(*named: tuple[str, dict[str, Any]]) -> list[Any]:
    return [Provider.answer(Provider.call(name, given, f"c{at}")) for at, (name, given) in enumerate(named)]


@pytest.mark.parametrize("model", ["gpt-5-mini", "gpt-4.1-mini"])
async def test_hello_takes_at_most_3000_bytes(tmp_path: Path, provider: Provider, model: str) -> None:
    """The second model is sent a temperature too."""
    provider.say(Provider.answer(Provider.text("Hello.")))
    async with opened(tmp_path / "w", provider, model=model) as world:
        await world.chat("c").send("hello")
    assert len(json.dumps(provider.seen[0], separators=(",", ":"))) <= MOST_BYTES_OF_HELLO


async def test_a_found_tool_is_described_from_the_next_round_on_and_runs(tmp_path: Path, provider: Provider) -> None:
    found = calls((FIND_TOOLS, {"query": "edit long lines"}), (EDITOR, {"text": "It was was cold."}))
    provider.say(*found, Provider.answer(Provider.text("Edited.")), Provider.answer(Provider.text("Hello.")))
    async with opened(tmp_path / "w", provider, search_tickets) as world:
        chat = world.chat("c")
        reply = await chat.send("Edit this.")
        assert [(call.name, call.ok) for call in reply.tool_calls] == [(FIND_TOOLS, True), (EDITOR, True)]
        await chat.send("hello")
        first, second, third, later = sent(provider)
        assert "search_tickets" in first
        assert EDITOR not in first | later
        assert EDITOR in second & third
        assert first < second
        assert (await world.replay(check=True))["ok"]
    async with opened(tmp_path / "w", provider, search_tickets) as world:
        assert (await world.replay(check=True))["ok"]
        assert world.journal.verify().ok


async def test_a_deferred_tool_may_be_called_without_a_search(tmp_path: Path, provider: Provider) -> None:
    provider.say(*calls((EDITOR, {"text": "It was was cold."})), Provider.answer(Provider.text("Edited.")))
    async with opened(tmp_path / "w", provider) as world:
        reply = await world.chat("c").send("Edit this.")
    assert [call.ok for call in reply.tool_calls] == [True]
    assert EDITOR in sent(provider)[1]


async def test_a_search_finds_nothing_that_the_policy_denies(tmp_path: Path, provider: Provider) -> None:
    allowed = (FIND_TOOLS, "search_tickets", *(tool.name for tool in PACK_TOOLS if tool.name != EDITOR))
    provider.say(*calls((FIND_TOOLS, {"query": EDITOR})), Provider.answer(Provider.text("None.")))
    async with opened(tmp_path / "w", provider, search_tickets, policy=ToolPolicy(allowed)) as world:
        reply = await world.chat("c").send("Edit this.")
        assert EDITOR not in sent(provider)[1]
        assert EDITOR not in json.dumps(reply.tool_calls[0].result)


async def test_a_tool_that_is_denied_after_it_was_offered_does_not_run(tmp_path: Path, provider: Provider) -> None:
    @tool()
    def lock() -> str:
        """Lock the editor."""
        return "locked"

    provider.say(*calls((FIND_TOOLS, {"query": "edit"})), Provider.answer(Provider.text("None.")))
    async with opened(tmp_path / "w", provider, lock, policy=ToolPolicy((FIND_TOOLS, EDITOR, "lock"))) as world:
        await world.chat("c").send("Edit this.")
        assert EDITOR in sent(provider)[1]
        await world.set_policy(ToolPolicy((FIND_TOOLS, "lock")))
        provider.say(*calls((EDITOR, {"text": "x"})), Provider.answer(Provider.text("Denied.")))
        reply = await world.chat("c").send("Edit this.")
        assert [call.ok for call in reply.tool_calls] == [False]


async def test_a_message_that_names_its_tools_defers_none(tmp_path: Path, provider: Provider) -> None:
    provider.say(Provider.answer(Provider.text("Hello.")))
    async with opened(tmp_path / "w", provider) as world:
        await world.chat("c").send("hello", tools=[EDITOR])
    assert sent(provider) == [{EDITOR}]


async def test_a_person_who_calls_the_search_finds_all_that_they_may_call(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider, search_tickets) as world:
        result = await world.call(FIND_TOOLS, {"query": "search tickets"})
        assert result.value is not None
        assert result.value["tools"][0]["id"] == "search_tickets"
