"""The texts of a tool's definition, each with its place as a path (`inputSchema/properties/q/description`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from demiurge.mcp.definition import ToolDefinition, visible

__all__ = ["MAX_DEPTH", "ToolText", "place", "texts_of"]

MAX_DEPTH: Final = 64
"""The levels of a schema that are read. A deeper schema is refused when the tool is made."""

_FIELDS: Final = (
    "name",
    "title",
    "description",
    "uri",
    "uriTemplate",
    "mimeType",
    "arguments",
    "inputSchema",
    "outputSchema",
    "annotations",
)


@dataclass(frozen=True, slots=True)
class ToolText:
    """A text of a definition. `is_name`: the text is the name of a tool or of a property."""

    field: str
    text: str
    is_name: bool = False


def texts_of(definition: ToolDefinition) -> list[ToolText]:
    """Returns all texts of a definition, in the order of its fields: its own, and all keys and texts of its schemas,
    arguments and annotations."""
    data = definition.to_json()
    found: list[ToolText] = []
    for field in _FIELDS:
        if field == "name":
            found.append(ToolText("name", definition.name, is_name=True))
        else:
            found += _texts(data.get(field), field, MAX_DEPTH)
    return found


def place(field: str, *keys: str | int) -> str:
    """Returns the path that `keys` lead to below `field`, with hidden characters spelled out."""
    return "/".join((field, *(visible(str(key)) for key in keys)))


def _texts(node: Any, field: str, depth: int) -> Iterator[ToolText]:
    if isinstance(node, str):
        yield ToolText(field, node)
    elif depth and isinstance(node, Mapping):
        for key, value in node.items():
            below = place(field, key)
            yield ToolText(below, str(key), is_name=True)
            yield from _texts(value, below, depth - 1)
    elif depth and isinstance(node, list | tuple):
        for number, value in enumerate(node):
            yield from _texts(value, place(field, number), depth - 1)
