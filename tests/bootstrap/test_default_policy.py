"""The policy of a world for which nobody names one: the user's own read-only tools run, others are asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from demiurge import ToolPolicy, World
from demiurge.bootstrap import opening
from demiurge.bootstrap.manifest import Definitions
from demiurge.bootstrap.policy_view import explain_tool
from demiurge.bootstrap.shipped_tools import SHIPPED_TOOLS
from demiurge.tools import (
    BoundTool,
    CompositeToolSource,
    Redaction,
    StaticToolSource,
    Tool,
    ToolContext,
    ToolEffect,
    ToolResult,
)
from demiurge.tools.foreign.tool import foreign_tool

ALLOW, ASK = "allow", "require_approval"


def stock_count(part: str) -> str:
    """How many pieces of a part are in stock."""
    return f"120 of {part}"


READS: Tool[Any, Any] = Tool.wrap(stock_count, effect=ToolEffect.READ_ONLY)
CHANGES: Tool[Any, Any] = Tool.wrap(stock_count, effect=ToolEffect.STATE_CHANGE)
UNDECLARED: Tool[Any, Any] = Tool.wrap(stock_count)


def foreign(name: str = "stock_count") -> BoundTool:
    def call(arguments: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        return ToolResult("Anything.", {})

    schema = {"type": "object", "properties": {"part": {"type": "string"}}}
    return foreign_tool(name, "", schema, call, redaction=Redaction(), effect=ToolEffect.READ_ONLY)


class Listing(StaticToolSource):
    """A source of the user's own making, whose tools may change."""


class Server:
    """A source that has to be asked."""

    def __init__(self, *tools: BoundTool | Tool[Any, Any]) -> None:
        self.tools: Sequence[BoundTool | Tool[Any, Any]] = tools

    async def list_tools(self) -> Sequence[BoundTool | Tool[Any, Any]]:
        return self.tools


WHY = {
    "read_only": "a server or another source lists it",
    "state_change": "it changes the state of this world",
    "external_side_effect": "its effect level is external_side_effect, as that of each tool that declares none",
}


def opened(path: Path, tools: Any, **more: Any) -> World:
    return World.open(path, tools=tools, environment={"HOME": str(path.parent)}, **more)


def joining(path: Path, tools: Any, **more: Any) -> World:
    """The world as another process joins it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "take_ownership", lambda *_args, **_options: None)
        return opened(path, tools, **more)


async def decision(world: World, name: str = "stock_count") -> str:
    manifest = await asyncio.to_thread(world.manifest)  # another world of this process may have to answer
    policy = ToolPolicy.from_json(manifest["tool_policy"])
    if name not in policy.allowed_tools:
        return "deny"
    return ASK if name in policy.require_approval_for_tools else ALLOW


def definitions(folder: Path, *tools: BoundTool | Tool[Any, Any]) -> Path:
    """A folder with the shipped definitions and a toolset that words these tools."""
    given = Definitions.shipped()
    toolset = {"$kind": "deftoolset", "name": "ex/own@1", "tools": [each.spec.to_json() for each in tools]}
    root = {"$kind": "manifest", **given.root, "toolsets": ["ex/own@1"]}
    folder.mkdir()
    (folder / "all.json").write_bytes(json.dumps([*given.definitions, toolset, root], default=dict).encode())
    return folder


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([READS], ALLOW),
        ([READS.bound], ALLOW),
        (StaticToolSource([READS]), ALLOW),
        ([StaticToolSource([READS])], ALLOW),
        ([CHANGES], ASK),
        ([UNDECLARED], ASK),
        ([foreign()], ASK),
        (StaticToolSource([foreign()]), ASK),
        (Listing([READS]), ASK),
        (CompositeToolSource(StaticToolSource([READS])), ASK),
        (Server(READS), ASK),
        ([Server(READS.bound)], ASK),
    ],
)
async def test_only_read_only_code_that_the_user_named_runs_without_being_asked_for(
    tmp_path: Path, given: Any, expected: str
) -> None:
    async with opened(tmp_path / "w", given) as world:
        assert await decision(world) == expected
        called = await world.call("stock_count", '{"part": "bolt"}')
        assert called.status == ("done" if expected == ALLOW else "awaiting_approval")
        explained = explain_tool(await asyncio.to_thread(world.manifest), "stock_count", world.caller)
        assert explained["why"].startswith(WHY[explained["effect"]] if expected == ASK else "it is among allowed_tools")
        await world.refresh_tools()
        assert await decision(world) == expected


async def test_a_named_policy_is_explained_by_its_line(tmp_path: Path) -> None:
    policy = ToolPolicy(("stock_count",), require_approval_for_tools=("stock_count",))
    async with opened(tmp_path / "w", [CHANGES], policy=policy) as world:
        explained = explain_tool(await asyncio.to_thread(world.manifest), "stock_count", world.caller)
        assert explained["why"] == "it is among require_approval_for_tools"


async def test_the_shipped_tools_that_only_read_are_allowed(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", ()) as world:
        for shipped in SHIPPED_TOOLS:
            assert await decision(world, shipped.name) == (ALLOW if shipped.effect is ToolEffect.READ_ONLY else ASK)


async def test_a_tool_that_a_source_lists_later_is_asked_for(tmp_path: Path) -> None:
    server = Server()
    async with opened(tmp_path / "w", [READS, server]) as world:
        server.tools = [foreign("mcp__prices")]
        assert await world.refresh_tools()
        assert (await decision(world), await decision(world, "mcp__prices")) == (ALLOW, ASK)


async def test_code_that_changes_something_now_is_asked_for_whatever_the_records_say(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", [READS]) as world:
        assert (await world.call("stock_count", '{"part": "bolt"}')).status == "done"
    async with opened(tmp_path / "w", [CHANGES]) as world:
        assert await decision(world) == ASK
        assert (await world.call("stock_count", '{"part": "nut"}')).status == "awaiting_approval"
        assert (await world.replay())["ok"]


@pytest.mark.parametrize(("own", "worded"), [(CHANGES, READS), (READS, CHANGES), (READS, foreign())])
async def test_a_toolset_of_the_definitions_gives_no_permission(
    tmp_path: Path, own: Tool[Any, Any], worded: BoundTool | Tool[Any, Any]
) -> None:
    folder = definitions(tmp_path / "definitions", worded)
    async with opened(tmp_path / "w", [own], manifest=folder) as world:
        assert await decision(world) == ASK
        assert (await world.call("stock_count", '{"part": "bolt"}')).status != "done"


async def test_a_toolset_that_words_the_users_own_tool_lets_it_run(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", [READS], manifest=definitions(tmp_path / "definitions", READS)) as world:
        assert await decision(world) == ALLOW
        assert (await world.call("stock_count", '{"part": "bolt"}')).status == "done"


async def test_a_process_that_joins_gives_the_owners_tools_no_permission(tmp_path: Path) -> None:
    async with opened(tmp_path / "w", Server(READS)) as world, joining(tmp_path / "w", ()) as joined:
        assert not joined.owned
        assert await decision(joined) == await decision(world) == ASK
    async with opened(tmp_path / "w", Server(READS)):
        joined = await asyncio.to_thread(joining, tmp_path / "w", [READS])
        assert await decision(joined) == ASK
    try:
        await joined.call("stock_count", '{"part": "bolt"}')
        assert joined.owned
        assert await decision(joined) == ALLOW, "nobody named a policy, and this process has the tool as its own code"
    finally:
        await joined.close()


async def test_a_successor_keeps_a_policy_that_asks_for_its_own_tool(tmp_path: Path) -> None:
    names = tuple(each.name for each in (*SHIPPED_TOOLS, READS))
    asked = tuple(each.name for each in SHIPPED_TOOLS if each.effect is not ToolEffect.READ_ONLY)
    named = ToolPolicy(allowed_tools=names, require_approval_for_tools=(*asked, "stock_count"))
    async with opened(tmp_path / "w", [READS]) as world:
        joined = await asyncio.to_thread(joining, tmp_path / "w", [READS])
        await joined.refresh_tools()
        await world.set_policy(named)
        assert await decision(joined) == ASK
    try:
        assert not await joined.refresh_tools()
        assert joined.owned
        assert await decision(joined) == ASK
    finally:
        await joined.close()


async def test_a_successor_without_a_named_policy_asks_for_tools_that_come_later(tmp_path: Path) -> None:
    server = Server(foreign("mcp__a"))
    async with opened(tmp_path / "w", Server(foreign("mcp__a"))):
        joined = joining(tmp_path / "w", server)
        assert await joined.refresh_tools()
    server.tools = [foreign("mcp__b")]
    try:
        assert await joined.refresh_tools()
        assert joined.owned
        assert await decision(joined, "mcp__b") == ASK
    finally:
        await joined.close()
