"""A process that owns a world: `python -m tests.bootstrap.manifest_owner FOLDER [FAULTS]`.

For each line on stdin it prints what it runs the world with, as JSON; at the end of stdin it closes the world. With
FAULTS they are armed for the first line on, so the process may die in what others ask of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path

from demiurge import ToolPolicy, World, faults, tool
from demiurge.tools import ToolEffect

__all__ = ["ALLOWS", "opened", "ring_bell"]


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def ring_bell(times: int) -> str:
    """Ring the bell."""
    return "rang" * times


ALLOWS = ToolPolicy(allowed_tools=("ring_bell",))


def opened(folder: Path) -> World:
    """The world as this program opens it."""
    return World.open(folder, [ring_bell], ALLOWS, environment={"HOME": str(folder.parent)})


async def main(folder: Path, armed: str) -> None:
    with ExitStack() as stack:
        async with opened(folder) as world:
            value = {"chat_id": "main", "title": "t", "created_at_ms": 1}
            await world.submit("demiurge/ChatCreated@1", value, None, "made")
            print("open", os.getpid(), flush=True)
            while await asyncio.to_thread(sys.stdin.readline):
                info = await world.info()
                log = [entry["how"] for entry in world.manifest_log()]
                seen = {"manifest": info["manifest"], "catalog": [spec["name"] for spec in info["catalog"]], "log": log}
                print(json.dumps(seen), flush=True)
                if armed:
                    stack.enter_context(faults.armed(faults.parse(armed)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
