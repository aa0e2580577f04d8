"""A process to be killed while it makes a standing rule from a waiting call: `standing_rule_child.py FOLDER URL`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.bootstrap.edited_approval_child import opened


async def main(folder: Path, url: str) -> None:
    async with opened(folder, url) as world:
        [asked] = await world.approvals()
        await world.standing_rules.allow(asked["id"], count=3)
        await world.settle()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
