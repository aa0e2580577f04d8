"""Toolsets of a world's own tools: the blobs that `tools_ref` of a message or of a chat names."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.missing_tool import full_id, missing_tool
from demiurge.bootstrap.offered_tools import OfferedTools, offered_tools
from demiurge.errors import InvalidValue
from demiurge.models.providers import provider as provider_row
from demiurge.tools.ids import checked_id, is_shipped_id
from demiurge.tools.spec import ToolSpec
from demiurge.values import cbor
from demiurge.values.refs import Ref, parse_ref
from demiurge.wire.items import NamedTool, ToolChoice
from demiurge.world.toolset import choice_tag, encode_toolset, narrowed, read_toolset

__all__ = ["MessageTools", "brought_tools", "message_tools", "store_toolset", "toolset_event"]


async def store_toolset(
    backend: Backend, tools: Sequence[str], provider: str, tool_choice: ToolChoice | None, *, strict: bool = False
) -> Ref:
    """Stores a toolset, as `World.tools_ref` describes."""
    specs = await _specs(backend, tools or None)
    return _stored(backend, specs, provider, _checked_choice(specs, tool_choice), strict=strict)


async def toolset_event(
    backend: Backend, tools: Sequence[str] | None, provider: str, tool_choice: ToolChoice | None
) -> dict[str, Any]:
    """Returns the fields `tools_ref` and `tool_choice` of `demiurge/ChatTools@1`: for a toolset of these tools, None
    for a chat that has none of its own."""
    specs = await _specs(backend, tools)
    choice = _checked_choice(specs, tool_choice)
    return {
        "tools_ref": _stored(backend, specs, provider, None) if tools is not None else None,
        "tool_choice": choice_tag(choice) if choice is not None else None,
    }


class MessageTools(NamedTuple):
    """The tools of a message: the fields `tools_ref` and `tool_choice` of its event, and the names of the tools."""

    fields: dict[str, Any]
    names: frozenset[str]


async def message_tools(
    backend: Backend,
    own: str | None,
    tools: Sequence[str] | None,
    provider: str,
    tool_choice: ToolChoice | None,
    *,
    has_catalog: bool,
    skips_catalog: bool = False,
) -> MessageTools:
    """Returns what a message offers with `tools`; None: what `offered_tools` says. A chat with a toolset of its `own`
    offers nothing else, and all of it if `tools` is None. `has_catalog`: the message brings the catalog of prompt
    tools; `skips_catalog`: its sender wants none. Raises as `Chat.send`."""
    specs = await _specs(backend, tools)
    deferred: tuple[str, ...] = ()
    if tools is None and own is None:
        info = await backend.read.info()
        has_own = not all(is_shipped_id(spec.name) for spec in specs)
        chosen = offered_tools(
            specs,
            info["settings"],
            has_catalog=has_catalog,
            skips_catalog=skips_catalog,
            is_small=not provider_row(provider).prompt_catalog,
            has_large_results=has_own or info["max_result_bytes"] is not None,
        )
        specs, deferred = _with_choice(specs, chosen, tool_choice)
    if own is not None:
        within = narrowed(backend.read.get_blob(parse_ref(own)))
        foreign = [spec.name for spec in specs if spec.name not in within]
        if tools is not None and foreign:
            offered = ", ".join(sorted(within)) or "no tool"
            raise InvalidValue(
                f"This chat's own toolset does not offer {foreign[0]} (it offers {offered}): "
                "leave it out, or set another with `Chat.use_tools`.",
                code="not_in_toolset",
            )
        specs = [spec for spec in specs if spec.name in within]
    choice = _checked_choice(specs, tool_choice)
    fields = {
        "tools_ref": _stored(backend, specs, provider, None, deferred=deferred),
        "tool_choice": choice_tag(choice) if choice is not None else None,
    }
    return MessageTools(fields, frozenset(spec.name for spec in specs))


def _with_choice(
    specs: Sequence[ToolSpec], offered: OfferedTools, tool_choice: ToolChoice | None
) -> tuple[list[ToolSpec], tuple[str, ...]]:
    """Returns the tools that are described, with the one that the tool choice names, and the ids of the deferred
    ones."""
    chosen = checked_id(tool_choice.name) if isinstance(tool_choice, NamedTool) else None
    described = {spec.name for spec in offered.described} | ({chosen} if chosen in offered.deferred else set())
    deferred = tuple(name for name in offered.deferred if name != chosen)
    return [spec for spec in specs if spec.name in described], deferred


async def brought_tools(backend: Backend, ref: Ref, tool_choice: ToolChoice | None) -> MessageTools:
    """Returns what a message offers with a toolset that is stored. Raises InvalidValue (`bad_toolset`,
    `bad_tool_choice`), NotFound."""
    names = read_toolset(await asyncio.to_thread(backend.read.get_blob, ref)).names
    if isinstance(tool_choice, NamedTool):
        tool_choice = NamedTool(checked_id(tool_choice.name))
    choice = choice_tag(tool_choice) if tool_choice is not None else None
    return MessageTools({"tools_ref": ref, "tool_choice": choice}, names)


async def _specs(backend: Backend, tools: Sequence[str] | None) -> list[ToolSpec]:
    """Returns the specs of these tools, each once; of all that a model may see if None."""
    info = await backend.read.info()
    catalog = {spec.name: spec for spec in map(ToolSpec.from_json, info["catalog"])}
    if tools is None:
        return list(catalog.values())
    if isinstance(tools, str):
        raise InvalidValue("must be a list of tools, not one text", path="tools", code="bad_tool_id")
    names = dict.fromkeys(full_id(checked_id(tool), catalog) for tool in tools)
    return [_offered(backend, catalog, name) for name in names]


def _checked_choice(specs: Sequence[ToolSpec], tool_choice: ToolChoice | None) -> ToolChoice | None:
    if not isinstance(tool_choice, NamedTool):
        return tool_choice
    choice = NamedTool(checked_id(tool_choice.name))
    if all(spec.name != choice.name for spec in specs):
        offered = ", ".join(spec.name for spec in specs) or "no tool"
        raise InvalidValue(
            f"The choice {choice.name} is not in this set (it offers {offered}): add it, or take another.",
            code="bad_tool_choice",
        )
    return choice


def _stored(
    backend: Backend,
    specs: Sequence[ToolSpec],
    provider: str,
    tool_choice: ToolChoice | None,
    *,
    strict: bool = False,
    deferred: Sequence[str] = (),
) -> Ref:
    blob = encode_toolset(provider_row(provider).name, specs, tool_choice, strict=strict, deferred=deferred)
    return backend.run.put_blob(blob)


def _offered(backend: Backend, catalog: dict[str, ToolSpec], name: str) -> ToolSpec:
    if name in catalog:
        return catalog[name]
    toolset = cbor.decode(backend.read.manifest())["toolset"]
    known = {spec["name"] for spec in toolset}
    if any(spec["name"] == name and "mcp_item" in spec for spec in toolset):
        raise InvalidValue(f"{name} is a prompt or a resource, which no model is offered.", code="policy_denied")
    if name in known:
        raise InvalidValue(
            f"The tool policy does not let a model see {name}; `demiurge policy explain {name}` says why.",
            code="policy_denied",
        )
    raise missing_tool(name, known)
