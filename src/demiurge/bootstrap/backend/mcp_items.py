"""Completions and changes of the prompts, resources and templates of a world's MCP servers. They are no calls, so
nothing is recorded; only what the policy lets the caller call is completed and followed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from demiurge.bootstrap.backend.owner import Owner
from demiurge.bootstrap.mcp_tools import definition_of, settings_of
from demiurge.errors import NotFound
from demiurge.mcp.definition import ToolDefinition
from demiurge.mcp.settings import ServerSettings
from demiurge.tools.catalog import ToolCatalog
from demiurge.tools.policy import ToolPolicyContext
from demiurge.values.caller import Caller
from demiurge.world.authority.observing import policy_at
from demiurge.world.mcp_servers import MCP_SERVER
from demiurge.world.unit import Unit

__all__ = ["complete", "updates"]


async def complete(
    owner: Owner, tool: str, argument: str, value: str, given: Mapping[str, str], caller: Caller
) -> dict[str, Any]:
    """Returns what a server proposes for an argument; see `calls.RunCalls.complete_argument`. Raises NotFound,
    Unavailable, Conflict (`not_adopted`)."""
    settings, pinned = await _pinned(owner, tool, caller)
    return await owner.mcp.complete(settings, pinned, argument, value, given)


async def updates(owner: Owner, tool: str, uri: str, caller: Caller) -> AsyncGenerator[str, None]:
    """Yields `following`, then `updated` for each change; see `calls.RunCalls.follow_resource`. Raises as `complete`,
    and once the resource is not trusted any more."""
    settings, pinned = await _pinned(owner, tool, caller)
    async for kind in owner.mcp.updates(settings, pinned, uri):
        await _pinned(owner, tool, caller)
        yield kind


async def _pinned(owner: Owner, tool: str, caller: Caller) -> tuple[ServerSettings, ToolDefinition]:
    """Returns the pinned definition of a prompt, a resource or a template that the caller may call, and the settings
    of its server. Raises NotFound (`no_item`)."""
    host = await owner.host()
    policy, context = policy_at(owner.manifest, owner.clock.now_ns()), ToolPolicyContext.of(caller)
    spec = ToolCatalog.compile(owner.source, policy, True, context, mcp_items=True).get(tool)
    item = spec.mcp_item if spec is not None else None
    cell = host.state(Unit(MCP_SERVER, item["server"])).cell if item is not None else None
    trusted = cell["tools"].get(tool) if cell is not None else None
    if cell is None or trusted is None or trusted["quarantined"] is not None:
        raise NotFound("There is no such prompt or resource for this caller.", code="no_item")
    return settings_of(cell), definition_of(host.get_blob(trusted["pin"]))
