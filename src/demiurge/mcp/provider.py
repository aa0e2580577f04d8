"""MCP servers as a source of tools for a `ToolRunner`, in a program without a world.

The program says whom it trusts: for each server the tools, each with the pin of the definition that somebody read, or
by name alone with a function that is shown each definition once. A tool that is new, or that changed, is quarantined
until the program trusts it again, also if its server goes back to the old definition.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypeAlias

from demiurge.errors import DemiurgeError, InvalidValue, NotFound
from demiurge.mcp.clients import AuthOf, Listing, McpClients, SecretOf
from demiurge.mcp.definition import DefinitionChange, ToolDefinition, difference
from demiurge.mcp.names import ReverseIds, spelling
from demiurge.mcp.settings import ServerSettings
from demiurge.mcp.tool import quarantined_tool, server_tool
from demiurge.tools.bound import BoundTool
from demiurge.tools.effect import ToolEffect
from demiurge.tools.redaction import Redaction
from demiurge.tools.spec import ToolSpec
from demiurge.values.clock import Clock

__all__ = ["Confirm", "McpToolProvider", "Trust", "TrustedTools"]

Confirm: TypeAlias = Callable[[str, ToolDefinition], bool | Awaitable[bool]]
"""Asks for trust in a definition of a server, by name: its text is shown to whoever decides."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Trust in one tool. `pin`: of the definition; None: the provider's `confirm` is asked once. `effect`: the level
    that the program knows; the stricter of it and the server's hints counts. `redaction`: by default nothing of a
    result is public."""

    pin: str | None = None
    effect: ToolEffect | None = None
    redaction: Redaction | None = None


TrustedTools: TypeAlias = Iterable[str] | Mapping[str, str | Trust]


@dataclass(slots=True)
class _ListedTool:
    """The state of one tool: what is trusted, what its server lists, and what a runner gets."""

    trust: Trust | None
    found: ToolDefinition | None
    pinned: ToolDefinition | None
    bound: BoundTool


class McpToolProvider:
    """The trusted tools of servers, as a ToolSource. Enter it with `async with`; that lists every server, and leaving
    ends them. A server that can't be reached has no tools; `problems` says why, and `refresh` asks it again.

    `trust`: by the name of a server, its tools: names with their pins or a Trust, or names alone, for which `confirm`
    decides. The other arguments are those of McpClients. Raises InvalidValue for names of servers that read alike, for
    trust in a server that is not given, and for a name alone without `confirm`."""

    def __init__(
        self,
        servers: ServerSettings | Iterable[ServerSettings],
        *,
        trust: Mapping[str, TrustedTools],
        confirm: Confirm | None = None,
        secret_of: SecretOf | None = None,
        auth_of: AuthOf | None = None,
        clock: Clock | None = None,
        clients: McpClients | None = None,
    ) -> None:
        given = [servers] if isinstance(servers, ServerSettings) else list(servers)
        self._settings = {settings.name: settings for settings in given}
        if len({spelling(settings.name) for settings in given}) < len(given):
            raise InvalidValue("two servers have names that read alike", path="servers", code="tool_id_collision")
        self._confirm = confirm
        self._trust = {server: _trust_of(tools) for server, tools in trust.items()}
        for server, tools in self._trust.items():
            if server not in self._settings:
                raise InvalidValue(f"no server has the name {server!r}", path="trust")
            if confirm is None and any(entry.pin is None for entry in tools.values()):
                raise InvalidValue("a name without a pin needs 'confirm', which is shown the definition", path="trust")
        self._clients = clients or McpClients(secret_of=secret_of, auth_of=auth_of, clock=clock)
        self._clients.on_listing = self._take
        self._ids = ReverseIds()
        self._listings: dict[str, Listing] = {}
        self._tools: dict[str, dict[str, _ListedTool]] = {name: {} for name in self._settings}
        self.problems: dict[str, str] = {}
        """Why a server has no tools, or not all of them, by its name: sentences for people."""

    async def __aenter__(self) -> Self:
        await self.refresh()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the servers."""
        await self._clients.close()

    async def refresh(self, server: str | None = None) -> None:
        """Lists the tools of one server, or of all at the same time."""
        names = [server] if server is not None else list(self._settings)
        await asyncio.gather(*(self._list(name) for name in names))

    def get(self, tool_id: str) -> BoundTool | None:
        """Returns the tool with this id; a quarantined one is answered as such by the runner."""
        names = self._ids.find(tool_id)
        listed = self._tools[names[0]].get(names[1]) if names is not None else None
        return listed.bound if listed is not None else None

    def specs(self) -> tuple[ToolSpec, ...]:
        """Returns the specs of all listed and all trusted tools, by server in the order of the program and then by
        name."""
        return tuple(
            listed.bound.spec for tools in self._tools.values() for _, listed in sorted(tools.items(), key=_by_name)
        )

    def listing(self, server: str) -> Listing | None:
        """Returns the newest list of a server; None before it was reached."""
        return self._listings.get(server)

    def changes(self, server: str, tool: str) -> list[DefinitionChange]:
        """Returns what differs between the trusted definition of a tool and the one that its server lists. Raises
        NotFound."""
        listed = self._listed(server, tool)
        return difference(listed.pinned, listed.found)

    def trust(
        self,
        server: str,
        tool: str,
        pin: str,
        *,
        effect: ToolEffect | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        """Trusts the definition of a tool that its server lists now; that ends its quarantine. Raises NotFound, and
        InvalidValue (`pin_mismatch`) if the server lists another definition."""
        listed = self._listed(server, tool)
        if listed.found is None or listed.found.pin != pin:
            raise InvalidValue("the server lists another definition of this tool", path="pin", code="pin_mismatch")
        self._bind(server, listed.found, Trust(pin, effect, redaction))

    def _listed(self, server: str, tool: str) -> _ListedTool:
        listed = self._tools.get(server, {}).get(tool)
        if listed is None:
            raise NotFound(f"The server {server!r} lists no tool {tool!r}.")
        return listed

    async def _list(self, server: str) -> None:
        try:
            listing = await self._clients.list_tools(self._settings[server])
        except DemiurgeError as error:
            self.problems[server] = error.message
            return
        if self._listings.get(server) != listing:  # the clients listed it before this provider listened
            await self._take(server, listing)

    async def _take(self, server: str, listing: Listing) -> None:
        """Compares a new listing with what is trusted."""
        self._listings[server] = listing
        problems = list(listing.problems)
        tools = self._tools[server]
        for name in [name for name in tools if listing.find(name) is None]:
            tools[name].found = None
            if tools[name].trust is None:  # a server may list other names each time
                del tools[name]
                self._ids.remove(server, name)
        for definition in listing.definitions:
            try:
                self._ids.add(server, definition.label)
                await self._compare(server, definition)
            except DemiurgeError as error:
                tools.pop(definition.label, None)
                problems.append(error.message)
        self.problems.pop(server, None)
        if problems:
            self.problems[server] = " ".join(problems)

    async def _compare(self, server: str, definition: ToolDefinition) -> None:
        tools = self._tools[server]
        listed = tools.get(definition.label)
        if listed is None:
            trust = self._trust.get(server, {}).get(definition.label)
            if trust is not None and trust.pin is None and await self._confirmed(server, definition):
                trust = replace(trust, pin=definition.pin)
            if trust is not None and trust.pin == definition.pin:
                self._bind(server, definition, trust)
                return
            bound = quarantined_tool(server, definition.label)
            tools[definition.label] = _ListedTool(trust, definition, None, bound)
            return
        listed.found = definition
        if listed.pinned is not None and listed.pinned.pin != definition.pin:
            spec = replace(listed.bound.spec, quarantined=True, spec_hash="")
            listed.bound = replace(listed.bound, spec=spec)

    async def _confirmed(self, server: str, definition: ToolDefinition) -> bool:
        assert self._confirm is not None
        answer = self._confirm(server, definition)
        return (await answer if inspect.isawaitable(answer) else answer) is True

    def _bind(self, server: str, definition: ToolDefinition, trust: Trust) -> None:
        bound = server_tool(
            self._clients,
            self._settings[server],
            definition,
            effect=trust.effect,
            redaction=trust.redaction,
        )
        self._tools[server][definition.label] = _ListedTool(trust, definition, definition, bound)


def _trust_of(tools: TrustedTools) -> dict[str, Trust]:
    if isinstance(tools, str):
        raise InvalidValue("the tools of a server are a list or a mapping", path="trust")
    entries: Mapping[str, Any] = tools if isinstance(tools, Mapping) else dict.fromkeys(tools, Trust())
    return {name: entry if isinstance(entry, Trust) else Trust(entry) for name, entry in entries.items()}


def _by_name(entry: tuple[str, _ListedTool]) -> str:
    return entry[0]
