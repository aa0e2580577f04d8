"""The tools that a model may see, and the toolsets that messages name."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from demiurge.bootstrap.backend.review_views import CatalogTool
from demiurge.bootstrap.tool_uses import count_uses
from demiurge.bootstrap.tool_view import tool_views
from demiurge.errors import NotFound
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.strict_json import StrictJsonRoute
from demiurge.tools.ids import checked_id, in_lists

__all__ = ["router"]

router = APIRouter(prefix="/api/tools", tags=["tools"], route_class=StrictJsonRoute)

Everything = Annotated[bool, Query(alias="all", description="Also tools that the policy denies to the caller.")]
Chosen = Annotated[list[str] | None, Query(alias="tool", max_length=512, description="Only this tool; repeat it.")]


class ToolView(BaseModel):
    """A tool of the world. `decision` is what the tool policy says of a call by this caller, and `why` the reason;
    `tokens` is about what the tool costs in each request to a model. A model reads `description`, a blank line and
    `details`. `source`: `shipped`, `yours`, or `mcp NAME` for the MCP server NAME; `trust`: whether a tool of such a
    server is `pinned` or `quarantined`, else null."""

    kind: Literal["callable"] = "callable"
    id: str
    description: str
    details: str
    effect: str
    decision: str
    why: str
    source: str
    trust: Literal["pinned", "quarantined"] | None
    tokens: int
    spec_hash: str
    input_schema: dict[str, Any]
    calls: int | None = Field(None, description="With `uses`: the calls among the newest records.")
    last_called_ns: int | None = None


class PromptToolRow(BaseModel):
    """A prompt tool: instruction text, which adds nothing that can be called. `locked`: it is a core tool. `version`:
    the number of its approval, None for a core tool."""

    kind: Literal["prompt"] = "prompt"
    id: str
    name: str
    layer: Literal["global", "user", "project"]
    locked: bool
    version: int | None
    digest: str
    decision: Literal["allow"] = "allow"


class Catalog(BaseModel):
    """The tools that a model may see, the prompt tools, and the address of the toolset of the callable tools, which a
    message can name."""

    tools: list[Annotated[ToolView | PromptToolRow, Field(discriminator="kind")]]
    tools_ref: str | None = Field(description="None for a caller that may not send messages.")
    counted_records: int | None = Field(
        None, description="With `uses`: the newest records, in which calls were counted."
    )


@router.get("", responses=responses(401, 403, 404, 422, 503))
async def catalog(
    world: CurrentWorld,
    chosen: Chosen = None,
    everything: Everything = False,
    uses: Annotated[bool, Query(description="Count the calls of each tool among the newest records.")] = False,
) -> Catalog:
    """Lists the tools that a model may see: all of them, or those that are named. With `all` every tool of the world is
    listed, and `tools_ref` is still of those that a model may see. The tools of one's own come first, then those of MCP
    servers, then the shipped ones; the prompt tools follow, unless tools are named."""
    offered = {spec["name"] for spec in (await world.backend.read.info())["catalog"]}
    names = [checked_id(name) for name in chosen] if chosen else sorted(offered)
    for name in names:
        if name not in offered:
            raise NotFound(f"No model may see a tool {name} here; GET /api/tools lists them.", code="no_tool")
    views = {view["id"]: view for view in tool_views(world.manifest(), world.caller)}
    may_send = world.caller.has("agent")
    ref = await world.tools_ref(*names) if may_send and names else None
    listed = names if chosen else sorted(views if everything else names, key=in_lists)
    prompts = [] if chosen else [_row(tool) for tool in await world.prompt_tools.catalog()]
    if not uses:
        callables = [ToolView(**views[name]) for name in listed]
        return Catalog(tools=[*callables, *prompts], tools_ref=ref, counted_records=None)
    async with aclosing(world.backend.read.appends()) as appends:
        length = (await anext(appends))["length"]
    found = await asyncio.to_thread(count_uses, world.backend, length)
    callables = [ToolView(**views[name], **found.calls.get(name, {"calls": 0})) for name in listed]
    return Catalog(tools=[*callables, *prompts], tools_ref=ref, counted_records=found.looked_at)


@router.get("/{tool_id}", responses=responses(401, 403, 404, 422, 503))
async def one(world: CurrentWorld, tool_id: str) -> ToolView:
    """Returns a tool of this world, also one that the policy denies to this caller."""
    name = checked_id(tool_id)
    for view in tool_views(world.manifest(), world.caller, mcp_items=True):
        if view["id"] == name:
            return ToolView(**view)
    raise NotFound(f"There is no tool {name} here.", code="no_tool")


def _row(tool: CatalogTool) -> PromptToolRow:
    return PromptToolRow(
        **{name: getattr(tool, name) for name in ("id", "name", "layer", "locked", "version", "digest")}
    )
