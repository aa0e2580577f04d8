"""MCP servers as sources of tools: their definitions and pins, their settings, and the clients that talk to them.

Discovery grants nothing: a tool exists for a model only after somebody trusted the exact definition that its server
listed, and only while the server lists that definition. The protocol's SDK is imported when a server is used, never
before. This package imports `tools`, `registry`, `wire`, `values` and `errors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from demiurge.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from demiurge.mcp.clients import Listing, McpClients
    from demiurge.mcp.definition import Change, ToolDefinition, difference, effect_by_hints
    from demiurge.mcp.names import ReverseIds, checked_server_name, spelling, tool_id
    from demiurge.mcp.provider import McpToolProvider, Trust
    from demiurge.mcp.settings import Limits, SamplingGrant, ServerSettings, read_mcp_json

__all__ = [
    "Change",
    "Limits",
    "Listing",
    "McpClients",
    "McpToolProvider",
    "ReverseIds",
    "SamplingGrant",
    "ServerSettings",
    "ToolDefinition",
    "Trust",
    "checked_server_name",
    "difference",
    "effect_by_hints",
    "read_mcp_json",
    "spelling",
    "tool_id",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        "demiurge.mcp.clients": ("Listing", "McpClients"),
        "demiurge.mcp.definition": ("Change", "ToolDefinition", "difference", "effect_by_hints"),
        "demiurge.mcp.names": ("ReverseIds", "checked_server_name", "spelling", "tool_id"),
        "demiurge.mcp.provider": ("McpToolProvider", "Trust"),
        "demiurge.mcp.settings": ("Limits", "SamplingGrant", "ServerSettings", "read_mcp_json"),
    },
)
