"""The toolset of a chat and of one message: what the model is offered, and what it may call."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving

from demiurge import ToolPolicy, World
from demiurge.bootstrap.offered_tools import offered_tools
from demiurge.errors import Conflict, DemiurgeError
from demiurge.tools import ToolSpec
from demiurge.values import canonical_json
from demiurge.wire.items import NamedTool, ToolChoice

CLOCK, READ, LIST = "core__get_current_time", "workspace__read", "workspace__list"
YES = Provider.answer(Provider.text("Yes."))
PROJECT = Path(__file__).parents[2]


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as running:
        running.say(YES)
        yield running


def opened(folder: Path, provider: Provider, **more: Any) -> World:
    return World.open(folder, environment={"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}, **more)


def offered(provider: Provider) -> list[str]:
    return sorted(tool["name"] for tool in provider.seen[-1].get("tools", ()))


async def catalog_names(world: World) -> list[str]:
    """Returns the tools that the requests of a message describe by themselves."""
    specs = [ToolSpec.from_json(spec) for spec in (await world.info())["catalog"]]
    found = offered_tools(specs, {}, has_catalog=False, has_large_results=False)
    return sorted(spec.name for spec in found.described)


async def test_a_chat_keeps_its_toolset_until_it_is_cleared(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        chat, catalog = world.chat(), await catalog_names(world)
        assert len(catalog) > 3
        await chat.use_tools([CLOCK, "workspace.read"])
        for _ in range(2):
            assert (await chat.send("Go on.")).status == "done"
            assert offered(provider) == [CLOCK, READ]
        await chat.use_tools([])
        await chat.send("Go on.")
        assert offered(provider) == []
        await chat.use_tools(None)
        await chat.send("Go on.")
        assert offered(provider) == catalog
        assert (await world.replay())["ok"]


async def test_a_call_outside_of_the_chats_toolset_is_not_offered(tmp_path: Path, provider: Provider) -> None:
    provider.say(Provider.answer(Provider.call(LIST, {})), YES)
    async with opened(tmp_path / "w", provider) as world:
        await world.chat().use_tools([CLOCK])
        [called] = (await world.chat().send("List them.")).tool_calls
        assert (called.ok, called.error_code) == (False, "not_offered")
        assert called.message == "This tool is not offered here. Use the tools that are."
        assert (await world.replay())["ok"]


async def test_tools_of_a_message_are_for_its_turn(tmp_path: Path, provider: Provider) -> None:
    provider.say(YES, YES, Provider.answer(Provider.call(LIST, {})), YES, YES)
    async with opened(tmp_path / "w", provider) as world:
        chat, catalog = world.chat(), await catalog_names(world)
        await chat.send("One tool.", tools=[CLOCK])
        assert offered(provider) == [CLOCK]
        await chat.send("All of them.")
        assert offered(provider) == catalog
        await chat.use_tools([CLOCK, LIST])
        [called] = (await chat.send("One of two.", tools=[CLOCK])).tool_calls
        assert (offered(provider), called.error_code) == ([CLOCK], "not_offered")
        await chat.send("Both.")
        assert offered(provider) == [CLOCK, LIST]
        assert (await world.replay())["ok"]


async def test_a_choice_is_for_its_message_and_one_of_the_chat_stays(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        chat = world.chat()
        choices: list[Any] = []
        given: tuple[ToolChoice | None, ...] = (None, "required", NamedTool("core.get_current_time"), None)
        for choice in given:
            await chat.send("Go on.", tool_choice=choice)
            choices.append(provider.seen[-1]["tool_choice"])
        named = {"type": "function", "name": CLOCK}
        assert choices == ["auto", "required", named, "auto"]
        await chat.use_tools([CLOCK], tool_choice="required")
        again: tuple[ToolChoice | None, ...] = (None, "none", None)
        for choice in again:
            await chat.send("Go on.", tool_choice=choice)
            choices.append(provider.seen[-1]["tool_choice"])
        assert choices[4:] == ["required", "none", "required"]
        await chat.use_tools([CLOCK])
        await chat.send("Go on.")
        assert provider.seen[-1]["tool_choice"] == "auto"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"tools": ["no_such"]}, "no_tool"),
        ({"tools": ["two words"]}, "bad_tool_id"),
        ({"tools": CLOCK}, "bad_tool_id"),
        ({"tools": [READ], "tool_choice": NamedTool(CLOCK)}, "bad_tool_choice"),
        ({"tools": [CLOCK], "tool_choice": "bogus"}, "bad_tool_choice"),
        ({"tools": [LIST]}, "policy_denied"),
    ],
)
async def test_a_tool_that_cannot_be_offered_is_refused_before_anything_is_recorded(
    tmp_path: Path, provider: Provider, given: Any, code: str
) -> None:
    async with opened(tmp_path / "w", provider, policy=ToolPolicy(allowed_tools=(CLOCK, READ))) as world:
        for call in (world.chat().use_tools, lambda **given: world.chat().send("Hello", **given)):
            with pytest.raises(DemiurgeError) as refused:
                await call(**given)
            assert refused.value.code == code
        assert await world.chat().state() is None
        assert provider.seen == []


async def test_a_message_names_no_tool_that_the_chats_toolset_does_not_have(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        await world.chat().use_tools([CLOCK])
        with pytest.raises(DemiurgeError, match=f"does not offer {READ} \\(it offers {CLOCK}\\)") as refused:
            await world.chat().send("Read.", tools=[READ])
        assert refused.value.code == "not_in_toolset"
        with pytest.raises(DemiurgeError) as refused:
            await world.chat().send("Read.", tool_choice=NamedTool(READ))
        assert refused.value.code == "bad_tool_choice"


async def test_a_tool_that_the_policy_denies_by_now_is_no_more_offered(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        await world.chat().use_tools([CLOCK, READ])
    async with opened(tmp_path / "w", provider, policy=ToolPolicy(allowed_tools=(READ, LIST))) as world:
        assert (await world.chat().send("Go on.")).status == "done"
        assert offered(provider) == [READ]


async def test_a_client_that_brings_every_tool_does_not_widen_it(tmp_path: Path, provider: Provider) -> None:
    """A process of an older version sends the whole catalog with each message."""
    async with opened(tmp_path / "w", provider) as world:
        chat = world.chat()
        await chat.use_tools([CLOCK])
        message = world.blobs.put(canonical_json.encode({"role": "user", "content": "Hello"}))
        value = {"chat_id": "main", "request_id": 1, "text": "", "message_ref": message, "max_tokens": 64}
        value |= {"model": "m", "provider": "openai-responses", "tools_ref": await world.tools_ref()}
        await world.submit("demiurge/UserMessage@1", value)
        await world.settle()
        assert provider.seen == []
        assert (await chat.send("And now?")).status == "done"
        assert offered(provider) == [CLOCK]


async def test_no_toolset_is_set_while_a_person_decides(tmp_path: Path, provider: Provider) -> None:
    provider.say(Provider.answer(Provider.call(CLOCK, {})), YES)
    policy = ToolPolicy(allowed_tools=(CLOCK, READ), require_approval_for_tools=(CLOCK,))
    async with opened(tmp_path / "w", provider, policy=policy) as world:
        assert (await world.chat().send("When?")).status == "awaiting_approval"
        with pytest.raises(Conflict) as busy:
            await world.chat().use_tools([READ])
        assert busy.value.code == "chat_busy"


async def test_a_fork_has_the_toolset_of_its_chat(tmp_path: Path, provider: Provider) -> None:
    async with opened(tmp_path / "w", provider) as world:
        await world.chat().use_tools([CLOCK, READ])
        await world.chat().send("Go on.")
        await world.fork(tmp_path / "fork")
        await world.chat().use_tools(None)
    async with opened(tmp_path / "fork", provider) as fork:
        assert (await fork.chat().send("Go on.")).status == "done"
        assert offered(provider) == [CLOCK, READ]
        assert (await fork.replay())["ok"]


SECOND = """
import asyncio, sys
from demiurge import World

async def main():
    async with World.open(sys.argv[1]) as world:
        assert not world.owned
        chat = world.chat()
        assert (await chat.send("All of the chat's.")).status == "done"
        assert (await chat.send("One.", tools=[sys.argv[2]])).status == "done"
        await chat.use_tools([sys.argv[3]])

asyncio.run(main())
"""


async def test_a_process_that_joined_keeps_and_sets_the_toolset(tmp_path: Path, provider: Provider) -> None:
    environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url, "HOME": str(tmp_path)}
    async with opened(tmp_path / "w", provider) as world:
        chat = world.chat()
        await chat.use_tools([CLOCK, READ])
        command = [sys.executable, "-c", SECOND, str(tmp_path / "w"), CLOCK, LIST]
        joined = await to_end(command, environment)
        assert joined.returncode == 0, joined.stderr
        assert [sorted(tool["name"] for tool in asked["tools"]) for asked in provider.seen] == [[CLOCK, READ], [CLOCK]]
        await chat.send("And now?")
        assert offered(provider) == [LIST]
        assert (await world.replay())["ok"]


async def to_end(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=environment, cwd=PROJECT, capture_output=True, text=True, timeout=60)

    return await asyncio.to_thread(run)
