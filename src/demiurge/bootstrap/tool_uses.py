"""The number of calls of each tool among the newest records of a journal."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.journal import PAGE
from demiurge.world.effect_kinds import TOOL

__all__ = ["LOOKED_AT", "ToolUses", "count_uses"]

LOOKED_AT: Final = 10_000
"""The number of records that are looked at: counting takes the same time however long a journal becomes."""


class ToolUses(NamedTuple):
    """`calls` maps a tool to `{calls, last_called_ns}`; `looked_at` is the number of records that were looked at."""

    calls: dict[str, dict[str, Any]]
    looked_at: int


def count_uses(backend: Backend, length: int) -> ToolUses:
    """Counts the calls that were asked for, also those that were denied, among the newest of `length` records."""
    calls: dict[str, dict[str, Any]] = {}
    first = max(1, length + 1 - LOOKED_AT)
    for start in range(first, length + 1, PAGE):
        for view in backend.read.records(None, start, min(PAGE, length + 1 - start)):
            if view["kind"] != "intent" or view["body"].get("kind") != TOOL:
                continue
            tool = view["body"].get("params", {}).get("tool")
            if isinstance(tool, str):
                counted = calls.setdefault(tool, {"calls": 0, "last_called_ns": 0})
                counted["calls"] += 1
                counted["last_called_ns"] = view["time_ns"]
    return ToolUses(calls, length + 1 - first)
