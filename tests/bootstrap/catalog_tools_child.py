"""A process to be killed: `catalog_tools_child.py FOLDER` calls `core__propose_tool` once, and finishes the call."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

from tests.registry.proposals import proposal_of

from demiurge import ToolPolicy, World
from demiurge.registry.catalog_tools import PROPOSE_TOOL

__all__ = ["PROPOSED"]

_GIVEN: Final = proposal_of()

PROPOSED: Final[dict[str, Any]] = {
    **{
        name: _GIVEN[name]
        for name in ("id", "name", "archetype", "scope", "goals", "guardrails", "prompt", "rationale")
    },
    "usage_notes": _GIVEN["usageNotes"],
    "examples": _GIVEN["examples"],
    "test_cases": [
        {"id": "quotes", "should": "pass", "reply": 'Slow: "She waited."', "must_match": ['"[^"]+"']},
        {"id": "no_quotes", "should": "fail", "reply": "It is slow.", "must_match": ['"[^"]+"']},
    ],
}
"""The arguments of a call that proposes a sound tool."""


async def main(folder: Path) -> None:
    policy = ToolPolicy((PROPOSE_TOOL,))
    async with World.open(folder, policy=policy, environment={"HOME": str(folder.parent)}) as world:
        await world.call(PROPOSE_TOOL, json.dumps(PROPOSED), "mine")
        await world.settle()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
