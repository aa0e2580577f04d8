"""Asks an MCP server for its tools, which may start a program and take a minute, and says so meanwhile."""

from __future__ import annotations

from demiurge.bootstrap.backend.mcp_views import McpServerView
from demiurge.cli.long_step import goes_on
from demiurge.cli.world import Opened
from demiurge.errors import DemiurgeError

__all__ = ["asked"]


def asked(opening: Opened, name: str) -> tuple[McpServerView, DemiurgeError | None]:
    """Has a server list its tools now. Returns the server, and the error if it did not. Raises NotFound."""
    world, portal = opening
    try:
        with goes_on(f"Asking {name} for its tools ..."):
            return portal.run(world.mcp.refresh(name)), None
    except DemiurgeError as error:
        return portal.run(world.mcp.show(name)), error
