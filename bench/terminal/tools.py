"""The tool that is called."""

from __future__ import annotations

from demiurge.tools import ToolEffect, tool

__all__ = ["TOOLS"]


@tool(effect=ToolEffect.READ_ONLY)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


TOOLS = [add]
