"""A process to be killed: `prompt_tools_child.py FOLDER sync|export` reads or writes the files of prompt tools."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.bootstrap.reviewed_worlds import opened


async def main(folder: Path, what: str) -> None:
    async with opened(folder) as world:
        await (world.prompt_tools.sync() if what == "sync" else world.prompt_tools.export())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
