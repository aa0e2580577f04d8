"""A process to be killed while it approves the one waiting call of a world with other arguments:
`edited_approval_child.py FOLDER URL`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from demiurge import ToolEffect, ToolPolicy, World, tool
from demiurge.tools.authoring.tool import Tool

CHANGED = '{"city": "Rome", "nights": 2}'


def booking(folder: Path) -> Tool[Any, Any]:
    """Returns a tool that writes each booking into a file beside the world."""

    @tool(name="book", effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
    def book(city: str, nights: int) -> str:
        """Books a room."""
        with (folder.parent / "booked.txt").open("a") as booked:
            booked.write(f"{city} {nights}\n")
        return f"booked {city}"

    return book


def booked(folder: Path) -> list[str]:
    """Returns the bookings that were made."""
    found = folder.parent / "booked.txt"
    return found.read_text().splitlines() if found.exists() else []


def opened(folder: Path, url: str = "http://127.0.0.1:9", policy: ToolPolicy | None = None) -> World:
    asking = ToolPolicy(("book",), require_approval_for_tools=("book",))
    environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": url, "HOME": str(folder.parent)}
    return World.open(folder, [booking(folder)], policy or asking, environment=environment)


async def main(folder: Path, url: str) -> None:
    async with opened(folder, url) as world:
        [asked] = await world.approvals()
        await world.decide(asked["id"], approve=True, reason="two nights", arguments_json=CHANGED)
        await world.settle()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
