"""The world, its definitions and its tool policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from demiurge.errors import NotFound
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.strict_json import StrictJsonRoute
from demiurge.tools.effect import ToolEffect
from demiurge.tools.ids import checked_id
from demiurge.tools.policy import ToolPolicy, ToolPolicyContext
from demiurge.values import cbor
from demiurge.values.caller import Caller

__all__ = ["router"]

router = APIRouter(prefix="/api", tags=["manifest"], route_class=StrictJsonRoute)


class Definition(BaseModel):
    """A definition of the manifest in force."""

    kind: str
    name: str
    hash: str


class DefinitionList(BaseModel):
    """The definitions of the manifest in force, by name."""

    definitions: list[Definition]


class Explanation(BaseModel):
    """The decision of the tool policy on a call. `rules` are the lines that decide, the first one before the others;
    `approvers` are the roles of which somebody has to decide: one of each list."""

    tool: str
    known: bool
    effect: str
    decision: str
    rules: list[dict[str, Any]]
    approvers: list[list[str]]
    policy: str


@router.get("/info", responses=responses(401, 403, 503))
async def info(world: CurrentWorld) -> dict[str, Any]:
    """Returns what is known of the world: its id, the manifest in force, the catalog, notices for the user."""
    return await world.info()


@router.get("/manifest", responses=responses(401, 403, 503))
async def manifest(world: CurrentWorld) -> dict[str, Any]:
    """Returns the manifest in force as data."""
    return world.manifest()


@router.get("/defs", responses=responses(401, 403, 422, 503))
async def definitions(
    world: CurrentWorld,
    prefix: Annotated[str, Query(max_length=200)] = "",
    kind: Annotated[str | None, Query(max_length=20)] = None,
) -> DefinitionList:
    """Lists the definitions of the manifest in force."""
    found = [
        Definition(kind=_kind(each), name=each["name"], hash=cbor.node_ref(each))
        for each in _definitions(world.manifest())
        if each["name"].startswith(prefix) and kind in (None, _kind(each))
    ]
    return DefinitionList(definitions=sorted(found, key=lambda each: (each.name, each.kind)))


@router.get("/defs/{name:path}", responses=responses(401, 403, 404, 503))
async def definition(world: CurrentWorld, name: str) -> dict[str, Any]:
    """Returns the definitions with this name, such as `demiurge/ChatState@1`."""
    found = [dict(each) for each in _definitions(world.manifest()) if each["name"] == name]
    if not found:
        raise NotFound(f"There is no definition {name}; GET /api/defs lists them.", code="no_definition")
    return {"definitions": found}


@router.get("/policy/explain", responses=responses(401, 403, 422, 503))
async def explain(
    world: CurrentWorld,
    tool: Annotated[str, Query(max_length=200)],
    role: Annotated[list[str] | None, Query(max_length=32, description="A role of who would call; repeat it.")] = None,
    tenant: Annotated[str, Query(max_length=256)] = "",
    actor: Annotated[str | None, Query(max_length=1024)] = None,
) -> Explanation:
    """Says whether a tool may be called, and which lines of the tool policy decide; by default of this caller."""
    node, tool_id = world.manifest(), checked_id(tool)
    caller = world.caller
    if role or tenant or actor is not None:
        caller = Caller(actor if actor is not None else caller.actor, tenant, tuple(role or caller.roles))
    policy, context = ToolPolicy.from_json(node["tool_policy"]), ToolPolicyContext.of(caller)
    effects = {spec["name"]: ToolEffect(spec["effect"]) for spec in node["toolset"]}
    effect = effects.get(tool_id, ToolEffect.EXTERNAL_SIDE_EFFECT)
    decision = policy.decide(context, tool_id, effect)
    return Explanation(
        tool=tool_id,
        known=tool_id in effects,
        effect=effect.value,
        decision=decision,
        rules=[dict(line) for line in policy.deciding_lines(context, tool_id, effect)],
        approvers=[
            list(roles)
            for roles in (policy.approvers_of(context, tool_id, effect) if decision == "require_approval" else ())
        ],
        policy=policy.digest,
    )


def _definitions(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*node["definitions"], *node["system"]]


def _kind(definition: Mapping[str, Any]) -> str:
    return str(definition["$kind"]).removeprefix("def")
