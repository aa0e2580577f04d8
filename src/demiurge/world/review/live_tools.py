"""The prompt tools that a world's catalog has: the shipped core tools, and those that its registry holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from demiurge.registry.pack.load import core_tools
from demiurge.registry.prompt_tool import PromptTool
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.world.review.registry_unit import LAYERS, live_key

__all__ = ["LiveTool", "live_tools"]


class LiveTool(NamedTuple):
    """A tool of the catalog. `layer`: global, user or project; `entry`: its version in the registry, None for a core
    tool; `overrides`: the layers whose tool of the same id it hides."""

    tool: PromptTool
    layer: str
    entry: Mapping[str, Any] | None
    overrides: tuple[str, ...] = ()


def live_tools(cell: Mapping[str, Any] | None, get_blob: Callable[[Ref], bytes]) -> list[LiveTool]:
    """Returns the tools of the catalog, the core tools first, then the others by id. The project's version of a tool
    comes before the user's. Raises NotFound, Damaged."""
    live: Mapping[str, Any] = cell["live"] if cell is not None else {}
    found = [LiveTool(tool, "global", None) for tool in core_tools()]
    for tool_id in sorted({key.partition("/")[2] for key in live}):
        *hidden, layer = [layer for layer in LAYERS if live_key(layer, tool_id) in live]
        entry = live[live_key(layer, tool_id)]
        record = canonical_json.parse_object(get_blob(Ref(entry["digest"])))
        found.append(LiveTool(PromptTool.from_json(record), layer, entry, tuple(hidden)))
    return found
