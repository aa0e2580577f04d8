"""A process to be killed: `model_review_child.py FOLDER URL PROPOSAL [cases]` asks the model at URL to review a
proposal, or tries its test cases on that model."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.bootstrap.asked_models import opened_at


async def main(folder: Path, url: str, proposal: str, kind: str = "review") -> None:
    async with opened_at(folder, url) as world:
        found = await world.prompt_tools.proposal(proposal)
        ask = world.prompt_tools.try_cases if kind == "cases" else world.prompt_tools.ask_model
        await ask(proposal, found.digest)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
