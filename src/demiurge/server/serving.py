"""The server process: uvicorn around the application, and a shutdown that lets open streams end properly."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import uvicorn
from fastapi import FastAPI

from demiurge.server.bounded_http import BoundedHttp
from demiurge.server.callers import Callers
from demiurge.server.http_connections import HttpConnections
from demiurge.server.options import ServeOptions, address_refused

__all__ = ["DRAIN_S", "WorldServer"]

DRAIN_S: Final = 10
"""How long a shutdown waits for requests that run, in seconds."""

KEEP_ALIVE_S: Final = 75
"""How long a connection without a request stays open, in seconds: longer than clients keep one, so that none sends a
request on a connection that the server is about to end."""


class WorldServer(uvicorn.Server):
    """Serves `app` (`create_app`). A shutdown first tells every open stream, which then ends with the event `closing`;
    other requests have `drain_s` to end. Raises OSError for a certificate or key that cannot be used."""

    def __init__(
        self,
        app: FastAPI,
        options: ServeOptions,
        cert: Path | None = None,
        key: Path | None = None,
        *,
        drain_s: int = DRAIN_S,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=BoundedHttp,
                access_log=False,
                log_config=None,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=drain_s,
                timeout_keep_alive=KEEP_ALIVE_S,
                ws="none",
                ssl_certfile=cert,
                ssl_keyfile=str(key) if key is not None else None,
            )
        )
        self.config.load()
        self.app, self._options, self._begun, self._answers = app, options, asyncio.Event(), False
        self._connections = HttpConnections(options.limits)

    @property
    def url(self) -> str:
        """The address of the server."""
        host = f"[{self._options.host}]" if ":" in self._options.host else self._options.host
        return f"{'https' if self._options.tls else 'http'}://{host}:{self._options.port}"

    def new_login_link(self) -> str:
        """Returns a link with which one browser logs in, once (`Callers.new_login_code`)."""
        callers: Callers = self.app.state.callers
        return f"{self.url}/login?code={callers.new_login_code()}"

    async def until_started(self) -> bool:
        """Returns once the server answers or has ended: whether it answers."""
        await self._begun.wait()
        return self._answers

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until it is told to end. Raises Unavailable (`port_taken`, `bad_address`) if it can't listen: another
        program may have begun to listen at the address after it was chosen."""
        try:
            await super().serve(sockets)
        finally:
            self._begun.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to answer."""
        await super().startup([])  # uvicorn's own listeners would take any number of connections

        def make(on_lost: Callable[[], None]) -> BoundedHttp:
            return BoundedHttp(self.config, self.server_state, self.lifespan.state, self._options.limits, on_lost)

        for wire in sockets or ():
            try:
                self._connections.listen(wire, make, self.config.ssl)
            except OSError as error:
                raise address_refused(error, self._options.host, self._options.port) from error
        self._answers = True
        self._begun.set()

    async def on_tick(self, counter: int) -> bool:
        """Looks after the connections each second. Returns whether the server ends; called ten times a second."""
        if counter % 10 == 0:
            self._connections.look()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the streams, then the connections, then the application."""
        self.app.state.closing.set()
        self._connections.close()
        await super().shutdown(sockets)
