"""Turns over `World`: `python -m bench.terminal.in_python FOLDER CHAT NUMBER CALLS...`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from bench.terminal.tools import TOOLS
from demiurge import ToolPolicy, World


async def main(folder: Path, chat: str, number: int, *turns: int) -> None:
    """A turn for each of `turns`, of so many calls; the first one has this number."""
    async with World.open(folder, TOOLS, ToolPolicy(("add",))) as world:
        for turn, calls in enumerate(turns, number):
            reply = await world.chat(chat).send(f"{calls} {turn}")
            assert (reply.status, len(reply.tool_calls)) == ("done", calls), reply


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])))
