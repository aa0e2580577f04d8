"""The MCP server of the kill runs: `python mcp_charges.py FOLDER` charges keys, each a line in FOLDER/charges."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from mcp.server.mcpserver import MCPServer

folder = Path(sys.argv[1])
server = MCPServer("charges")


def _note(name: str, line: str) -> None:
    place = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(place, f"{line}\n".encode())
    os.close(place)


@server.tool()
def charge(key: str) -> str:
    """Charges a key."""
    time.sleep(0.01)
    _note("charges", key)
    time.sleep(0.01)
    return f"charged {key}"


_note("servers", str(os.getpid()))
server.run()
