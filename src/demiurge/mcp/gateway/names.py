"""The names under which the gateway offers tools: their ids, or with `--server` the names that the server gave them.

A prompt of the server `docs` is `docs__<name>`, and the address of its resource `mcp://docs/<address>`, so that equal
names and addresses of two servers stay apart; with `--server` they are those of the server.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from demiurge.tools.ids import READ_RESULT, in_lists, is_shipped_id, is_tool_id
from demiurge.tools.spec import ToolSpec

__all__ = ["ToolNames"]

_SCHEME: Final = "mcp://"


@dataclass
class ToolNames:
    """`only`: the ids that are offered, None for all. `own_names`: by id, the names of one server's tools; with it only
    these are offered, under these names (`rename` follows the server's list). `server`: the server whose prompts and
    resources alone are offered, under its names and addresses. `with_shipped`: whether the tools that come with
    Demiurge are offered, apart from those that `only` names and from the one that reads large results."""

    only: Collection[str] | None = None
    own_names: Mapping[str, str] | None = None
    server: str | None = None
    with_shipped: bool = True
    _ids: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.rename(self.own_names)

    def rename(self, own_names: Mapping[str, str] | None) -> None:
        """Takes the names that the server gives its tools now."""
        self.own_names = own_names
        self._ids = {name: tool_id for tool_id, name in (own_names or {}).items()}

    def offered(self, catalog: Sequence[ToolSpec]) -> list[tuple[str, ToolSpec]]:
        """Returns the tools of a catalog that are offered, with their names: one's own first, then those of servers,
        then the shipped ones, each sorted by name."""
        found = [(name, spec) for spec in catalog if (name := self._name_of(spec.name)) is not None]
        return sorted(found, key=lambda each: in_lists(each[0]))

    def _is_offered(self, tool_id: str) -> bool:
        if self.only is not None:
            return tool_id in self.only
        return self.with_shipped or tool_id == READ_RESULT or not is_shipped_id(tool_id)

    def _name_of(self, tool_id: str) -> str | None:
        if not self._is_offered(tool_id):
            return None
        return tool_id if self.own_names is None else self.own_names.get(tool_id)

    def id_of(self, name: str) -> str | None:
        """Returns the id of the tool under this name; None if it is not offered."""
        tool_id = self._ids.get(name) if self.own_names is not None else name if is_tool_id(name) else None
        return tool_id if tool_id is not None and self._is_offered(tool_id) else None

    def prompt(self, server: str, name: str) -> str:
        """Returns the name of a server's prompt here."""
        return name if self.server is not None else f"{server}__{name}"

    def address(self, server: str, uri: str) -> str:
        """Returns the address of a server's resource here."""
        return uri if self.server is not None else f"{_SCHEME}{server}/{uri}"

    def server_s_address(self, uri: str) -> tuple[str, str]:
        """Returns the server of an address and the address there; two empty texts for an address that is none."""
        if self.server is not None:
            return self.server, uri
        server, _, own = uri.removeprefix(_SCHEME).partition("/") if uri.startswith(_SCHEME) else ("", "", "")
        return server, own

    def items(self, specs: Sequence[ToolSpec]) -> list[tuple[Mapping[str, Any], ToolSpec]]:
        """Returns the prompts, resources and templates that are offered: their definitions, and their specs."""
        return [
            (spec.mcp_item, spec)
            for spec in specs
            if spec.mcp_item is not None
            and (self.only is None or spec.name in self.only)
            and self.server in (None, spec.mcp_item["server"])
        ]
