"""The error for a tool that a world does not have. Its text is for a caller that may see the list of tools: a model is
not told whether a tool is missing or denied."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from demiurge.errors import NotFound

__all__ = ["full_id", "missing_tool"]


def full_id(name: str, known: Collection[str]) -> str:
    """Returns the id of the tool that a person means by `name`: `time__now` means `mcp__time__now`, unless there is a
    tool `time__now`. A name without its server's is returned as it is, because two servers may have it."""
    return f"mcp__{name}" if name not in known and "__" in name and f"mcp__{name}" in known else name


def missing_tool(name: str, known: Collection[str]) -> NotFound:
    """Returns the error (`no_tool`) for the tool `name`, with the most similar name in `known`."""
    near = get_close_matches(name, sorted(known), 1)
    if near:
        guess = f"did you mean {near[0]}? "
    elif name.startswith("mcp__"):
        guess = f"`demiurge mcp show {name.split('__')[1]}` lists the tools of its server. "
    else:
        guess = "name the module that has it with --tools. "
    return NotFound(f"There is no tool {name} here; {guess}`demiurge tools ls --all` lists them.", code="no_tool")
