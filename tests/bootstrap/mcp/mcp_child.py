"""A process to be killed: `mcp_child.py FOLDER ACT STARTED` does one thing with the server `echo` of a world."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.bootstrap.mcp.mcp_worlds import echo, opened


async def main(folder: Path, act: str, started: str) -> None:
    async with opened(folder) as world:
        mcp = world.mcp
        if act == "add":
            await mcp.add(echo(Path(started)))
        elif act == "refresh":
            await mcp.refresh("echo")
        elif act == "trust":
            await mcp.trust("echo", rule="allow")
        elif act == "untrust":
            await mcp.untrust("echo")
        elif act == "remove":
            await mcp.remove("echo")
        elif act == "call":
            await world.call("mcp__echo__act", {"word": "x"}, "c1")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:4]))
