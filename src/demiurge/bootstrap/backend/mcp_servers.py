"""The MCP servers of a world, in the process that owns it: a user's changes to their units, and what the units hold.

A change takes effect in this order: this user's own record (`trust.local_servers`), the event, the manifest with the
new toolset. A process that ends in between leaves an event without its manifest; the next owner makes that good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from demiurge import faults
from demiurge.bootstrap.backend.mcp_runtime import not_adopted, server_cells
from demiurge.bootstrap.backend.mcp_views import McpServerView, server_view
from demiurge.bootstrap.backend.owner import Owner
from demiurge.bootstrap.mcp_tools import problem_of, read_definition, settings_of
from demiurge.bootstrap.trust.local_servers import settings_digest
from demiurge.errors import Conflict, InvalidValue, NotFound, UsageError
from demiurge.mcp.names import checked_server_name, spelling
from demiurge.mcp.settings import ServerSettings, refuse_credentials
from demiurge.tools.effect import ToolEffect
from demiurge.tools.redaction import Redaction
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.world.host import Host
from demiurge.world.mcp_servers import (
    MCP_ADD,
    MCP_REMOVE,
    MCP_SERVER,
    MCP_TRUST,
    MCP_UNTRUST,
    RULES,
    shown_pin,
)
from demiurge.world.unit import Unit

__all__ = ["add", "adopt", "listed", "named", "refresh", "remove", "trust", "untrust"]

MAX_SERVERS: Final = 64
REMOTE: Final = "http"
"""The transport of callers who need not be the user of this machine."""


async def add(owner: Owner, node: Mapping[str, Any], caller: Caller) -> None:
    """Adds a server. Raises InvalidValue (`literal_credential`: a value is likely a key or a token), Conflict
    (`exists`, `look_alike`), UsageError (`too_many`)."""
    settings = ServerSettings.of_json(node)
    refuse_credentials(settings)
    host = await owner.host()
    name = checked_server_name(settings.name)
    async with owner.mcp.changing:
        _require_free(owner, host, name)
        if caller.transport != REMOTE:
            await _accept_here(owner, settings)
        faults.point("mcp.accepted")
        value = {"server": name, "settings": canonical_json.encode(settings.to_json()).decode()}
        await host.submit(MCP_ADD, value, caller=caller)
        faults.point("mcp.added")


async def remove(owner: Owner, name: str, caller: Caller) -> None:
    """Removes a server with its pins, and ends its connection. Raises NotFound."""
    host = await owner.host()
    async with owner.mcp.changing:
        _cell(host, name)
        await host.submit(MCP_REMOVE, {"server": name}, caller=caller)
        faults.point("mcp.removed")
        await owner.mcp.forget(name)
        await owner.mcp.put_in_force(host, caller)


async def trust(
    owner: Owner,
    name: str,
    tools: Sequence[str] | None,
    rule: str,
    effect: str | None,
    public: Sequence[str],
    pins: Mapping[str, str],
    caller: Caller,
) -> None:
    """Pins tools of a server as it listed them last; see `calls.RunCalls.trust_mcp_tools`."""
    if rule not in RULES:
        raise InvalidValue(f"is one of {', '.join(RULES)}", path="rule")
    if effect is not None and effect not in list(ToolEffect):
        raise InvalidValue(f"is one of {', '.join(ToolEffect)}", path="effect")
    if public:
        Redaction.paths(*public)
    host = await owner.host()
    if _cell(host, name)["listing_ref"] is None:
        await refresh(owner, name, caller)
    async with owner.mcp.changing:
        cell = _cell(host, name)
        wanted = _chosen(owner, name, cell, tools)
        found = {tool: pin for tool in wanted if (pin := shown_pin(cell, tool)) is not None}
        came = "" if pins and tools is None else None  # of all tools, none that the person did not see
        changed = [tool for tool, pin in found.items() if pins.get(tool, came) not in (None, pin)]
        if changed:
            message = f"{', '.join(changed)} changed since you looked: look again, and then decide."
            raise Conflict(message, code="changed")
        read = {tool: read_definition(tool, pin, host.get_blob) for tool, pin in found.items()}
        problems = {tool: unread or problem_of(tool, definition) for tool, (definition, unread) in read.items()}
        wrong = [f"{tool}: {problem}" for tool, problem in problems.items() if problem is not None]
        if wrong and (tools is not None or len(wrong) == len(found)):
            raise InvalidValue(f"These tools can't be trusted. {'; '.join(wrong)}.", code="tool_schema")
        pinned = {tool: pin for tool, pin in found.items() if problems[tool] is None}
        value = {"server": name, "tools": pinned, "rule": rule, "effect": effect, "public": list(public)}
        await host.submit(MCP_TRUST, value, caller=caller)
        faults.point("mcp.trusted")
        await owner.mcp.put_in_force(host, caller)


async def untrust(owner: Owner, name: str, tools: Sequence[str] | None, caller: Caller) -> None:
    """Takes the trust in tools away (None: in all). Raises NotFound."""
    host = await owner.host()
    async with owner.mcp.changing:
        cell = _cell(host, name)
        wanted = list(cell["tools"]) if tools is None else _chosen(owner, name, cell, tools)
        await host.submit(MCP_UNTRUST, {"server": name, "tools": wanted}, caller=caller)
        faults.point("mcp.untrusted")
        await owner.mcp.put_in_force(host, caller)


async def refresh(owner: Owner, name: str, caller: Caller) -> None:
    """Has the server list its tools now. Raises NotFound, Conflict (`not_adopted`), Unavailable."""
    host = await owner.host()
    settings = settings_of(_cell(host, name))
    listing = await owner.mcp.list_tools(settings)
    await owner.mcp.note_listing(host, name, listing, caller)


async def adopt(owner: Owner, name: str, digest: str, caller: Caller) -> None:
    """Accepts the settings of a server for this user in this place; see `calls.RunCalls.adopt_mcp_server`."""
    host = await owner.host()
    settings = settings_of(_cell(host, name))
    if caller.transport == REMOTE:
        message = f"Only the user of the machine that has the world open adopts a server: `demiurge mcp adopt {name}`."
        raise UsageError(message, code="not_here")
    if settings_digest(settings) != digest:
        raise Conflict(f"The server {name} has other settings by now: look at them first.", code="changed")
    await _accept_here(owner, settings)
    host.notices[:] = [notice for notice in host.notices if notice != not_adopted(name)]


def listed(owner: Owner) -> list[McpServerView]:
    """Returns the servers by name, their tools without descriptions and changes."""
    host = owner.reader()
    return [_view(owner, host, name, cell, details=False) for name, cell in server_cells(host)]


def named(owner: Owner, name: str) -> McpServerView:
    """Returns a server with everything about its tools. Raises NotFound."""
    host = owner.reader()
    return _view(owner, host, name, _cell(host, name), details=True)


def _view(owner: Owner, host: Host, name: str, cell: Mapping[str, Any], *, details: bool) -> McpServerView:
    state, problem = owner.mcp.status(name)
    settings = settings_of(cell)
    return server_view(
        name,
        cell,
        host.get_blob,
        is_local=owner.mcp.local.holds(settings),
        state=state,
        problem=problem,
        last_words=owner.mcp.last_words(settings),
        details=details,
    )


def _cell(host: Host, name: str) -> Mapping[str, Any]:
    cell = host.state(Unit(MCP_SERVER, name)).cell if name.isprintable() and name else None
    if cell is None:
        raise NotFound(f"There is no MCP server {name!r}; `demiurge mcp ls` lists them.", code="no_mcp_server")
    return cell


def _require_free(owner: Owner, host: Host, name: str) -> None:
    """Raises an error if the world can have no server of this name."""
    taken = [Unit.parse(head.unit).key for head in host.store.heads(f"{MCP_SERVER}/") if _is_there(host, head.unit)]
    if name in taken:
        raise Conflict(
            f"There is an MCP server {name} already: remove it first with `demiurge mcp rm {name}`, or name this one "
            "otherwise.",
            code="exists",
        )
    own = [spec.name.split("__")[1] for spec in owner.config.source.specs() if spec.name.startswith("mcp__")]
    alike = next((other for other in (*taken, *own) if spelling(other) == spelling(name)), None)
    if alike is not None:
        message = f"{name} reads like {alike}, which has tools here: name the server otherwise."
        raise Conflict(message, code="look_alike")
    if len(taken) >= MAX_SERVERS:
        raise UsageError(f"A world has at most {MAX_SERVERS} MCP servers: remove one first.", code="too_many")


def _is_there(host: Host, unit: str) -> bool:
    return host.state(Unit.parse(unit)).cell is not None


async def _accept_here(owner: Owner, settings: ServerSettings) -> None:
    warning = await asyncio.to_thread(owner.mcp.local.add, settings)
    if warning is not None and warning not in owner.notices:
        owner.notices.append(warning)


def _chosen(owner: Owner, name: str, cell: Mapping[str, Any], tools: Sequence[str] | None) -> list[str]:
    """Returns the ids of tools that are named by id or by the label that the server's list gives them. Raises
    NotFound."""
    known = sorted({*cell["tools"], *cell["found"]})
    if tools is None:
        return known
    pins = {tool: pin for tool in known if (pin := shown_pin(cell, tool)) is not None}
    by_name = {read_definition(tool, pin, owner.store.get_blob)[0].label: tool for tool, pin in pins.items()}
    chosen = {wanted: wanted if wanted in known else by_name.get(wanted) for wanted in tools}
    for wanted, tool in chosen.items():
        if tool is None:
            message = f"The server {name} lists no tool {wanted!r}; `demiurge mcp show {name}` lists its tools."
            raise NotFound(message, code="no_tool")
    return sorted({tool for tool in chosen.values() if tool is not None})
