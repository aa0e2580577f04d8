"""The prompt tools that a world's catalog has: the shipped core tools, and those that its registry holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from demiurge.errors import Damaged, NotFound
from demiurge.registry.pack.load import core_tools
from demiurge.registry.prompt_tool import PromptTool
from demiurge.values import canonical_json
from demiurge.values.refs import Ref
from demiurge.world.review.registry_unit import LAYERS, live_key

__all__ = ["LiveTool", "damaged_tools", "live_tools"]


class LiveTool(NamedTuple):
    """A tool of the catalog. `layer`: global, user or project; `entry`: its version in the registry, None for a core
    tool; `overrides`: the layers whose tool of the same id it hides."""

    tool: PromptTool
    layer: str
    entry: Mapping[str, Any] | None
    overrides: tuple[str, ...] = ()


def live_tools(cell: Mapping[str, Any] | None, get_blob: Callable[[Ref], bytes]) -> list[LiveTool]:
    """Returns the tools of the catalog, the core tools first, then the others by id. The project's version of a tool
    comes before the user's. A tool whose text can't be read is left out (`damaged_tools` names it), so that its loss
    stops no chat; the version that it hides does not come back for it."""
    found = [LiveTool(tool, "global", None) for tool in core_tools()]
    for _, layer, hidden, entry in _chosen(cell):
        with suppress(NotFound, Damaged):
            found.append(LiveTool(_read(entry, get_blob), layer, entry, hidden))
    return found


def damaged_tools(cell: Mapping[str, Any] | None, get_blob: Callable[[Ref], bytes]) -> list[str]:
    """Returns a sentence for each approved tool that is not in the catalog because its text can't be read."""
    found = []
    for tool_id, layer, _, entry in _chosen(cell):
        try:
            _read(entry, get_blob)
        except (NotFound, Damaged) as error:
            found.append(
                f"The prompt tool {tool_id} (layer {layer}, version {entry['version']}) is damaged and not in the "
                f"catalog: {error.message} Propose its text again: `demiurge tools propose` with the baseHash "
                f"{entry['digest']}, or `demiurge tools rollback {tool_id} VERSION` for an earlier version."
            )
    return found


def _chosen(cell: Mapping[str, Any] | None) -> Iterator[tuple[str, str, tuple[str, ...], Mapping[str, Any]]]:
    """Yields the approved tools by id: the id, the layer, the layers whose tool it hides, and its live version."""
    live: Mapping[str, Any] = cell["live"] if cell is not None else {}
    for tool_id in sorted({key.partition("/")[2] for key in live}):
        *hidden, layer = [layer for layer in LAYERS if live_key(layer, tool_id) in live]
        yield tool_id, layer, tuple(hidden), live[live_key(layer, tool_id)]


def _read(entry: Mapping[str, Any], get_blob: Callable[[Ref], bytes]) -> PromptTool:
    return PromptTool.from_json(canonical_json.parse_object(get_blob(Ref(entry["digest"]))))
