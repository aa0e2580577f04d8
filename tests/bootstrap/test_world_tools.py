"""A world takes tools, bound tools and sources, and what its sources list can change while it is open."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider, serving

from demiurge import ToolPolicy, World, tool
from demiurge.apps.demiurge import app
from demiurge.bootstrap import opening
from demiurge.errors import Conflict, DemiurgeError, Unavailable
from demiurge.tools import (
    BoundTool,
    PromptValidationError,
    Redaction,
    StaticToolSource,
    Tool,
    ToolContext,
    ToolEffect,
    ToolResult,
)
from demiurge.tools.foreign.tool import foreign_tool
from demiurge.tools.spec import ToolSpec
from demiurge.world.manifest_log import MANIFESTS

ANY = {"type": "object", "properties": {"n": {"type": "integer"}}}
YES = Provider.answer(Provider.text("Done."))


def foreign(name: str, description: str = "Look something up.") -> BoundTool:
    def call(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        return ToolResult(f"{name}: {description}", {"n": arguments.get("n", 0) + 1})

    return foreign_tool(name, description, ANY, call, redaction=Redaction.allow("n"), effect=ToolEffect.READ_ONLY)


@dataclass(frozen=True)
class Count:
    pieces: int


@tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.allow("pieces"))
def stock_count(part: str) -> Count:
    """How many pieces of a part are in stock."""
    return Count(120)


class Shelf:
    """A source whose tools come and go."""

    def __init__(self, *tools: BoundTool) -> None:
        self.tools = {tool.spec.name: tool for tool in tools}

    def put(self, *tools: BoundTool) -> None:
        self.tools = {tool.spec.name: tool for tool in tools}

    def get(self, tool_id: str) -> BoundTool | None:
        return self.tools.get(tool_id)

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self.tools.values())


class Server:
    """A source that has to be asked."""

    def __init__(self, *tools: BoundTool | Tool[Any, Any]) -> None:
        self.tools: Sequence[BoundTool | Tool[Any, Any]] = tools
        self.problem: Exception | None = None
        self.asked = 0

    async def list_tools(self) -> Sequence[BoundTool | Tool[Any, Any]]:
        self.asked += 1
        if self.problem is not None:
            raise self.problem
        return self.tools


ALL = ToolPolicy(allowed_tools=("stock_count", "mcp__a", "mcp__b", "mcp__c"))


def opened(path: Path, tools: Any, policy: ToolPolicy | None = ALL, **more: Any) -> World:
    return World.open(path, tools=tools, policy=policy, environment={}, **more)


def joining(path: Path, tools: Any) -> World:
    """The world as a process opens it that another one has let in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "take_ownership", lambda *_args, **_options: None)
        return opened(path, tools, None if not tools else ALL)


async def answer(world: World, name: str) -> tuple[str, str | None]:
    done = await world.call(name, '{"n": 1}')
    return done.status, done.error_code


async def catalog(world: World) -> set[str]:
    return {spec["name"] for spec in (await world.info())["catalog"]}


def manifests(world: World) -> list[str]:
    """The manifests that units took, in order; without the unit that is the log of them."""
    return [r.body["ref"] for r in world.journal.read() if r.kind == "manifest" and r.unit != str(MANIFESTS)]


async def test_a_world_takes_tools_bound_tools_and_sources_together(tmp_path: Path) -> None:
    given = [stock_count, foreign("mcp__a"), StaticToolSource([foreign("mcp__b")]), Server(foreign("mcp__c"))]
    async with opened(tmp_path / "w", given) as world:
        assert await catalog(world) == {"stock_count", "mcp__a", "mcp__b", "mcp__c"}
        for name in ("mcp__a", "mcp__b", "mcp__c"):
            assert await answer(world, name) == ("done", None)
        assert (await world.call("stock_count", '{"part": "bolt"}')).status == "done"
        assert (await world.replay())["ok"]


@pytest.mark.parametrize("source", [StaticToolSource([foreign("mcp__a")]), Server(foreign("mcp__a"))])
async def test_a_source_may_stand_alone(tmp_path: Path, source: Any) -> None:
    async with opened(tmp_path / "w", source) as world:
        assert await answer(world, "mcp__a") == ("done", None)


async def test_the_default_policy_has_a_person_asked_about_the_tools_of_a_source(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", Server(foreign("mcp__a")), policy=None) as world:
        assert (await answer(world, "mcp__a"))[0] == "awaiting_approval"
        assert (await answer(world, "core__get_current_time"))[0] != "awaiting_approval"


@pytest.mark.parametrize("given", [7, [7], stock_count, ["stock_count"]])
def test_a_value_that_is_no_tool_is_refused(tmp_path: Path, given: Any) -> None:
    with pytest.raises(PromptValidationError, match="tools are"):
        opened(tmp_path / "w", given)


async def test_a_source_that_changes_is_taken_at_refresh_and_by_each_unit_at_its_next_event(tmp_path: Path) -> None:
    shelf = Shelf(foreign("mcp__a"))
    async with opened(tmp_path / "w", [stock_count, shelf]) as world:
        await world.chat().create()
        first = (await world.info())["manifest"]
        shelf.put(foreign("mcp__b"))
        assert await catalog(world) == {"stock_count", "mcp__a"}
        assert await answer(world, "mcp__a") == ("done", None)
        assert await world.refresh_tools()
        second = (await world.info())["manifest"]
        assert await catalog(world) == {"stock_count", "mcp__b"}
        assert set(manifests(world)) == {first}
        assert await answer(world, "mcp__b") == ("done", None)
        assert await answer(world, "mcp__a") == ("failed", "unavailable")
        assert manifests(world)[-1] == second != first
        chat = world.chat()
        await world.submit("demiurge/ChatTools@1", {"chat_id": chat.id, "tools_ref": None, "tool_choice": None})
        told = [r.body["ref"] for r in world.journal.read(f"demiurge/Demiurge@1/{chat.id}") if r.kind == "manifest"]
        assert told == [first, second]
        assert (await world.replay())["ok"]
    async with opened(tmp_path / "w", [stock_count, shelf]) as world:
        assert (await world.info())["manifest"] == second
        assert (await world.replay())["ok"]


async def test_a_refresh_of_an_unchanged_source_changes_nothing(tmp_path: Path) -> None:
    server = Server(foreign("mcp__a"))
    async with opened(tmp_path / "w", server) as world:
        await answer(world, "mcp__a")
        before = (await world.info())["manifest"], manifests(world)
        assert not await world.refresh_tools()
        await answer(world, "mcp__a")
        assert (await world.info())["manifest"] == before[0]
        assert set(manifests(world)) == set(before[1])
        assert server.asked == 2


async def test_a_world_without_sources_has_nothing_to_refresh(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", [stock_count]) as world:
        assert not await world.refresh_tools()


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (ConnectionError("reset"), "tools_unlisted"),
        (Unavailable("The server sleeps.", code="asleep"), "asleep"),
        (None, "tool_id_collision"),
    ],
)
async def test_a_listing_that_fails_changes_nothing(tmp_path: Path, problem: Exception | None, code: str) -> None:
    server = Server(foreign("mcp__a"))
    async with opened(tmp_path / "w", server) as world:
        before = await world.info()
        server.problem, server.tools = problem, [foreign("mcp__b"), foreign("mcp__b")]
        with pytest.raises(DemiurgeError) as told:
            await world.refresh_tools()
        assert told.value.code == code
        assert await world.info() == before
        assert await answer(world, "mcp__a") == ("done", None)


async def test_a_source_that_can_t_be_listed_keeps_the_world_from_being_entered(tmp_path: Path) -> None:
    server = Server(foreign("mcp__a"))
    server.problem = OSError()
    with pytest.raises(Unavailable, match=r"Server can't list its tools \(OSError\)"):
        async with opened(tmp_path / "w", server):
            raise AssertionError
    server.problem = None
    async with opened(tmp_path / "w", server) as world:
        assert await catalog(world) == {"mcp__a"}


async def test_a_call_that_waits_for_a_person_is_not_made_with_a_tool_that_changed(tmp_path: Path) -> None:
    asks = ToolPolicy(allowed_tools=ALL.allowed_tools, require_approval_for_tools=("mcp__a", "mcp__b"))
    shelf = Shelf(foreign("mcp__a"), foreign("mcp__b"))
    async with opened(tmp_path / "w", shelf, asks) as world:
        waiting = [await world.call(name, "{}") for name in ("mcp__a", "mcp__b")]
        shelf.put(foreign("mcp__a", "Look something else up."))
        assert await world.refresh_tools()
        for asked in await world.approvals():
            await world.decide(asked["id"], approve=True)
        await world.settle()
        ended = [r.body["payload"] for r in world.journal.read() if r.kind == "receipt"]
        assert [(said["ok"], said["error_code"]) for said in ended] == [(False, "approval_expired")] * 2
        assert len(ended) == len(waiting)
        assert (await world.replay())["ok"]


async def test_a_tool_that_came_later_is_offered_and_called_in_an_open_chat(tmp_path: Path) -> None:
    shelf = Shelf(foreign("mcp__a"))
    with serving() as provider:
        provider.say(YES, Provider.answer(Provider.call("mcp__b", {"n": 1})), YES)
        environment = {"LLM_API_KEY": "sk-example", "OPENAI_BASE_URL": provider.url}
        async with World.open(tmp_path / "w", shelf, ALL, environment=environment) as world:
            chat = world.chat()
            await chat.send("Hello.")
            shelf.put(foreign("mcp__a"), foreign("mcp__b"))
            await world.refresh_tools()
            [called] = (await chat.send("Look it up.")).tool_calls
            assert (called.ok, called.error_code) == (True, None)
            assert (await world.replay())["ok"]


@pytest.mark.parametrize("prompt", [None, "Be brief."])
async def test_a_chat_has_its_system_prompt_where_the_tools_were_listed_later(
    tmp_path: Path, prompt: str | None
) -> None:
    with serving() as provider:
        provider.say(YES)
        environment = {"LLM_API_KEY": "sk-example", "OPENAI_BASE_URL": provider.url}
        async with World.open(tmp_path / "w", Server(foreign("mcp__a")), ALL, prompt, environment=environment) as world:
            assert (await world.chat().send("Hello.")).status == "done"
        assert (prompt or app().system_prompt).splitlines()[0] in str(provider.seen[-1])


async def test_a_joined_process_sees_the_tools_that_its_owner_took_in(tmp_path: Path) -> None:
    shelf = Shelf(foreign("mcp__a"))
    async with opened(tmp_path / "w", shelf) as world, joining(tmp_path / "w", ()) as joined:
        assert not joined.owned
        shelf.put(foreign("mcp__b"))
        await world.refresh_tools()
        assert await catalog(joined) == {"mcp__b"}
        assert (await joined.info())["manifest"] == (await world.info())["manifest"]
        assert await answer(world, "mcp__b") == ("done", None)


async def test_a_successor_takes_in_the_tools_that_its_own_sources_list(tmp_path: Path) -> None:
    server = Server(foreign("mcp__a"))
    async with opened(tmp_path / "w", Server(foreign("mcp__a"))):
        joined = await asyncio.to_thread(joining, tmp_path / "w", server)
        assert await joined.refresh_tools()
    server.tools = [foreign("mcp__b")]
    try:
        assert await joined.refresh_tools()
        assert joined.owned
        assert await answer(joined, "mcp__b") == ("done", None)
    finally:
        await joined.close()


async def test_listings_that_overlap_end_with_the_last_one_in_force(tmp_path: Path) -> None:
    turns = [asyncio.Event() for _ in range(3)]

    class Slow(Server):
        async def list_tools(self) -> Sequence[BoundTool | Tool[Any, Any]]:
            number, self.asked = self.asked, self.asked + 1
            await turns[number].wait()
            return [foreign(f"mcp__{'abc'[number]}")]

    turns[0].set()
    async with opened(tmp_path / "w", Slow()) as world:
        refreshing = [asyncio.create_task(world.refresh_tools()) for _ in range(2)]
        await asyncio.sleep(0)
        turns[2].set()
        await asyncio.wait(refreshing, timeout=0.1)
        turns[1].set()
        assert await asyncio.gather(*refreshing) == [True, True]
        assert await catalog(world) == {"mcp__c"}
        assert await answer(world, "mcp__c") == ("done", None)


async def test_a_process_that_joins_with_other_tools_of_a_source_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", Server(foreign("mcp__a"))):
        async with await asyncio.to_thread(joining, tmp_path / "w", Server(foreign("mcp__a"))) as joined:
            assert not joined.owned
            assert not await joined.refresh_tools()
        with pytest.raises(Conflict, match="other tools"):
            async with await asyncio.to_thread(joining, tmp_path / "w", Server(foreign("mcp__b"))):
                raise AssertionError


async def test_results_of_bound_tools_are_session_events_like_those_of_tools(tmp_path: Path) -> None:
    for number, given in enumerate(([stock_count], [stock_count.bound], StaticToolSource([stock_count]))):
        async with opened(tmp_path / str(number), given) as world:
            assert Count in world.sessions.codec.classes


def plain_count(part: str) -> int:
    """Counts a part."""
    return len(part)


async def test_a_plain_function_is_a_tool_of_a_world_and_a_person_is_asked(tmp_path: Path) -> None:
    with serving() as provider:
        provider.say(Provider.answer(Provider.call("plain_count", {"part": "nut"})), YES)
        environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.url}
        async with World.open(tmp_path / "w", [plain_count, stock_count], environment=environment) as world:
            reply = await world.chat().send("Count.")
            assert reply.status == "awaiting_approval"
            [listed] = [spec for spec in (await world.info())["catalog"] if spec["name"] == "plain_count"]
            assert (listed["description"], listed["effect"]) == ("Counts a part.", "external_side_effect")
    with pytest.raises(PromptValidationError, match="tools are Tools or functions, not int"):
        opened(tmp_path / "w2", [3])
