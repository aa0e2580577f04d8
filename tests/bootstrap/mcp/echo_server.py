"""An MCP server over stdio: `echo_server.py STARTED` adds a line to the file STARTED, and has tools that show what its
environment holds, and that act."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

STARTED = Path(sys.argv[1])
with STARTED.open("a") as started:
    started.write("started\n")

server = MCPServer("echo", version="1")


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def leak(name: str) -> str:
    """Shows a variable of the server's environment."""
    return f"{name} is {os.environ.get(name)}"


@server.tool(structured_output=False)
def act(word: str) -> str:
    """Does something that others see."""
    with STARTED.open("a") as started:
        started.write(f"acted {word}\n")
    return f"did {word}"


if __name__ == "__main__":
    server.run("stdio")
