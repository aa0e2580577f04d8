"""The MCP server behind the gateways: `python upstream.py PORT`."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("upstream")


@server.tool()
def echo(text: str) -> str:
    """Says the text again."""
    return text


server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
