"""The list of tools that a client of the gateway sees."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from tests.mcp.gateway.conftest import AGENT, ERAS, OTHER, VIEWER, Shop, refuses_as_unknown

from demiurge import ToolEffect, ToolPolicy, World, tool
from demiurge.bootstrap.backend.reading import Reading
from demiurge.bootstrap.gateway import Catalogs, GatewayWorld, saving, searched
from demiurge.mcp.gateway.catalog import PAGE
from demiurge.mcp.gateway.names import ToolNames
from demiurge.mcp.gateway.server import McpGateway
from mcp import Client


async def names(client: Client) -> list[str]:
    return [each.name for each in (await client.list_tools(cache_mode="refresh")).tools]


@pytest.mark.parametrize("mode", ERAS)
async def test_the_list_is_what_the_policy_allows_the_caller(shop: Shop, mode: str) -> None:
    async with shop.client(AGENT, mode) as client:
        assert await names(client) == ["add", "book", "note", "plot", "report", "sell", "send_parcel", "wait_for_word"]
        add, *_, send, _wait = (await client.list_tools()).tools
    assert add.description == "Add two numbers."
    assert add.input_schema["required"] == ["a", "b"]
    assert add.annotations == types.ToolAnnotations(read_only_hint=True, destructive_hint=False)
    assert send.annotations is not None
    assert send.annotations.open_world_hint


async def test_rules_of_the_policy_decide_by_role(tmp_path: Path, shop: Shop) -> None:
    rules = [{"name": "leads", "roles": ["approver"], "allowed_tools": ["note"]}]
    policy = ToolPolicy.from_json({**ToolPolicy(allowed_tools=("add",)).to_json(), "rules": rules})
    await shop.world.set_policy(policy)
    async with shop.client(AGENT) as client:
        assert await names(client) == ["add"]


async def test_a_caller_that_may_call_nothing_sees_nothing(shop: Shop) -> None:
    async with shop.client(VIEWER) as client:
        assert await names(client) == []
        result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.is_error
    assert result.structured_content["error_code"] == "role_missing"


async def test_one_server_s_tools_stand_under_their_own_names(shop: Shop) -> None:
    chosen = ToolNames(own_names={"add": "plus", "hidden": "secret"})
    async with shop.client(names=chosen) as client:
        assert await names(client) == ["plus"]
        assert (await client.call_tool("plus", {"a": 1, "b": 2})).structured_content == {"sum": 3}
        await refuses_as_unknown(client, "add", {"a": 1, "b": 2})


async def test_a_filter_offers_no_other_tool(shop: Shop) -> None:
    async with shop.client(names=ToolNames(only=frozenset(("note",)))) as client:
        assert await names(client) == ["note"]
        await refuses_as_unknown(client, "add", {"a": 1, "b": 2})


async def test_shipped_tools_are_offered_last_and_only_if_asked_for(tmp_path: Path) -> None:
    policy = ToolPolicy(("workspace__list", "core__read_result", "tool_001"))
    async with World.open(tmp_path / "w", [many(1)], policy) as world:
        catalog = await GatewayWorld(world).catalog()
    offered = [name for name, _ in ToolNames().offered(catalog)]
    assert offered == ["tool_001", "core__read_result", "workspace__list"]
    own = ToolNames(with_shipped=False)
    assert [name for name, _ in own.offered(catalog)] == ["tool_001", "core__read_result"]
    assert (own.id_of("workspace__list"), own.id_of("tool_001")) == (None, "tool_001")
    assert ToolNames(only=("workspace__list",), with_shipped=False).id_of("workspace__list") == "workspace__list"


def many(number: int) -> Any:
    @tool(name=f"tool_{number:03}", effect=ToolEffect.READ_ONLY)
    def made() -> str:
        """One of many."""
        return str(number)

    return made


@pytest.mark.parametrize("mode", ERAS)
async def test_a_long_list_comes_in_pages(tmp_path: Path, mode: str) -> None:
    tools = [many(number) for number in range(2 * PAGE + 5)]
    policy = ToolPolicy(allowed_tools=tuple(each.name for each in tools))
    async with World.open(tmp_path / "w", tools, policy) as world:
        own = GatewayWorld(world, Catalogs())

        async def key() -> bytes:
            return b"k" * 32

        async with Client(McpGateway(lambda _: own, key).server, mode=mode) as client:
            found, cursor, pages = [], None, 0
            while cursor is not None or not pages:
                page = await client.list_tools(cursor=cursor)
                found += [each.name for each in page.tools]
                cursor, pages = page.next_cursor, pages + 1
            assert found == sorted(each.name for each in tools)
            assert pages == 3
            with pytest.raises(MCPError, match="cursor"):
                await client.list_tools(cursor="%")


@pytest.mark.parametrize("mode", ERAS)
async def test_clients_hear_of_a_change_of_the_policy(shop: Shop, mode: str) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            heard.put_nowait(message)

    gateway = shop.gateway(AGENT)
    following = asyncio.create_task(gateway.follow(GatewayWorld(shop.world.acting_as(AGENT))))
    async with Client(gateway.server, mode=mode, message_handler=on_message) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        assert "note" in await names(client)
        if mode == "legacy":
            await shop.world.set_policy(ToolPolicy(allowed_tools=("add",)))
            await heard.get()
        else:
            async with client.listen(tools_list_changed=True) as events:
                await shop.world.set_policy(ToolPolicy(allowed_tools=("add",)))
                await anext(aiter(events))
        assert await names(client) == ["add"]
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await gateway.close()


async def test_a_catalog_that_was_read_before_a_change_is_not_kept(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogs, info = Catalogs(), Reading.info
    read: list[Any] = []

    async def changed_after_reading(reading: Reading) -> Any:
        found = await info(reading)
        if not read:
            read.append(found)
            await shop.world.set_policy(ToolPolicy(allowed_tools=("add",)))
            await catalogs.of(shop.world.acting_as(OTHER))
        return found

    monkeypatch.setattr(Reading, "info", changed_after_reading)
    await catalogs.of(shop.world.acting_as(AGENT))
    assert [spec.name for spec in await catalogs.of(shop.world.acting_as(AGENT))] == ["add"]


async def test_a_client_that_does_not_read_keeps_no_other_from_hearing_of_a_change(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demiurge.mcp.gateway.server.TELL_S", 1)
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def never_read(_connection: Any) -> None:
        await asyncio.Event().wait()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            heard.put_nowait(message)

    gateway = shop.gateway(AGENT)
    stuck = type("Stuck", (), {"send_tool_list_changed": never_read})()
    gateway._connections.add(stuck)
    following = asyncio.create_task(gateway.follow(GatewayWorld(shop.world.acting_as(AGENT))))
    async with Client(gateway.server, mode="legacy", message_handler=on_message) as client:
        await names(client)
        for allowed in (("add",), ("add", "note")):
            await shop.world.set_policy(ToolPolicy(allowed_tools=allowed))
            await heard.get()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await gateway.close()


async def test_a_client_that_searches_is_listed_few_tools_and_calls_what_it_finds(tmp_path: Path) -> None:
    @tool(effect=ToolEffect.READ_ONLY)
    def weigh_parcel(number: int) -> int:
        """Weigh a parcel."""
        return number

    wordy = [tool(name=f"wordy_{at}", effect=ToolEffect.READ_ONLY)(_wordy()) for at in range(8)]
    async with World.open(tmp_path / "w", [weigh_parcel, *wordy]) as world:
        own = GatewayWorld(world, Catalogs())
        catalog = await own.catalog()

        async def key() -> bytes:
            return b"k" * 32

        gateway = McpGateway(lambda _: own, key, ToolNames(), listed=searched)
        async with Client(gateway.server) as client:
            [find, read] = (await client.list_tools()).tools
            assert (find.name, read.name) == ("core__find_tools", "core__read_result")
            assert "weigh_parcel" in str(find.description)
            found = (await client.call_tool(find.name, {"query": "the weight of a parcel"})).structured_content
            assert found is not None
            assert found["tools"][0]["id"] == "weigh_parcel"
            assert found["tools"][0]["input_schema"]["required"] == ["number"]
            assert not (await client.call_tool("weigh_parcel", {"number": 3})).is_error
        await gateway.close()
    assert f"find {len(catalog) - 2} more" in saving(catalog)


def _wordy() -> Any:
    def made() -> str:
        return ""

    made.__doc__ = "Say words.\n\n" + "Words. " * 250
    return made
