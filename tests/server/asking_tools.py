"""A served world whose tool asks a person half-way."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.provider import Provider
from tests.server.conftest import ENVIRONMENT, Served, served_on

from demiurge import ToolContext, ToolEffect, ToolPolicy, World, tool
from demiurge.tools.input_required import InputRequired, Question

__all__ = ["FORM", "MESSAGE", "asked", "serving_asking"]

MESSAGE = "Who travels?\n\u202eHurry!"
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name of the traveller", "minLength": 2},
        "nights": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
        "meal": {"type": "string", "enum": ["v", "m"], "enumNames": ["Vegetarian", "Meat"]},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["wifi", "bag"]}},
        "window": {"type": "boolean", "description": "A seat at the window?"},
    },
    "required": ["name"],
}


@tool(effect=ToolEffect.READ_ONLY)
def book_room(city: str, context: ToolContext) -> str | InputRequired:
    """Book a room."""
    resumed = context.resumed
    if resumed is None:
        return InputRequired((Question("who", MESSAGE, schema=FORM),), server="tours")
    if resumed.leg == 2 and city == "Lima":
        return InputRequired((Question("pay", "Pay there.", url="https://pay.example/x"), Question("why", "Why?")))
    return json.dumps({key: answer.to_json() for key, answer in resumed.answers.items()})


@asynccontextmanager
async def serving_asking(folder: Path, provider: Provider, port: int = 0) -> AsyncIterator[Served]:
    """Serves the world in `folder` while the block runs."""
    opening = World.open(
        folder,
        [book_room],
        ToolPolicy(("book_room",)),
        provider="openai-responses",
        base_url=provider.url,
        environment=ENVIRONMENT,
    )
    async with opening as world, served_on(world, provider, port) as served:
        yield served


async def asked(served: Served, city: str = "Rome") -> dict[str, Any]:
    """Has the model book a room in the chat `c1`. Returns the call that waits."""
    call = Provider.call("book_room", {"city": city})
    served.provider.say(Provider.answer(call), Provider.answer(Provider.text("Booked.")))
    user = await served.client()
    turn = (await user.post("/api/chats/c1/messages", json={"text": "Book a room", "wait": True})).json()
    assert turn["status"] == "awaiting_approval"
    [waiting] = (await user.get("/api/approvals")).json()["approvals"]
    found: dict[str, Any] = waiting
    return found
