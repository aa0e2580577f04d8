"""A process to be killed: `model_review_child.py FOLDER URL PROPOSAL` asks the model at URL to review a proposal."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.bootstrap.asked_models import opened_at


async def main(folder: Path, url: str, proposal: str) -> None:
    async with opened_at(folder, url) as world:
        found = await world.prompt_tools.proposal(proposal)
        await world.prompt_tools.ask_model(proposal, found.digest)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
