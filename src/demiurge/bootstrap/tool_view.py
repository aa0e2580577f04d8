"""The tools of a world as data, as `demiurge tools` and `GET /api/tools` show them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from demiurge.bootstrap.backend.review_views import CatalogTool
from demiurge.bootstrap.manifest import default_policy
from demiurge.bootstrap.mcp_tools import server_of
from demiurge.bootstrap.offered_tools import offered_tools, tokens_of
from demiurge.bootstrap.policy_view import asked_by_trust, decision_on, is_default_policy
from demiurge.registry.pack.load import core_tools
from demiurge.tools.ids import in_lists, is_shipped_id
from demiurge.tools.policy import ToolPolicy
from demiurge.tools.source import ToolSource
from demiurge.tools.spec import ToolSpec
from demiurge.values.caller import Caller

__all__ = ["core_prompt_rows", "new_world_node", "prompt_rows", "tool_rows", "tool_views", "trust_of"]


def tool_views(node: Mapping[str, Any], caller: Caller, *, mcp_items: bool = False) -> list[dict[str, Any]]:
    """Returns every tool of the manifest `node`, by name, with `mcp_items` also the prompts, resources and templates of
    MCP servers, which are called like tools and which no model is offered: `{id, effect, decision, why, source, trust,
    tokens, spec_hash, description, details, input_schema, redaction}`. `decision` is the tool policy's on a call by
    `caller`, and `why` says the reason; `tokens` is about what the tool costs in each request to a model. `source`:
    `shipped`, `yours`, or `mcp NAME` for the MCP server NAME. `trust`: `pinned` or `quarantined` for a tool of such a
    server, else None."""
    policy = ToolPolicy.from_json(node["tool_policy"])
    specs = sorted(map(ToolSpec.from_json, node["toolset"]), key=lambda spec: spec.name)
    specs = [spec for spec in specs if mcp_items or spec.mcp_item is None]
    is_default, by_trust = is_default_policy(node), asked_by_trust(node)
    return [_view(policy, spec, caller, is_default, by_trust) for spec in specs]


def tool_rows(node: Mapping[str, Any], caller: Caller, *, with_denied: bool = False) -> list[dict[str, Any]]:
    """Returns the callable tools of a list: the user's own first, then those of MCP servers, then the shipped ones;
    those with the decision `deny` only if asked for. `sent`: `described` in each request of a message that names no
    tools, `on_demand` if the model finds it, None if it is offered to no such message."""
    names = ("id", "effect", "decision", "why", "source", "trust", "tokens", "spec_hash")
    found = [{"kind": "callable", **{name: tool[name] for name in names}} for tool in tool_views(node, caller)]
    allowed = {row["id"] for row in found if row["decision"] != "deny"}
    specs = [spec for spec in map(ToolSpec.from_json, node["toolset"]) if spec.name in allowed]
    offered = offered_tools(specs, node.get("root", {}).get("settings", {}), has_catalog=False, has_large_results=True)
    described = {spec.name for spec in offered.described}
    for row in found:
        name = row["id"]
        row["sent"] = "described" if name in described else "on_demand" if name in offered.deferred else None
    found.sort(key=lambda row: in_lists(row["id"]))
    return [row for row in found if with_denied or row["decision"] != "deny"]


def prompt_rows(catalog: Sequence[CatalogTool]) -> list[dict[str, Any]]:
    """Returns the prompt tools of a list. `locked`: it is a core tool, which nobody can change."""
    names = ("id", "name", "layer", "locked", "version", "digest")
    return [
        {"kind": "prompt", **{name: getattr(tool, name) for name in names}, "decision": "allow"} for tool in catalog
    ]


def new_world_node(source: ToolSource, policy: ToolPolicy | None) -> dict[str, Any]:
    """Returns the tool policy and the tools of a new world's manifest, for `tool_views` and `tool_rows`. `source`: all
    its tools; `policy`: None for the default one."""
    policy = policy or default_policy(source.specs(), source)
    return {"tool_policy": policy.to_json(), "toolset": [spec.to_json() for spec in source.specs()]}


def core_prompt_rows() -> list[dict[str, Any]]:
    """Returns the prompt tools of a new world: the core ones."""
    shipped = {"layer": "global", "locked": True, "version": None}
    return [
        {"kind": "prompt", "id": tool.id, "name": tool.name, **shipped, "digest": tool.digest, "decision": "allow"}
        for tool in core_tools()
    ]


def _view(
    policy: ToolPolicy, spec: ToolSpec, caller: Caller, is_default: bool, by_trust: Container[str]
) -> dict[str, Any]:
    decided = decision_on(policy, spec.name, spec.effect, caller, is_default=is_default, by_trust=by_trust)
    if spec.quarantined:
        decided = {"decision": "deny", "why": "it is quarantined: nobody has trusted its present text"}
    return {
        "id": spec.name,
        "effect": spec.effect.value,
        "decision": decided["decision"],
        "why": decided["why"] if spec.mcp_item is None else f"{decided['why']}; no model is offered it",
        "source": _source(spec),
        "trust": trust_of(spec),
        "tokens": tokens_of(spec) if spec.mcp_item is None else 0,
        "spec_hash": spec.spec_hash,
        "description": spec.description,
        "details": spec.details,
        "input_schema": spec.to_json()["input_schema"],
        "redaction": spec.redaction.to_json(),
    }


def _source(spec: ToolSpec) -> str:
    if (server := server_of(spec)) is not None:
        return f"mcp {server}"
    return "shipped" if is_shipped_id(spec.name) else "yours"


def trust_of(spec: ToolSpec) -> str | None:
    """Returns `pinned` or `quarantined` for a tool of an MCP server, None for any other tool."""
    if server_of(spec) is None:
        return None
    return "quarantined" if spec.quarantined else "pinned"
