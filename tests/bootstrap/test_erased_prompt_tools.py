"""A prompt tool whose text was erased: it leaves the catalog, it is named, and no chat stops."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.reviewed_worlds import approve, change_of, propose
from tests.provider import Provider, serving

from demiurge import World

TOOL = "scene_pacer"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        running.say(*(Provider.answer(Provider.text("Yes.")) for _ in range(4)))
        yield running


def opened(folder: Path, provider: Provider) -> World:
    environment = {"HOME": str(folder.parent), "LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}
    return World.open(folder, environment=environment)


async def erase_live(world: World) -> None:
    [live] = [tool for tool in await world.prompt_tools.catalog() if not tool.locked]
    assert live.id == TOOL
    await world.erase(live.digest, "It was asked for.")


def names_tool(request: Any) -> bool:
    return TOOL in json.dumps(request)


async def test_chats_go_on_without_the_erased_tool_and_it_is_named(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        await propose(world, "p1")
        await approve(world, "p1")
        assert (await world.chat("c").send("Hello")).status == "done"
        await erase_live(world)
        assert (await world.chat("d").send("Hello")).status == "done"
        assert [tool.locked for tool in await world.prompt_tools.catalog()] == [True] * 16
        [sentence] = await world.prompt_tools.damaged()
        assert TOOL in sentence
        assert "was erased" in sentence
    async with opened(tmp_path / "w", provider) as world:
        assert (await world.chat("e").send("Hello")).status == "done"
        assert (await world.replay())["ok"]
    assert [names_tool(request) for request in provider.seen] == [True, False, False]


async def test_the_version_below_an_erased_one_does_not_come_back(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        for name, target in (("p1", "user"), ("p2", "project")):
            await propose(world, name, target=target, prompt=f"The text of the {target}.")
            await approve(world, name)
        await erase_live(world)
        assert [tool.id for tool in await world.prompt_tools.catalog() if not tool.locked] == []


async def test_an_erased_tool_is_proposed_again_or_deleted(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        await propose(world, "p1")
        await approve(world, "p1")
        await erase_live(world)
        made = await world.prompt_tools.propose(await change_of(world, prompt="Name one slow sentence."))
        assert "prompt" in [diff.field for diff in await world.prompt_tools.proposal_diff(made.id)]
        await approve(world, made.id)
        assert [tool.version for tool in await world.prompt_tools.catalog() if not tool.locked] == [2]
        assert await world.prompt_tools.damaged() == []
        await erase_live(world)
        gone = await world.prompt_tools.propose(await change_of(world, proposalType="delete"))
        await approve(world, gone.id)
        assert await world.prompt_tools.damaged() == []
