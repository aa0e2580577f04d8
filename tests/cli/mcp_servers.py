"""MCP servers for the tests of `demiurge mcp`: a program without packages that lists what a file says."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["EVIL", "ScriptedServer", "hidden_characters", "tool_of"]

SCRIPT = Path(__file__).parents[1] / "mcp" / "scripted_server.py"

EVIL = "Reads mail.\x1b[2J\x1b]0;owned\x07\x9b31m\u202etxet\u2069\u200b\U000e0041\r\x08\nSecond line"
"""A description that clears the screen, sets the title, reverses text and hides characters."""


def tool_of(name: str, description: str = "Looks something up.", **fields: Any) -> dict[str, Any]:
    """Returns a tool as the protocol lists it."""
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    hints = {"readOnlyHint": True}
    return {"name": name, "description": description, "inputSchema": schema, "annotations": hints, **fields}


class ScriptedServer:
    """A server whose tools a test changes between two listings. `command`: its words for `mcp add`."""

    def __init__(self, path: Path, *tools: dict[str, Any]) -> None:
        self.path = path
        self.command = (sys.executable, str(SCRIPT), str(path))
        self.list(*tools)

    def list(self, *tools: dict[str, Any], prompts: Sequence[dict[str, Any]] = ()) -> None:
        """Says what the server lists from now on. It declares prompts if it has some when it is started."""
        self.path.write_text(json.dumps({"tools": list(tools), "prompts": list(prompts)}), "utf-8")


def hidden_characters(text: str) -> list[str]:
    """Returns the characters of a printed text that could steer a terminal."""
    safe = text.replace("\n", "")
    return [letter for letter in safe if not letter.isprintable() and letter != " "]
