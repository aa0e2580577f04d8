"""Changes of resources, told to the clients that want to hear of them, in both eras of the protocol.

A resource is followed at its server once for each client that asks, and its changes are told to that client alone, for
as long as its caller may read it. Nothing of its content is sent: a client that hears of a change reads the resource,
which is a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError

from demiurge.errors import DemiurgeError
from demiurge.mcp.gateway.items import ItemsOfClients
from demiurge.mcp.gateway.port import CallerWorld

__all__ = ["MOST_FOLLOWED", "ResourceUpdates"]

MOST_FOLLOWED: Final = 64
"""How many resources one client may follow at once."""

Context = ServerRequestContext[Any, Any]
Tell = Callable[[], Awaitable[None]]
_Begins = asyncio.Task[asyncio.Task[None]]
"""Begins to follow a resource; its result is the task that tells of its changes."""


class ResourceUpdates:
    """The resources that clients follow."""

    def __init__(self, items: ItemsOfClients, world_of: Callable[[Context], CallerWorld]) -> None:
        self._items, self._world_of = items, world_of
        self._followed: WeakKeyDictionary[Connection, dict[str, _Begins]] = WeakKeyDictionary()
        self._tasks: dict[asyncio.Task[None], tuple[Context, str]] = {}

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Answers `resources/subscribe`. Raises MCPError for an address that is not offered, a server that can't be
        reached or does not tell changes, and more than MOST_FOLLOWED."""
        connection, uri = ctx.session._connection, params.uri
        if connection not in self._followed:
            self._followed[connection] = {}
            connection.exit_stack.push_async_callback(_end_all, self._followed[connection])
        followed = self._followed[connection]
        begins = followed.get(uri)
        if begins is None or _latest(begins).done():
            if sum(not _latest(each).done() for each in followed.values()) >= MOST_FOLLOWED:
                raise MCPError(types.INVALID_PARAMS, f"A client may follow {MOST_FOLLOWED} resources at once.")

            async def tell() -> None:
                await connection.send_resource_updated(uri)

            begins = followed[uri] = asyncio.create_task(self._follow(ctx, uri, tell), name="mcp-follow")
        try:
            await begins
        except asyncio.CancelledError:
            this = asyncio.current_task()
            if this is not None and this.cancelling():
                raise
            raise MCPError(types.INTERNAL_ERROR, "An equal request was withdrawn. Ask again.", {"uri": uri}) from None
        return types.EmptyResult()

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Answers `resources/unsubscribe`."""
        begins = self._followed.get(ctx.session._connection, {}).pop(params.uri, None)
        if begins is not None:
            await _ended([_latest(begins)])
        return types.EmptyResult()

    @asynccontextmanager
    async def following(
        self, ctx: Context, uris: Sequence[str], publish: Callable[[ResourceUpdated], Awaitable[None]]
    ) -> AsyncIterator[list[str]]:
        """Follows resources for a client of the newer protocol, until it listens no more; `publish` tells it. Yields
        their addresses: one that can't be followed, or that the caller may not read, is left out."""
        tasks: list[asyncio.Task[None]] = []
        followed: list[str] = []
        try:
            for uri in dict.fromkeys(uris[:MOST_FOLLOWED]):

                async def tell(uri: str = uri) -> None:
                    await publish(ResourceUpdated(uri))

                try:
                    tasks.append(await self._follow(ctx, uri, tell))
                except MCPError:
                    continue
                followed.append(uri)
            yield followed
        finally:
            await _ended(tasks)

    async def _follow(self, ctx: Context, uri: str, tell: Tell) -> asyncio.Task[None]:
        """Begins to follow a resource, and returns when its server has agreed."""
        world = self._world_of(ctx)
        spec, arguments = await self._items.resource(ctx, world, uri)
        assert spec.mcp_item is not None
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        own = arguments.get("uri") or spec.mcp_item["uri"]
        task = asyncio.create_task(_tell_updates(world, spec.name, own, tell, begun), name="mcp-updates")
        self._tasks[task] = ctx, uri
        task.add_done_callback(self._tasks.pop)
        try:
            await begun
        except DemiurgeError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message, {"code": error.code, "uri": uri}) from error
        except asyncio.CancelledError:  # the client has withdrawn its request
            task.cancel()
            raise
        return task

    async def end_withdrawn(self) -> None:
        """Ends the following of each resource that its caller may not read any more."""
        for task, (ctx, uri) in list(self._tasks.items()):
            try:
                await self._items.resource(ctx, self._world_of(ctx), uri)
            except MCPError as error:
                if error.code != types.INTERNAL_ERROR:  # else the world can't say now; each change asks it again
                    task.cancel()

    async def close(self) -> None:
        """Follows nothing any more."""
        await _ended(list(self._tasks))


async def _tell_updates(world: CallerWorld, tool: str, uri: str, tell: Tell, begun: asyncio.Future[None]) -> None:
    try:
        async with aclosing(world.updates(tool, uri)) as updates:
            async for _ in updates:
                if begun.done():
                    await tell()
                else:
                    begun.set_result(None)
    except DemiurgeError as error:
        if not begun.done():
            begun.set_exception(error)
    finally:
        if not begun.done():
            begun.cancel()


def _latest(begins: _Begins) -> asyncio.Task[Any]:
    """Returns the task that tells of changes, once it has begun; before that, and if it never did, `begins`."""
    has_begun = begins.done() and not begins.cancelled() and begins.exception() is None
    return begins.result() if has_begun else begins


async def _end_all(followed: dict[str, _Begins]) -> None:
    await _ended([_latest(begins) for begins in followed.values()])


async def _ended(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
