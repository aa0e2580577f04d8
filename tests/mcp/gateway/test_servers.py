"""Trusted tools of other MCP servers through the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import mcp_types as types
import pytest
from pydantic import Field
from tests.bootstrap.mcp.mcp_worlds import READS, SHOP, Shop, opened
from tests.mcp.gateway.conftest import ERAS, refuses_as_unknown, text_of
from tests.mcp.gateway.test_http import connected, post, token
from tests.server.conftest import served_on

from demiurge import ToolPolicy, World
from demiurge.bootstrap.gateway import Catalogs, GatewayWorld, own_names
from demiurge.mcp.gateway import server as gateway_server
from demiurge.mcp.gateway.names import ToolNames
from demiurge.mcp.gateway.server import McpGateway
from mcp import Client


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Shop:
    made = Shop()
    made.connect(monkeypatch)
    return made


def gateway_to(world: World, names: ToolNames | None = None) -> tuple[McpGateway, GatewayWorld]:
    own = GatewayWorld(world, Catalogs())

    async def key() -> bytes:
        return b"k" * 32

    return McpGateway(lambda _: own, key, names or ToolNames()), own


async def names(client: Client) -> list[str]:
    found = (await client.list_tools(cache_mode="refresh")).tools
    return [each.name for each in found if not each.name.startswith(("core__", "workspace__", "introspect__"))]


@asynccontextmanager
async def hearing(
    gateway: McpGateway, own: GatewayWorld, mode: str
) -> AsyncIterator[tuple[Client, asyncio.Queue[Any]]]:
    """A client that hears of changes of the tools, and a queue of what it heard."""
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            heard.put_nowait(message)

    async def listen(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as events:
            heard.put_nowait("listens")
            async for event in events:
                heard.put_nowait(event)

    async with AsyncExitStack() as stack:
        working = [asyncio.create_task(gateway.follow(own))]
        client = await stack.enter_async_context(Client(gateway.server, mode=mode, message_handler=on_message))
        if mode != "legacy":
            working.append(asyncio.create_task(listen(client)))
            await heard.get()
        yield client, heard
        for each in working:
            each.cancel()
        await asyncio.gather(*working, return_exceptions=True)


@pytest.mark.parametrize("mode", ERAS)
async def test_only_trusted_tools_are_offered_and_clients_hear_of_each_change(
    mode: str, tmp_path: Path, server: Shop
) -> None:
    async with opened(tmp_path / "w") as world:
        await world.mcp.add(SHOP)
        await world.mcp.refresh("shop")
        async with hearing(*gateway_to(world), mode) as (client, heard):

            async def hears_of(*expected: str) -> None:
                await heard.get()
                while await names(client) != list(expected):
                    await heard.get()

            assert await names(client) == []
            await world.mcp.trust("shop", ["price"], rule="allow")
            await hears_of("mcp__shop__price")
            result = await client.call_tool("mcp__shop__price", {"part": "bolt"})
            refused = await client.call_tool("mcp__shop__order", {"part": "bolt"})
            server.put("price", "Another text.", READS)
            await world.mcp.refresh("shop")
            await hears_of()
            await world.mcp.trust("shop", rule="allow")
            await hears_of("mcp__shop__order", "mcp__shop__price")
            await world.set_policy(ToolPolicy(allowed_tools=("mcp__shop__order",)))
            await hears_of("mcp__shop__order")
    assert "price of bolt" in text_of(result)
    assert refused.is_error
    assert server.calls == ["price bolt"]


async def test_the_gateway_stands_in_for_one_server(tmp_path: Path, server: Shop) -> None:
    async with opened(tmp_path / "w") as world:
        await world.mcp.add(SHOP)
        await world.mcp.refresh("shop")
        await world.mcp.trust("shop", ["price"], rule="allow")
        await world.mcp.trust("shop", ["order"], rule="ask")
        gateway, _ = gateway_to(world, ToolNames(own_names=await own_names(world, "shop")))
        async with Client(gateway.server) as client:
            assert await names(client) == ["order", "price"]
            waits = await client.call_tool("order", {"part": "bolt"})
            await world.decide(waits.structured_content["approval"], approve=True)
            done = await client.call_tool("order", {"part": "bolt"})
            await refuses_as_unknown(client, "core__get_current_time", {})
    assert text_of(done) == "order of bolt"
    assert server.calls == ["order bolt"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_tool_that_the_one_server_lists_later_is_offered_once_it_is_trusted(
    mode: str, tmp_path: Path, server: Shop
) -> None:
    async with opened(tmp_path / "w") as world:
        await world.mcp.add(SHOP)
        now_named = partial(own_names, world, "shop")
        gateway, own = gateway_to(world, ToolNames(own_names=await now_named(), server="shop"))
        gateway.own_names = now_named
        async with hearing(gateway, own, mode) as (client, heard):
            assert await names(client) == []
            await world.mcp.trust("shop", ["price"], rule="allow")
            await heard.get()
            while await names(client) != ["price"]:
                await heard.get()
            result = await client.call_tool("price", {"part": "bolt"})
    assert "price of bolt" in text_of(result)


@pytest.mark.parametrize(
    ("options", "offered"), [({"mcp_server": "shop"}, ["price"]), ({"mcp_tools": ("mcp__shop__order",)}, [])]
)
async def test_a_served_world_offers_what_it_is_told_to(
    options: dict[str, Any], offered: list[str], tmp_path: Path, server: Shop
) -> None:
    async with opened(tmp_path / "w") as world:
        await world.mcp.add(SHOP)
        await world.mcp.trust("shop", ["price"], rule="allow")
        async with (
            served_on(world, None, **options) as served,
            connected(served, await token(served, "agent"), "auto") as client,
        ):
            assert [each.name for each in (await client.list_tools()).tools] == offered
            if offered:
                assert text_of(await client.call_tool("price", {"part": "bolt"})) == "price of bolt"
            else:
                await refuses_as_unknown(client, "price", {"part": "bolt"})
    assert len(server.calls) == len(offered)


async def test_a_served_world_offers_what_its_one_server_lists_later(tmp_path: Path, server: Shop) -> None:
    async with opened(tmp_path / "w") as world:
        await world.mcp.add(SHOP)
        async with (
            served_on(world, None, mcp_server="shop") as served,
            connected(served, await token(served, "agent"), "auto") as client,
        ):
            assert await names(client) == []
            await world.mcp.trust("shop", ["price"], rule="allow")
            async with asyncio.timeout(30):
                while await names(client) != ["price"]:
                    await asyncio.sleep(0.01)


async def test_a_call_whose_headers_name_another_argument_is_refused_and_no_list_is_made_for_it(
    tmp_path: Path, server: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ship(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        server.calls.append(region)
        return region

    server.mcp.add_tool(ship, description="Ships to a region.", annotations=READS, structured_output=False)
    pages: list[Any] = []
    monkeypatch.setattr(gateway_server, "page", lambda *asked: pages.append(asked))
    called = {"name": "mcp__shop__ship", "arguments": {"region": "eu"}}
    async with opened(tmp_path / "w") as world:
        await world.mcp.add(SHOP)
        await world.mcp.trust("shop", ["ship"], rule="allow")
        async with served_on(world, None) as served:
            agent, viewer = await token(served, "agent"), await token(served, "viewer", actor="user:v")
            other = await post(served, agent, "tools/call", called, **{"mcp-param-region": "us"})
            without = await post(served, agent, "tools/call", called)
            method = await post(served, agent, "tools/call", called, **{"mcp-method": "tools/list"})
            assert server.calls == []
            same = await post(served, agent, "tools/call", called, **{"mcp-param-region": "eu"})
            unknown = await post(served, viewer, "tools/call", called, **{"mcp-param-region": "us"})
    assert [each.status_code for each in (other, without, method)] == [400, 400, 400]
    assert [each.json()["error"]["code"] for each in (other, without, method)] == [types.HEADER_MISMATCH] * 3
    assert same.json()["result"]["content"][1]["text"] == "eu"
    assert unknown.json()["result"]["structuredContent"]["error_code"] == "role_missing"
    assert server.calls == ["eu"]
    assert pages == []
