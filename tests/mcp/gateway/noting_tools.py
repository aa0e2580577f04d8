"""Tools that note each of their runs in a file outside of the world."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from demiurge import ToolEffect, tool

NOTES = "GATEWAY_NOTES"
"""The variable that names the file."""


def note(text: str) -> None:
    with Path(os.environ[NOTES]).open("a") as file:
        file.write(f"{text}\n")


@tool(effect=ToolEffect.EXTERNAL_SIDE_EFFECT)
def send(city: str) -> str:
    """Send a parcel."""
    note(f"sent to {city}")
    return f"sent to {city}"


@tool(effect=ToolEffect.STATE_CHANGE)
async def begin(word: str) -> str:
    """Begin something, and go on once a file with its name is there."""
    note(f"began {word}")
    while not Path(f"{os.environ[NOTES]}.{word}").exists():
        await asyncio.sleep(0.02)
    note(f"ended {word}")
    return f"ended {word}"
