"""The findings about the tools of a world's MCP servers (`demiurge.mcp.scan`): the trusted definitions, and those that
the servers listed last."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.mcp_views import McpServerView
from demiurge.bootstrap.mcp_tools import definition_of
from demiurge.bootstrap.shipped_tools import SHIPPED_TOOLS
from demiurge.mcp.definition import ToolDefinition
from demiurge.mcp.scan import ScanFinding, ScannedTool, scan_tools
from demiurge.values.refs import parse_ref

__all__ = ["ServerScan", "scan_definitions", "scan_servers"]


class ServerScan(NamedTuple):
    """The outcome of a scan. `tools` counts the definitions that were looked at; `unlisted` names servers that never
    listed their tools here, so that there was nothing to look at."""

    servers: tuple[str, ...]
    tools: int
    findings: tuple[ScanFinding, ...]
    unlisted: tuple[str, ...] = ()


async def scan_servers(backend: Backend, name: str | None = None) -> ServerScan:
    """Returns the findings about the server `name`, or about all servers. The names of all servers are compared in both
    cases. No server is started. Raises NotFound (`no_mcp_server`), UsageError (`role_missing`)."""
    views = await backend.read.mcp_servers()
    if name is not None:
        await backend.read.mcp_server(name)
    tools = await asyncio.to_thread(lambda: [tool for view in views for tool in _tools(backend, view)])
    wanted = [view for view in views if name in (None, view.name)]
    unlisted = tuple(view.name for view in wanted if view.listed_at_ms is None and not view.tools)
    said = {view.name: view.instructions for view in views}
    found = await asyncio.to_thread(scan_definitions, tools, said)  # long texts take seconds
    return _only(found, [view.name for view in wanted])._replace(unlisted=unlisted)


def scan_definitions(tools: Sequence[ScannedTool], instructions: dict[str, str] | None = None) -> ServerScan:
    """Returns the findings about definitions of tools. `instructions`: what servers say about themselves, by name."""
    shipped = [tool.name for tool in SHIPPED_TOOLS]
    said = instructions or {}
    found = scan_tools(tools, shipped=shipped, instructions=said)
    servers = dict.fromkeys((*(tool.server for tool in tools), *said))
    return ServerScan(tuple(servers), len(tools), tuple(found))


def _only(scan: ServerScan, servers: Sequence[str]) -> ServerScan:
    return scan._replace(
        servers=tuple(servers), findings=tuple(finding for finding in scan.findings if finding.server in servers)
    )


def _tools(backend: Backend, view: McpServerView) -> Iterator[ScannedTool]:
    for tool in view.tools:
        for pin, state in ((tool.pin, "pinned"), (tool.found_pin, "listed")):
            if pin is not None and (state == "pinned" or pin != tool.pin):
                yield ScannedTool(view.name, _definition(backend, pin), state)


def _definition(backend: Backend, pin: str) -> ToolDefinition:
    return definition_of(backend.read.get_blob(parse_ref(pin)))
