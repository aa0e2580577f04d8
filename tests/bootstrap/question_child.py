"""A process to be killed while it answers the one waiting question of a world: `question_child.py FOLDER URL`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from demiurge import World

ANSWER = "Rome"


def opened(folder: Path, url: str = "http://127.0.0.1:9", **options: Any) -> World:
    """Opens a world whose model is at `url`; the clock of the machine, and the default policy unless one is given."""
    environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": url, "HOME": str(folder.parent)}
    return World.open(folder, environment=environment, **options)


async def main(folder: Path, url: str) -> None:
    async with opened(folder, url) as world:
        [asked] = await world.approvals()
        await world.answer(asked["id"], ANSWER)
        await world.settle()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
