"""The sentence by which a request names the tools that it offers and does not describe: ids, or groups with a count, in
the description of `core__find_tools`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from demiurge.tools.ids import FIND_TOOLS
from demiurge.tools.spec import ToolSpec

__all__ = ["MOST_NAMED", "deferred_text", "with_deferred"]

MOST_NAMED: Final = 12
"""Of a group with at most so many tools the request says the names."""

_SHIPPED: Final[Mapping[str, str]] = {
    "core": "stories, prose, issues, prompt tools",
    "introspect": "state of this world",
}


def with_deferred(spec: ToolSpec, deferred: Sequence[str]) -> ToolSpec:
    """Returns the spec of `core__find_tools` with the tools that it can find in its description; any other spec as it
    is."""
    if spec.name != FIND_TOOLS or not deferred:
        return spec
    text = deferred_text(deferred)
    return replace(spec, description=f"{spec.description} {text}", spec_hash="")


def deferred_text(names: Sequence[str]) -> str:
    """Returns the tools in one sentence, by group: the first part of an id, with the server of an MCP tool."""
    groups = [(group, [*own]) for group, own in groupby(sorted(names, key=_group), _group)]
    return f"There are: {'; '.join(_group_text(group, own) for group, own in groups)}."


def _group(name: str) -> str:
    parts = name.split("__")
    if parts[0] == "mcp" and len(parts) > 2:
        return f"mcp__{parts[1]}"
    return parts[0] if len(parts) > 1 else ""


def _group_text(group: str, names: Sequence[str]) -> str:
    words = _SHIPPED.get(group)
    if words is not None:
        return f"{words} ({len(names)})"
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{group or 'others'} ({len(names)})"
