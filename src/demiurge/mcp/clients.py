"""The clients of MCP servers: the one way in which this process lists the tools of servers and calls them.

A call goes to its server only if the server lists, now, exactly the definition that was pinned. It is sent once; a
second time only if nothing can have been changed by the first. An answer that does not come, or makes no sense, is
`unknown_outcome` wherever the tool may have acted. Importing this module does not import the SDK.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from demiurge.errors import InvalidValue, Unavailable
from demiurge.mcp.definition import ToolDefinition
from demiurge.mcp.listing import Listing
from demiurge.mcp.resolve import resolved
from demiurge.mcp.server_process import ServerProcess
from demiurge.mcp.settings import ServerSettings
from demiurge.mcp.supervisor import SupervisedServer
from demiurge.tools.capabilities import SecretName
from demiurge.tools.context import ToolContext
from demiurge.tools.effect import ToolEffect
from demiurge.tools.errors import ToolErrorCode, ToolFailure
from demiurge.tools.foreign.schema import ForeignSchema
from demiurge.tools.input_required import InputRequired
from demiurge.tools.result import ToolResult
from demiurge.values.clock import Clock, SystemClock

if TYPE_CHECKING:
    import httpx2

    from demiurge.mcp.connection import ServerConnection

__all__ = ["AuthOf", "Listing", "McpClients", "OnListing", "SecretOf"]

T = TypeVar("T")

SecretOf: TypeAlias = Callable[[SecretName], str | Awaitable[str]]
AuthOf: TypeAlias = "Callable[[ServerSettings], httpx2.Auth | Awaitable[httpx2.Auth | None] | None]"
OnListing: TypeAlias = Callable[[str, Listing], Awaitable[None]]

START_S: Final = 60.0
STOP_S: Final = 2.0
_MAX_SCHEMAS: Final = 1024
_LOOP_S: Final = 2.0

_LOADED: Final[dict[str, Any]] = {}
"""The modules that are imported when a server is used first."""


class McpClients:
    """Supervised connections, one for each server. For one event loop; `close` ends the servers.

    `secret_of` returns the value of a secret that settings name, when their server is started. `auth_of` returns the
    authorization of the requests to a server over HTTP. `on_listing` is told of each listing that differs from the
    listing before it. `in_process`: servers in this process by name, as the SDK's `Client` takes them, in place of what
    the settings name. `protocol`: the SDK's mode, `auto` for the newest revision that both sides know. `start_s`,
    `stop_s`: how long starting a server, and each step of stopping its process, may take, in seconds."""

    def __init__(
        self,
        *,
        secret_of: SecretOf | None = None,
        auth_of: AuthOf | None = None,
        clock: Clock | None = None,
        on_listing: OnListing | None = None,
        in_process: Mapping[str, Any] | None = None,
        protocol: str = "auto",
        start_s: float = START_S,
        stop_s: float = STOP_S,
    ) -> None:
        self.on_listing = on_listing
        self._secret_of, self._auth_of = secret_of, auth_of
        self._clock = clock if clock is not None else SystemClock()
        self._in_process, self._protocol = dict(in_process or {}), protocol
        self._start_s, self._stop_s = start_s, stop_s
        self._home: asyncio.AbstractEventLoop | None = None
        self._servers: dict[str, SupervisedServer] = {}
        self._auths: dict[str, httpx2.Auth | None] = {}
        self._schemas: OrderedDict[str, ForeignSchema | None] = OrderedDict()

    async def list_tools(self, settings: ServerSettings) -> Listing:
        """Starts the server if need be, and fetches its tools now; then `on_listing` has been told of them. Raises
        Unavailable (`server_unavailable`)."""
        server = await self._server(settings)
        listing = await server.fresh_listing(max_age_s=0)
        await server.all_told()
        return listing

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
        """Calls a tool whose definition was pinned. `arguments` fit its schema already. `effect`: the level that
        counts. `shows_progress`: whether texts of progress reports may be shown; else watchers see the numbers alone.

        Raises ToolFailure: `quarantined` if the server lists another definition; `unavailable` if nothing was sent;
        `unknown_outcome` if the call may have acted and no answer can be trusted; `timeout`, `execution`,
        `result_too_large`, `output_validation`."""
        home = self._home
        if home is not None and home is not asyncio.get_running_loop():
            away = self.call(settings, pinned, arguments, context, effect, shows_progress=shows_progress)
            return await _in_loop(home, away)
        call_module = await _loaded("demiurge.mcp.call")
        server = await self._server(settings)
        call = call_module.ServerCall(
            server, pinned, arguments, context, effect, self._output_schema(pinned), shows_progress
        )
        result: ToolResult[Any] | InputRequired = await call.run()
        return result

    async def complete(
        self, settings: ServerSettings, pinned: ToolDefinition, argument: str, value: str, given: Mapping[str, str]
    ) -> dict[str, Any]:
        """Returns what a server proposes for an argument of a pinned prompt or template, as `item_services.complete`:
        `{values, total, has_more}`. Raises Unavailable, Conflict (`quarantined`)."""
        services = await _loaded("demiurge.mcp.item_services")
        found: dict[str, Any] = await services.complete(await self._server(settings), pinned, argument, value, given)
        return found

    async def updates(self, settings: ServerSettings, pinned: ToolDefinition, uri: str) -> AsyncGenerator[str, None]:
        """Yields `following` once a server tells the changes of a pinned resource, then `updated` for each. Raises as
        `complete`."""
        services = await _loaded("demiurge.mcp.item_services")
        async with aclosing(services.updates(await self._server(settings), pinned, uri)) as told:
            async for kind in told:
                yield kind

    def problem(self, name: str) -> str:
        """Returns why a server could not be used last, for people; "" for one that works or was not used."""
        server = self._servers.get(name)
        refused: str = getattr(self._auths.get(name), "problem", "")
        return refused or (server.problem if server is not None else "")

    def log(self, name: str) -> str:
        """Returns the end of what a server's process wrote to its standard error, at most 64 KiB."""
        server = self._servers.get(name)
        return server.log if server is not None else ""

    def is_running(self, name: str) -> bool:
        """Returns whether a connection to the server is open."""
        server = self._servers.get(name)
        return server is not None and server.is_running

    async def all_told(self, name: str | None = None) -> None:
        """Waits until `on_listing` has been told of every listing of a server (None: of each) so far."""
        for server in [server for known, server in self._servers.items() if name in (None, known)]:
            await server.all_told()

    async def stop(self, name: str) -> None:
        """Ends one server, for example because it was removed. A later call starts it again."""
        server = self._servers.pop(name, None)
        self._auths.pop(name, None)
        if server is not None:
            await server.close()

    async def close(self) -> None:
        """Ends all servers."""
        servers = list(self._servers.values())
        self._servers.clear()
        await asyncio.gather(*(server.close() for server in servers))

    async def _server(self, settings: ServerSettings) -> SupervisedServer:
        """Returns the server of these settings; one with other settings and the same name is ended first."""
        self._home = asyncio.get_running_loop()
        server = self._servers.get(settings.name)
        if server is not None and server.settings == settings:
            return server
        self._servers[settings.name] = made = SupervisedServer(
            settings, self._connect, self._clock, self._tell, start_s=self._start_s, stop_s=self._stop_s
        )
        if server is not None:
            await server.close()
        return made

    async def _tell(self, name: str, listing: Listing) -> None:
        if self.on_listing is not None:
            await self.on_listing(name, listing)

    @asynccontextmanager
    async def _connect(
        self, settings: ServerSettings, on_change: Callable[[], None]
    ) -> AsyncIterator[ServerConnection]:
        found = await resolved(settings, self._secret_of)
        auth = self._auth_of(settings) if self._auth_of is not None and settings.transport == "http" else None
        if inspect.isawaitable(auth):
            auth = await auth
        self._auths[settings.name] = auth
        target, process = self._in_process.get(settings.name), None
        async with AsyncExitStack() as stack:
            if target is None and settings.transport == "stdio":  # it begins while the SDK is imported
                process = await ServerProcess.start(found.command, found.env, found.cwd)
                stack.push_async_callback(process.stop, self._stop_s)
            module = await _loaded("demiurge.mcp.connection")
            opened = module.open_connection(
                replace(settings, command=found.command, cwd=found.cwd, url=found.url),
                found.headers,
                process=process,
                auth=auth,
                target=target,
                mode=self._protocol,
                on_change=on_change,
            )
            yield await stack.enter_async_context(opened)

    def _output_schema(self, pinned: ToolDefinition) -> ForeignSchema | None:
        """Returns the check of a tool's results, None if it declares none. Raises ToolFailure (`unavailable`) for a
        schema that can't be used."""
        if pinned.output_schema is None:
            return None
        if pinned.pin not in self._schemas:
            try:
                self._schemas[pinned.pin] = ForeignSchema(pinned.output_schema, any_type=True)
            except InvalidValue as error:
                message = "The tool's output schema can't be used."
                raise ToolFailure(ToolErrorCode.UNAVAILABLE, safe_message=message) from error
            if len(self._schemas) > _MAX_SCHEMAS:
                self._schemas.popitem(last=False)
        return self._schemas[pinned.pin]


async def _in_loop(home: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` in the loop that holds the connections, for a call from another loop. Raises ToolFailure
    (`unavailable`), with nothing sent, if that loop does not take it."""
    begun = asyncio.Event()
    decided = Lock()  # held by the loop that was first: `home` has begun, or this one has given up
    here = asyncio.get_running_loop()

    async def begin() -> T:
        if not decided.acquire(blocking=False):
            raise asyncio.CancelledError
        here.call_soon_threadsafe(begun.set)
        return await work

    if home.is_running():
        waiting = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(begin(), home))
        started = asyncio.ensure_future(begun.wait())
        await asyncio.wait((waiting, started), timeout=_LOOP_S, return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if not decided.acquire(blocking=False):
            return await waiting
        waiting.cancel()
    work.close()
    message = "The event loop of this server's connection does not run. Call the tool with 'await runner.exec'."
    raise ToolFailure(ToolErrorCode.UNAVAILABLE, safe_message=message)


async def _loaded(name: str) -> Any:
    """Imports a module that imports the SDK, outside the event loop: that takes half a second the first time. A module
    that another thread is still importing is waited for."""
    if name in _LOADED:
        return _LOADED[name]
    try:
        return _LOADED.setdefault(name, await asyncio.to_thread(import_module, name))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "httpx2"):
            raise
        message = "MCP servers need one more package: pip install 'demiurge-runtime[mcp]'"
        raise Unavailable(message, code="mcp_missing") from None
