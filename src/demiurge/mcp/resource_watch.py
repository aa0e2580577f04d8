"""Follows changes of resources on one connection, in both eras of the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from typing import Final

from mcp_types import (
    EmptyResult,
    SubscribeRequest,
    SubscribeRequestParams,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from demiurge.errors import Unavailable
from mcp import Client, MCPError

__all__ = ["ResourceWatch"]

_LISTEN_S: Final = 10.0


class ResourceWatch:
    """The resources that are followed on a connection. `ended` is set when it has ended."""

    def __init__(self, ended: asyncio.Event) -> None:
        self._ended = ended
        self._woken: dict[str, set[asyncio.Event]] = {}

    def changed(self, uri: str) -> None:
        """Notes that a server of the older era says that a resource changed, or a part of it."""
        for followed, events in self._woken.items():
            if uri == followed or uri.startswith(f"{followed.rstrip('/')}/"):
                for event in events:
                    event.set()

    async def updates(self, client: Client, uri: str) -> AsyncGenerator[str, None]:
        """Yields `following`, then `updated` for each change, until the connection ends. Raises Unavailable for a
        server that does not tell changes, MCPError, RuntimeError, TimeoutError."""
        can = client.server_capabilities.resources
        if can is None or not can.subscribe:
            raise Unavailable("The server does not tell changes of resources.", code="not_told")
        if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(_LISTEN_S):
                    told = await stack.enter_async_context(client.listen(resource_subscriptions=[uri]))
                if uri not in (told.honored.resource_subscriptions or ()):
                    raise Unavailable("The server does not tell changes of this resource.", code="not_told")
                yield "following"
                async for _ in told:
                    yield "updated"
            return
        async for kind in self._older(client, uri):
            yield kind

    async def _older(self, client: Client, uri: str) -> AsyncGenerator[str, None]:
        woken = asyncio.Event()
        others = self._woken.setdefault(uri, set())
        others.add(woken)
        waits = [asyncio.ensure_future(self._ended.wait())]
        try:
            async with asyncio.timeout(_LISTEN_S):
                await client.session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult)
            yield "following"
            while not self._ended.is_set():
                waits[1:] = [asyncio.ensure_future(woken.wait())]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if woken.is_set():
                    woken.clear()
                    yield "updated"
        finally:
            for wait in waits:
                wait.cancel()
            others.discard(woken)
            if not others:
                self._woken.pop(uri, None)
                if not self._ended.is_set():
                    with suppress(MCPError, RuntimeError, TimeoutError):
                        async with asyncio.timeout(_LISTEN_S):
                            params = UnsubscribeRequestParams(uri=uri)
                            await client.session.send_request(UnsubscribeRequest(params=params), EmptyResult)
