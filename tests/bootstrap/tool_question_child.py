"""A world whose tool asks a person half-way, and a process to be killed while it goes on:
`tool_question_child.py FOLDER URL EFFECT`, which answers the one waiting question, or else books."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from demiurge import ToolContext, ToolEffect, ToolPolicy, World, tool
from demiurge.tools.authoring.tool import Tool
from demiurge.tools.input_required import InputRequired, Question

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name of the traveller", "minLength": 2},
        "nights": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
    },
    "required": ["name"],
}
WHO = Question("who", "Who travels?", schema=FORM)
CONTENT = {"name": "Ada"}


def booking(folder: Path, effect: ToolEffect = ToolEffect.EXTERNAL_SIDE_EFFECT, **asks: Any) -> Tool[Any, Any]:
    """Returns a tool that asks for whom it books, and writes each booking into a file beside the world."""

    @tool(name="book", effect=effect)
    def book(city: str, context: ToolContext) -> str | InputRequired:
        """Books a room."""
        resumed = context.resumed
        if resumed is None:
            return InputRequired((WHO,), state=f"offer for {city}".encode(), **asks)
        answer = resumed.answers.get("who")
        said = "nobody" if answer is None else answer.content["name"] if answer.content else answer.action
        with (folder.parent / "booked.txt").open("a") as booked:
            booked.write(f"{resumed.state.decode()}: {said}\n")
        return f"booked for {said}"

    return book


def booked(folder: Path) -> list[str]:
    """Returns the bookings that were made."""
    found = folder.parent / "booked.txt"
    return found.read_text().splitlines() if found.exists() else []


def opened(
    folder: Path,
    url: str = "http://127.0.0.1:9",
    policy: ToolPolicy | None = None,
    effect: ToolEffect = ToolEffect.EXTERNAL_SIDE_EFFECT,
    **options: Any,
) -> World:
    """Opens a world whose policy allows the tool unless another policy is given."""
    environment = {"LLM_API_KEY": "sk-test", "OPENAI_BASE_URL": url, "HOME": str(folder.parent)}
    tools = options.pop("tools", [booking(folder, effect)])
    return World.open(folder, tools, policy or ToolPolicy(("book",)), environment=environment, **options)


async def main(folder: Path, url: str, effect: str) -> None:
    async with opened(folder, url, effect=ToolEffect(effect)) as world:
        for asked in await world.approvals():
            await world.answer(asked["id"], content=CONTENT)
            await world.settle()
            return
        await world.chat("trip").send("Book a room in Rome.")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
