"""A well-behaved server with its clients, in each place and each era of the protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from tests.mcp.sample_server import SampleServer, served

from demiurge.mcp import Listing, McpClients, ServerSettings, ToolDefinition
from demiurge.tools import ToolContext, ToolEffect, ToolResult

ACTS = ToolEffect.EXTERNAL_SIDE_EFFECT
PLACES = ("in_process-legacy", "in_process-auto", "http-legacy", "http-auto", "json-auto")


@dataclass
class Pair:
    """A server and its clients."""

    server: SampleServer
    clients: McpClients
    settings: ServerSettings
    era: str
    told: list[Listing]
    answers_in_json: bool

    async def pinned(self, name: str) -> ToolDefinition:
        found = (await self.clients.list_tools(self.settings)).find(name)
        assert found is not None
        return found

    async def call(self, name: str, context: ToolContext | None = None, **arguments: Any) -> ToolResult[Any]:
        result = await self.clients.call(
            self.settings, await self.pinned(name), arguments, context or ToolContext(), ACTS
        )
        assert isinstance(result, ToolResult)
        return result


@pytest.fixture(params=PLACES)
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    place, era = request.param.split("-")
    server, told = SampleServer(), []

    async def keep(name: str, listing: Listing) -> None:
        told.append(listing)

    async with AsyncExitStack() as stack:
        if place == "in_process":
            clients = McpClients(in_process={"sample": server.mcp}, protocol=era, on_listing=keep)
            settings = ServerSettings("sample", command=("none",))
        else:
            clients = McpClients(protocol=era, on_listing=keep)
            url = await stack.enter_async_context(served(server, json_response=place == "json"))
            settings = ServerSettings("sample", transport="http", url=url)
        stack.push_async_callback(clients.close)
        yield Pair(server, clients, settings, era, told, place == "json")
