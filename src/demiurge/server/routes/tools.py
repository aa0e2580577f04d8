"""The tools that a model may see, and the toolsets that messages name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from demiurge.errors import NotFound
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.strict_json import StrictJsonRoute
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ids import checked_id
from demiurge.tools.policy import ToolPolicy, ToolPolicyContext
from demiurge.values import canonical_json
from demiurge.values.caller import Caller

__all__ = ["router"]

router = APIRouter(prefix="/api/tools", tags=["tools"], route_class=StrictJsonRoute)

BYTES_PER_TOKEN = 4
SHIPPED = frozenset(("core", "introspect", "workspace"))

Chosen = Annotated[list[str] | None, Query(alias="tool", max_length=512, description="Only this tool; repeat it.")]


class ToolView(BaseModel):
    """A tool of the catalog. `decision` is what the tool policy says of a call by this caller; `tokens` is about what
    the tool costs in each request to a model."""

    id: str
    description: str
    effect: str
    decision: str
    source: str
    tokens: int
    spec_hash: str
    input_schema: dict[str, Any]


class Catalog(BaseModel):
    """The tools that a model may see, and the address of the toolset of these tools, which a message can name."""

    tools: list[ToolView]
    tools_ref: str | None = Field(description="None for a caller that may not send messages.")


@router.get("", responses=responses(401, 403, 404, 422, 503))
async def catalog(world: CurrentWorld, chosen: Chosen = None) -> Catalog:
    """Lists the tools that a model may see: all of them, or those that are named."""
    specs = {spec["name"]: spec for spec in (await world.info())["catalog"]}
    names = [checked_id(name) for name in chosen] if chosen else sorted(specs)
    for name in names:
        if name not in specs:
            raise NotFound(f"No model may see a tool {name} here; GET /api/tools lists them.", code="no_tool")
    policy = ToolPolicy.from_json(world.manifest()["tool_policy"])
    may_send = world.caller.has("agent")
    ref = await world.tools_ref(*names) if may_send and names else None
    return Catalog(tools=[_view(specs[name], policy, world.caller) for name in names], tools_ref=ref)


@router.get("/{tool_id}", responses=responses(401, 403, 404, 422, 503))
async def one(world: CurrentWorld, tool_id: str) -> ToolView:
    """Returns a tool of this world, also one that the policy denies to this caller."""
    node, name = world.manifest(), checked_id(tool_id)
    for spec in node["toolset"]:
        if spec["name"] == name:
            return _view(spec, ToolPolicy.from_json(node["tool_policy"]), world.caller)
    raise NotFound(f"There is no tool {name} here.", code="no_tool")


def _view(spec: Mapping[str, Any], policy: ToolPolicy, caller: Caller) -> ToolView:
    sent = canonical_json.encode({name: spec[name] for name in ("name", "description", "input_schema")})
    return ToolView(
        id=spec["name"],
        description=spec["description"],
        effect=spec["effect"],
        decision=policy.decide(ToolPolicyContext.of(caller), spec["name"], ToolEffect(spec["effect"])),
        source="shipped" if spec["name"].partition("__")[0] in SHIPPED else "yours",
        tokens=-(-len(sent) // BYTES_PER_TOKEN),
        spec_hash=spec.get("spec_hash", ""),
        input_schema=spec["input_schema"],
    )
