"""The world, its definitions and its tool policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from demiurge.bootstrap.policy_view import explain_effect, explain_tool
from demiurge.errors import InvalidValue, NotFound
from demiurge.server.callers import CurrentWorld
from demiurge.server.errors import responses
from demiurge.server.strict_json import StrictJsonRoute
from demiurge.tools.ids import checked_id
from demiurge.values import cbor
from demiurge.values.caller import Caller
from demiurge.values.clock import SystemClock
from demiurge.values.json_view import json_view
from demiurge.world.manifest import Manifest

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


class ToolDecision(BaseModel):
    """The decision of the tool policy on a call. `rules` are the deciding lines of the policy, and `rule` is the first
    of them. `approvers` is a list of lists of roles: a person with a role of the first list has to approve, a person
    with a role of the second, and so on."""

    tool: str
    known: bool
    effect: str
    caller: dict[str, Any]
    decision: str
    why: str
    rule: dict[str, Any] | None
    rules: list[dict[str, Any]]
    approvers: list[list[str]]
    tainted: dict[str, Any] = Field(
        description="The decision in a turn that has read untrusted text: `{decision, rule, rules, approvers, why}`."
    )
    standing_rules: list[dict[str, Any]] = Field(description="The rules by which nobody is asked in some chats.")
    policy: str


class EffectDecisions(BaseModel):
    """The decisions of the grants and of the world's policy on an effect. `decisions` has one entry for each that may
    ask for it: `{origin, cap, decision, by, rule, code, why}`."""

    effect: str
    cap_type: str
    origins: list[str]
    changes: bool
    grants: list[dict[str, Any]]
    decisions: list[dict[str, Any]]


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


@router.get("/defs/{name:path}", responses=responses(401, 403, 404, 422, 503))
async def definition(world: CurrentWorld, name: str) -> dict[str, Any]:
    """Returns the definitions with this name, such as `demiurge/ChatState@1`."""
    found = [dict(each) for each in _definitions(world.manifest()) if each["name"] == name]
    if not found:
        raise NotFound(f"There is no definition {name}; GET /api/defs lists them.", code="no_definition")
    return {"definitions": found}


@router.get("/policy/explain", responses=responses(401, 403, 404, 422, 503))
async def explain(
    world: CurrentWorld,
    tool: Annotated[str | None, Query(max_length=200)] = None,
    role: Annotated[list[str] | None, Query(max_length=32, description="A role of who would call; repeat it.")] = None,
    tenant: Annotated[str, Query(max_length=256)] = "",
    actor: Annotated[str | None, Query(max_length=1024)] = None,
    effect: Annotated[str | None, Query(max_length=200, description="The kind of an effect: `http.request`.")] = None,
    origin: Annotated[Literal["plan", "reducer", "tool"] | None, Query(description="What asks for the effect.")] = None,
    name: Annotated[str, Query(max_length=200, description="The name of the plan, module or tool that asks.")] = "",
) -> ToolDecision | EffectDecisions:
    """Explains a decision: whether a tool may be called, and which lines of the tool policy decide, by default of this
    caller; or whether an effect may be asked for, under which grant and by which rule of the world's policy. Give
    `tool` or `effect`."""
    if (tool is None) == (effect is None):
        raise InvalidValue("Give a tool or an effect.", code="validation")
    if effect is not None:
        in_force = Manifest.load(world.backend.read.manifest(), {})
        asking = (origin, name) if origin is not None else None
        return EffectDecisions(**json_view(explain_effect(in_force, effect, asking, SystemClock().now_ns())))
    caller = world.caller
    if role or tenant or actor is not None:
        caller = Caller(actor if actor is not None else caller.actor, tenant, tuple(role or caller.roles))
    document = explain_tool(world.manifest(), checked_id(tool or ""), caller)
    rules = [rule for rule in await world.standing_rules.shown() if rule["tool"] == document["tool"]]
    return ToolDecision(**json_view({**document, "standing_rules": rules}))


def _definitions(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*node["definitions"], *node["system"]]


def _kind(definition: Mapping[str, Any]) -> str:
    return str(definition["$kind"]).removeprefix("def")
