"""The fixture server of the conformance suite through the gateway: what a client gets of what the server answered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from tests.bootstrap.mcp.mcp_worlds import opened
from tests.mcp.conformance_gateway import NAME, fixture
from tests.mcp.fixture_server import FixtureServer
from tests.mcp.gateway.conftest import ERAS
from tests.mcp.gateway.test_servers import gateway_to

from demiurge.bootstrap.backend import owner
from demiurge.bootstrap.gateway import own_names
from demiurge.mcp import McpClients
from demiurge.mcp.gateway.names import ToolNames
from mcp import Client, MCPError

MISSING = -32021


@asynccontextmanager
async def connected(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mode: str = "auto", **options: Any
) -> AsyncIterator[Client]:
    """A client of a gateway that stands in for the fixture server; nobody is asked before a call."""
    target = {NAME: FixtureServer().server}
    monkeypatch.setattr(owner, "McpClients", partial(McpClients, in_process=target, start_s=20, stop_s=1))
    async with opened(folder) as world:
        await world.mcp.add(fixture())
        await world.mcp.trust(NAME, rule="allow")
        gateway, _ = gateway_to(world, ToolNames(own_names=await own_names(world, NAME)))
        async with Client(gateway.server, mode=mode, **options) as client:
            yield client
        await gateway.close()


@pytest.mark.parametrize("mode", ERAS)
async def test_a_text_that_is_a_resource_stays_one(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(tmp_path / "w", monkeypatch, mode) as client:
        content = (await client.call_tool("test_multiple_content_types", {})).content
    assert [block.type for block in content[1:-1]] == ["text", "image", "resource"]
    resource = content[3]
    assert isinstance(resource, types.EmbeddedResource)
    assert resource.resource.mime_type == "application/json"


async def test_a_client_without_an_ability_that_the_server_needs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(tmp_path / "w", monkeypatch) as client:
        with pytest.raises(MCPError, match=r"sampling\.tools") as refused:
            await client.call_tool("test_missing_capability", {})
    assert refused.value.code == MISSING
    assert refused.value.error.data == {"requiredCapabilities": {"sampling": {"tools": {}}}}


async def test_a_client_of_the_older_era_gets_the_same_as_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(tmp_path / "w", monkeypatch, "legacy") as client:
        result = await client.call_tool("test_missing_capability", {})
    assert result.is_error
    assert result.structured_content is not None
    message = "The server needs a client that offers sampling.tools, and this one does not."
    assert result.structured_content["message"] == message


@pytest.mark.parametrize("mode", ERAS)
async def test_a_form_keeps_the_way_in_which_its_choices_are_written(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[types.ElicitRequestParams] = []

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content={"legacyEnum": "opt2", "untitledMulti": ["option1"]})

    async with connected(tmp_path / "w", monkeypatch, mode, elicitation_callback=answer) as client:
        result = await client.call_tool("test_elicitation_sep1330_enums", {})
    [form] = asked
    assert isinstance(form, types.ElicitRequestFormParams)
    fields = form.requested_schema["properties"]
    assert fields["untitledSingle"]["enum"] == ["option1", "option2", "option3"]
    assert fields["legacyEnum"]["enum"] == ["opt1", "opt2", "opt3"]
    assert fields["legacyEnum"]["enumNames"] == ["Option One", "Option Two", "Option Three"]
    assert [each["title"] for each in fields["titledSingle"]["oneOf"]] == ["First", "Second", "Third"]
    assert not result.is_error
    assert "opt2" in str(result.content)
