"""A process to be killed: `tool_decision_child.py FOLDER PROPOSAL DIGEST` approves a proposal."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.bootstrap.reviewed_worlds import opened


async def main(folder: Path, proposal: str, digest: str) -> None:
    async with opened(folder) as world:
        await world.prompt_tools.approve(proposal, digest, read=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
