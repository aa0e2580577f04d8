"""`McpRuntime`: the connections to a world's MCP servers, in the process that owns the world.

A server is started or asked when it is needed first, by a call or by a user who wants its list, and only if this user
accepted it here. What it lists is compared with its cell, and noted there only if it differs. Nothing that a server
lists is offered to a model by that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final, Literal

from demiurge import faults
from demiurge.bootstrap.backend.mcp_secrets import McpSecrets
from demiurge.bootstrap.backend.mcp_views import ListingInfo
from demiurge.bootstrap.mcp_tools import cell_tools, read_definition, settings_of
from demiurge.bootstrap.trust.local_servers import LocalServers
from demiurge.errors import Conflict, DemiurgeError, InvalidValue
from demiurge.mcp.clients import Listing, McpClients
from demiurge.mcp.definition import ToolDefinition
from demiurge.mcp.names import ReverseIds, tool_id
from demiurge.mcp.settings import ServerSettings
from demiurge.tools.bound import BoundTool
from demiurge.tools.connections.credentials import Secret
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.execution.secret_mask import HideSecret, SecretMask
from demiurge.tools.input_required import InputRequired
from demiurge.tools.result import ToolResult
from demiurge.values import canonical_json
from demiurge.values.caller import Caller
from demiurge.values.refs import Ref, ref_of
from demiurge.world.host import Host
from demiurge.world.mcp_servers import HOST, MAX_FOUND, MCP_LISTING, MCP_SERVER, listing_change
from demiurge.world.unit import Unit

__all__ = ["Connect", "McpRuntime", "PutInForce", "not_adopted", "server_cells"]

MAX_TEXT: Final = 8192
"""The longest text about itself that is kept of a server, in characters; a longer one is cut."""

MAX_PROBLEMS: Final = 32

LAST_LINES: Final = 10
LAST_CHARACTERS: Final = 2000
"""How much is shown of what a server wrote to its standard error before it failed."""

LOG_READ: Final = 16_384
"""How many characters of it are searched for secrets."""

FINISH_S: Final = 5.0
"""The longest time that an owner which stops waits for what servers listed to be noted, in seconds."""

Connect = Callable[[], McpClients]
"""Returns the clients of one owner. Called once, when a server is needed first."""

PutInForce = Callable[[Host, Caller], Awaitable[None]]
"""Puts the tools of the servers' cells in force, on behalf of a caller."""


class McpRuntime:
    """The servers of one world in its owner. `local`: which of them this user accepted here. `changing`: held while the
    cell of a server and the toolset change. The tools of `tools` call their servers through `call`."""

    def __init__(self, local: LocalServers, secrets: McpSecrets, connect: Connect, put_in_force: PutInForce) -> None:
        self.local, self.put_in_force = local, put_in_force
        self.changing = asyncio.Lock()
        self.secrets, self._connect = secrets, connect
        self._clients: McpClients | None = None
        self._host: Host | None = None
        self._made: dict[bytes, BoundTool] = {}

    def tools(self, host: Host) -> list[BoundTool]:
        """Returns the tools of all servers, as their cells say, and notes the host for listings to come."""
        self._host = host
        found: list[BoundTool] = []
        for name, cell in server_cells(host):
            tools, problems = cell_tools(name, cell, host.get_blob, self, self._made)
            found += tools
            if cell["tools"] and not self.local.holds(settings_of(cell)):
                problems.append(not_adopted(name))
            host.notices += [problem for problem in problems if problem not in host.notices]
        return found

    def status(self, name: str) -> tuple[Literal["idle", "connected", "failed"], str | None]:
        """Returns the state of a server's connection in this process, and its problem if it has one."""
        if self._clients is None:
            return "idle", None
        problem = self._clients.problem(name)
        if problem:
            return "failed", problem
        return ("connected" if self._clients.is_running(name) else "idle"), None

    def last_words(self, settings: ServerSettings) -> tuple[str, ...]:
        """Returns the last lines that the process of a server which failed wrote to its standard error, with hidden
        characters visible and its secrets masked; none for a server that works."""
        if self._clients is None or not self._clients.problem(settings.name):
            return ()
        said = self._mask(settings)(self._clients.log(settings.name)[-LOG_READ:])
        lines = [line for line in said.split("\n") if line.strip()][-LAST_LINES:]
        return tuple("\n".join(lines)[-LAST_CHARACTERS:].split("\n")) if lines else ()

    def _mask(self, settings: ServerSettings) -> SecretMask:
        """Returns what masks the secrets of a server in a text."""
        secrets: list[Secret] = []
        self.secrets.hide(settings, lambda secret: secrets.append(secret))
        return SecretMask({}, secrets)

    def require_local(self, settings: ServerSettings) -> None:
        """Raises Conflict (`not_adopted`) for a server that this user did not accept here."""
        if not self.local.holds(settings):
            raise Conflict(not_adopted(settings.name), code="not_adopted")

    async def list_tools(self, settings: ServerSettings) -> Listing:
        """Has a server list its tools. Raises Unavailable, and Conflict as `require_local`."""
        self.require_local(settings)
        return await self._connected().list_tools(settings)

    async def call(
        self,
        settings: ServerSettings,
        pinned: ToolDefinition,
        arguments: dict[str, Any],
        context: ToolContext,
        effect: ToolEffect,
        *,
        shows_progress: bool = False,
    ) -> ToolResult[Any] | InputRequired:
        """Calls a tool, as `McpClients.call`. The secrets of the server are masked in what the call records and shows.
        Raises ToolFailure."""
        if not await asyncio.to_thread(self.local.holds, settings):
            raise ToolFailure(ToolErrorCode.UNAVAILABLE, safe_message=not_adopted(settings.name))
        hide, clients = context.resources.get(HideSecret), self._connected()
        try:
            await self.secrets.prepare(settings)
            self.secrets.hide(settings, hide)
            await clients.all_told(settings.name)
            self._require_pinned(settings.name, pinned)
            result = await clients.call(settings, pinned, arguments, context, effect, shows_progress=shows_progress)
            if isinstance(result, InputRequired) and result.over is not None:
                loop = asyncio.get_running_loop()
                result.over.add_done_callback(lambda _: self._end_wait(loop, settings.name, result.state))
            return result
        except DemiurgeError as error:
            if isinstance(error, ToolFailure):
                raise
            raise ToolFailure(ToolErrorCode.UNAVAILABLE, safe_message=error.message) from error
        finally:
            self.secrets.hide(settings, hide)  # one may have been replaced while the call ran

    def _require_pinned(self, name: str, pinned: ToolDefinition) -> None:
        """Raises ToolFailure (`quarantined`) if the cell of the server says that it listed another definition since a
        person trusted this one. What it lists now does not count: it may have gone back."""
        cell = self._host.state(Unit(MCP_SERVER, name)).cell if self._host is not None else None
        trusted = cell["tools"].get(tool_id(name, pinned.label)) if cell is not None else None
        if trusted is None or trusted["pin"] != pinned.pin or trusted["quarantined"] is not None:
            raise ToolFailure(ToolErrorCode.QUARANTINED)

    def _end_wait(self, loop: asyncio.AbstractEventLoop, server: str, state: bytes) -> None:
        """Ends the wait for an answer to a question of a server that asks no more."""
        host, why = self._host, f"The server {server} waits for no answer any more."
        if host is not None and not loop.is_closed():
            loop.call_soon_threadsafe(host.decisions.end_tied, state, why)

    async def complete(
        self, settings: ServerSettings, pinned: ToolDefinition, argument: str, value: str, given: Mapping[str, str]
    ) -> dict[str, Any]:
        """Returns what a server proposes, as `McpClients.complete`. Raises Unavailable, and as `require_local`."""
        clients = await self._prepared(settings)
        found = await clients.complete(settings, pinned, argument, value, given)
        mask = self._mask(settings)
        return {**found, "values": [mask(each) for each in found["values"]]}

    async def updates(self, settings: ServerSettings, pinned: ToolDefinition, uri: str) -> AsyncGenerator[str, None]:
        """Yields what `McpClients.updates` yields. Raises as `complete`."""
        clients = await self._prepared(settings)
        async with aclosing(clients.updates(settings, pinned, uri)) as updates:
            async for kind in updates:
                yield kind

    async def _prepared(self, settings: ServerSettings) -> McpClients:
        """Returns the clients, with what is needed to start a server. Raises as `require_local`."""
        await asyncio.to_thread(self.require_local, settings)
        clients = self._connected()
        await self.secrets.prepare(settings)
        return clients

    async def note_listing(self, host: Host, name: str, listing: Listing, caller: Caller = HOST) -> bool:
        """Notes what a listing changes, and puts the toolset that follows from it in force. Returns whether anything
        was noted."""
        async with self.changing:
            cell = host.state(Unit(MCP_SERVER, name)).cell
            if cell is None:
                return False
            definitions, problems = _by_id(name, cell, listing, host.get_blob)
            said = ListingInfo(
                protocol=_cut(listing.protocol),
                server_name=_cut(listing.server_name),
                server_version=_cut(listing.server_version),
                instructions=_cut(listing.instructions),
                problems=tuple(map(_cut, problems[:MAX_PROBLEMS])),
            ).to_blob()
            pins = {tool: definition.pin for tool, definition in definitions.items()}
            change = listing_change(cell, ref_of(said), pins, attended=caller is not HOST)
            if change is None:
                return False
            await host.put_blob(said)
            for tool in change["tools"]:
                await host.put_blob(canonical_json.encode(definitions[tool].to_json()))
            await host.submit(MCP_LISTING, {"server": name, **change}, caller=caller)
            faults.point("mcp.listed")
            await self.put_in_force(host, caller)
            return True

    async def forget(self, name: str) -> None:
        """Ends the connection to a server that was removed."""
        if self._clients is not None:
            await self._clients.stop(name)

    async def finish(self) -> None:
        """Waits until the listings so far are noted, at most `FINISH_S` seconds."""
        if self._clients is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._clients.all_told(), FINISH_S)

    async def close(self) -> None:
        """Ends all connections; what a server lists meanwhile is not noted."""
        self._host = None
        clients, self._clients = self._clients, None
        if clients is not None:
            await clients.close()

    def _connected(self) -> McpClients:
        if self._clients is None:
            self._clients = self._connect()
            self._clients.on_listing = self._on_listing
        return self._clients

    async def _on_listing(self, name: str, listing: Listing) -> None:
        if self._host is not None:
            await self.note_listing(self._host, name, listing)


def server_cells(host: Host) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the names and cells of a world's servers, by name. The host gets a notice of a unit that can't be read."""
    for head in list(host.store.heads(f"{MCP_SERVER}/")):
        unit = Unit.parse(head.unit)
        try:
            cell = host.state(unit).cell
            if cell is not None:
                settings_of(cell)
        except DemiurgeError as problem:
            notice = f"{unit} is left alone: {problem.message}"
            host.notices += [notice] if notice not in host.notices else []
            continue
        if cell is not None:
            yield unit.key, cell


def _by_id(
    server: str, cell: Mapping[str, Any], listing: Listing, get_blob: Callable[[Ref], bytes]
) -> tuple[dict[str, ToolDefinition], list[str]]:
    """Returns the listed definitions by tool id, and the problems of the listing. A name that reads like that of a
    trusted tool, or like an earlier one of the list, is left out. A cell names at most MAX_FOUND that nobody trusts:
    tools come first."""
    ids, found, problems = ReverseIds(), dict[str, ToolDefinition](), list(listing.problems)
    pinned: set[str] = set()
    for tool, trusted in cell["tools"].items():
        definition, unread = read_definition(tool, trusted["pin"], get_blob)
        if unread is None:
            ids.add(server, definition.label)
            pinned.add(definition.label)
    others = [one.label for one in listing.definitions if one.kind != "tool"]
    room = max(0, MAX_FOUND - (len(listing.definitions) - len(others)))
    left_out = frozenset(others[room:]) - pinned
    if left_out:
        problems.append(f"Only the first {room} prompts, resources and templates can be trusted.")
    for definition in listing.definitions:
        if definition.label in left_out:
            continue
        try:
            tool = ids.add(server, definition.label)
        except InvalidValue as error:
            problems.append(error.message)
            continue
        found[tool] = definition
    return found, problems


def not_adopted(name: str) -> str:
    """Returns the sentence about a server that this user did not accept here."""
    return (
        f"The MCP server {name} was not added on this machine for this world, so it is not started. Read what it runs "
        f"with `demiurge mcp show {name}`, and take it as it is with `demiurge mcp adopt {name}`."
    )


def _cut(text: str) -> str:
    return text[:MAX_TEXT]
