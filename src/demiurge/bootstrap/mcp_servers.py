"""`world.mcp`: the MCP servers of a world, and which of their tools are trusted."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from demiurge.bootstrap.backend import Backend
from demiurge.bootstrap.backend.mcp_views import McpServerView, McpToolView
from demiurge.bootstrap.mcp_scan import ServerScan, scan_servers
from demiurge.bootstrap.trust.local_servers import settings_digest
from demiurge.mcp.settings import ServerSettings
from demiurge.tools.effect import ToolEffect

__all__ = ["McpServerView", "McpServers", "McpToolView"]


@dataclass(frozen=True, slots=True)
class McpServers:
    """The MCP servers of the world behind `backend`. Only a `user` may list or change them (UsageError,
    `role_missing`). Nothing that a server lists is in the catalog before a user trusts it. Methods raise
    Unavailable."""

    backend: Backend = field(repr=False)

    async def add(self, settings: ServerSettings) -> McpServerView:
        """Adds a server; it is not started by that. Raises InvalidValue (`literal_credential`: a value is likely a key
        or a token), Conflict (`exists`; `look_alike`: its name reads like another one), UsageError (`too_many`)."""
        await self.backend.run.add_mcp_server(settings.to_json())
        return await self.show(settings.name)

    async def list(self) -> builtins.list[McpServerView]:
        """Returns the servers by name; their tools have no descriptions and changes."""
        return await self.backend.read.mcp_servers()

    async def show(self, name: str) -> McpServerView:
        """Returns a server, with the descriptions and changes of its tools. Raises NotFound (`no_mcp_server`)."""
        return await self.backend.read.mcp_server(name)

    async def refresh(self, name: str) -> McpServerView:
        """Connects to a server and has it list its tools now. A trusted tool whose definition differs is quarantined.
        Raises NotFound, Conflict (`not_adopted`: the server was added elsewhere)."""
        await self.backend.run.refresh_mcp_server(name)
        return await self.show(name)

    async def scan(self, name: str | None = None) -> ServerScan:
        """Returns what a person should know of the tools of a server, or of all, before they trust them
        (docs/mcp-scan.md). It looks at the trusted definitions and at those listed last, and starts nothing. Raises
        NotFound."""
        return await scan_servers(self.backend, name)

    async def trust(
        self,
        name: str,
        tools: Iterable[str] | None = None,
        *,
        rule: Literal["ask", "allow"] = "ask",
        effect: ToolEffect | str | None = None,
        public: Iterable[str] = (),
        pins: Mapping[str, str] = MappingProxyType({}),
    ) -> McpServerView:
        """Trusts tools of a server as it listed them last: those with these ids or names, None: all that it lists. A
        server that was never asked is asked now.

        `rule`: whether a person is asked before each call. `effect`: the level of these tools, if it is stricter than
        the server's hints; without hints and without `effect` it is `external_side_effect`. `public`: the fields of
        their results that screens and logs show. `pins`: the definitions that the person saw (`found_pin`), by tool
        id: if one of them is another one by now, nothing is trusted. Raises NotFound, InvalidValue (`tool_schema`: a
        definition that can't be used), Conflict (`changed`; `not_adopted`)."""
        wanted = list(tools) if tools is not None else None
        level = str(effect) if effect is not None else None
        await self.backend.run.trust_mcp_tools(name, wanted, rule, level, list(public), dict(pins))
        return await self.show(name)

    async def untrust(self, name: str, tools: Iterable[str] | None = None) -> McpServerView:
        """Takes the trust in tools away, None: in all of a server. Raises NotFound."""
        await self.backend.run.untrust_mcp_tools(name, list(tools) if tools is not None else None)
        return await self.show(name)

    async def remove(self, name: str) -> None:
        """Removes a server with its pins. Raises NotFound."""
        await self.backend.run.remove_mcp_server(name)

    async def adopt(self, name: str) -> McpServerView:
        """Accepts a server that was added elsewhere, with the settings that it has now, for this user in this place:
        from now on it is started when it is needed. Raises NotFound, Conflict (`changed`: it has other settings by
        now), UsageError (`not_here`: the caller is not the user of the machine that has the world open)."""
        settings = ServerSettings.of_json((await self.show(name)).settings)
        await self.backend.run.adopt_mcp_server(name, settings_digest(settings))
        return await self.show(name)
