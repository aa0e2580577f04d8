"""The module `sys/McpServer@1`: one unit for each MCP server of a world, with the pins of the tools that users trust.

A pin is the digest of a tool's definition, and the address of the blob that holds it. No text of a server is in the
cell: tools are named by their ids. A user trusts tools; the host notes a listing of the server (`listing_change`) only
if it differs from what the cell says. A trusted tool whose definition differs is quarantined until a user trusts it
again, also if the server goes back to the trusted definition.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any, Final

from demiurge.errors import InvalidValue
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref
from demiurge.world.reducer import Reducer, ReducerContext, Step

__all__ = [
    "HOST",
    "MAX_FOUND",
    "MAX_UNATTENDED",
    "MCP_ADD",
    "MCP_LISTING",
    "MCP_REMOVE",
    "MCP_SERVER",
    "MCP_TRUST",
    "MCP_UNTRUST",
    "RULES",
    "listing_change",
    "mcp_server_reducer",
    "shown_pin",
]

MCP_SERVER: Final = "sys/McpServer@1"

MCP_ADD: Final = "sys/McpServerAdd@1"
MCP_REMOVE: Final = "sys/McpServerRemove@1"
MCP_TRUST: Final = "sys/McpTrust@1"
MCP_UNTRUST: Final = "sys/McpUntrust@1"
MCP_LISTING: Final = "sys/McpListing@1"

HOST: Final = Caller("host", roles=("user",), transport="host")
"""The caller of what the host itself records about MCP servers."""

RULES: Final = ("ask", "allow")
"""What a person may say about a tool that they trust: ask before each call, or not."""

MAX_FOUND: Final = 256
"""The most tools that nobody trusted which the cell of a server names."""

MAX_UNATTENDED: Final = 32
"""The most listings that the host notes after each act of a user. Later it notes only that a trusted tool changed."""


def reduce(state: Mapping[str, Any] | None, event: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes one step of a server. A server that was removed ignores everything that still comes."""
    tag, value = event["$tag"], event["$value"]
    if context.origin != "external" or "user" not in context.stamp.caller.roles:
        raise InvalidValue("only a user and the host change an MCP server")
    if tag == "Add":
        return _added(value, context) if state is None else Step()
    if state is None:
        return Step()
    if tag == "Remove":
        return Step(delete=True)
    if tag == "Trust":
        return _trusted(state, value, context)
    if tag == "Untrust":
        return _untrusted(state, value, context)
    return _listed(state, value, context)


def shown_pin(state: Mapping[str, Any], tool: str) -> Ref | None:
    """Returns the pin of the definition that the server listed last for this tool; None if it listed none."""
    trusted, found = state["tools"].get(tool), state["found"].get(tool)
    if trusted is None:
        return None if found is None else found["pin"]
    quarantined = trusted["quarantined"]
    pin: Ref = quarantined["pin"] if quarantined is not None else trusted["pin"]
    return pin


def listing_change(
    state: Mapping[str, Any], listing_ref: str, pins: Mapping[str, str], *, attended: bool
) -> dict[str, Any] | None:
    """Returns what a listing (`pins`: by tool id) changes in the cell, as the fields of `sys/McpListing@1`; None if it
    changes nothing. `attended`: a user asked for the listing."""
    tools, found = state["tools"], state["found"]
    news = {
        tool: pin
        for tool, pin in pins.items()
        if shown_pin(state, tool) != pin or (tool in tools and tools[tool]["gone"])
    }
    gone = [tool for tool in tools if tool not in pins and not tools[tool]["gone"]]
    gone += [tool for tool in found if tool not in pins]
    if not attended and state["unattended"] >= MAX_UNATTENDED:
        news = {tool: pin for tool, pin in news.items() if tool in tools and _is_drift(tools[tool], pin)}
        gone, listing_ref = [], state["listing_ref"]
    known = len(found) - sum(tool in found for tool in gone)
    fresh = [tool for tool in news if tool not in tools and tool not in found]
    for tool in sorted(fresh)[max(0, MAX_FOUND - known) :]:
        del news[tool]
    if not news and not gone and listing_ref == state["listing_ref"]:
        return None
    return {"listing_ref": listing_ref, "tools": news, "gone": sorted(gone)}


def _is_drift(trusted: Mapping[str, Any], pin: str) -> bool:
    return trusted["quarantined"] is None and trusted["pin"] != pin


def _added(value: Mapping[str, Any], context: ReducerContext) -> Step:
    made = {"added_by": context.stamp.actor, "added_at": context.stamp.time_ns, "unattended": 0}
    return Step(set={"settings": value["settings"], "tools": {}, "found": {}, **made})


def _trusted(state: Mapping[str, Any], value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Pins tools as they were listed last. Raises InvalidValue for a pin that is not the last listed one."""
    if value["rule"] not in RULES:
        raise InvalidValue(f"is one of {', '.join(RULES)}", path="rule")
    tools, found = dict(state["tools"]), dict(state["found"])
    for tool, pin in value["tools"].items():
        if shown_pin(state, tool) != pin:
            raise InvalidValue(f"the server lists another definition of {tool} by now", path="tools")
        gone = tools[tool]["gone"] if tool in tools else False
        found.pop(tool, None)
        tools[tool] = {
            "pin": pin,
            "rule": value["rule"],
            "effect": value["effect"],
            "public": value["public"],
            "by": context.stamp.actor,
            "at": context.stamp.time_ns,
            "gone": gone,
            "quarantined": None,
        }
    return Step(set={"tools": tools, "found": found, "unattended": 0})


def _untrusted(state: Mapping[str, Any], value: Mapping[str, Any], context: ReducerContext) -> Step:
    """Takes the trust away; a tool that the server still lists is then one that nobody trusted."""
    tools, found = dict(state["tools"]), dict(state["found"])
    for tool in value["tools"]:
        pin, trusted = shown_pin(state, tool), tools.pop(tool, None)
        if trusted is not None and not trusted["gone"] and len(found) < MAX_FOUND:
            found[tool] = {"pin": pin, "at": context.stamp.time_ns}
    return Step(set={"tools": tools, "found": found, "unattended": 0})


def _listed(state: Mapping[str, Any], value: Mapping[str, Any], context: ReducerContext) -> Step:
    tools, found, now_ns = dict(state["tools"]), dict(state["found"]), context.stamp.time_ns
    for tool in value["gone"]:
        found.pop(tool, None)
        if tool in tools:
            tools[tool] = {**tools[tool], "gone": True}
    for tool, pin in value["tools"].items():
        if tool not in tools:
            if tool in found or len(found) < MAX_FOUND:
                found[tool] = {"pin": pin, "at": now_ns}
            continue
        trusted, quarantined = tools[tool], tools[tool]["quarantined"]
        if quarantined is not None:
            quarantined = {"pin": pin, "at": quarantined["at"]}
        elif pin != trusted["pin"]:
            quarantined = {"pin": pin, "at": now_ns}
        tools[tool] = {**trusted, "gone": False, "quarantined": quarantined}
    is_attended = context.stamp.caller.transport != HOST.transport
    changed = {"listing_ref": value["listing_ref"], "listed_at": now_ns, "tools": tools, "found": found}
    return Step(set={**changed, "unattended": 0 if is_attended else state["unattended"] + 1})


def mcp_server_reducer() -> Reducer:
    """Returns the code of the module."""
    return Reducer(reduce, inspect.getsource(sys.modules[__name__]).encode())
