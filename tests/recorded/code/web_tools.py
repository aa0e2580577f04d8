"""A tool of the recorded chats that asks a host which does not exist."""

from __future__ import annotations

from demiurge import ToolContext, ToolEffect, tool
from demiurge.tools.capabilities import HttpAccess


@tool(effect=ToolEffect.READ_ONLY)
async def rate(host: str, context: ToolContext) -> str:
    """Look up a rate."""
    http = context.resources.get(HttpAccess)
    assert http is not None
    return (await http.request("GET", f"https://{host}/euro")).body.decode()


TOOLS = [rate]
