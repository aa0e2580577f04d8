"""The list of tools, prompts, resources and templates that a server shows at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from demiurge.mcp.definition import ToolDefinition

__all__ = ["Listing", "ToolListing"]


@dataclass(frozen=True, slots=True)
class ToolListing:
    """A server's tools, prompts, resources and templates, in this order and then in the server's. `protocol`: the
    revision that was agreed on, such as `2026-07-28`. The server's name, version and instructions are its own words; no
    model is shown them. `problems`: sentences for people about tools that were left out."""

    definitions: tuple[ToolDefinition, ...] = ()
    protocol: str = ""
    server_name: str = ""
    server_version: str = ""
    instructions: str = ""
    problems: tuple[str, ...] = ()
    _by_name: dict[str, ToolDefinition] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {definition.label: definition for definition in self.definitions})

    def find(self, label: str) -> ToolDefinition | None:
        """Returns the definition with this label (of a tool: its name), None if the server does not list it."""
        return self._by_name.get(label)


Listing: TypeAlias = ToolListing
