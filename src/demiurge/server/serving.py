"""The server process: uvicorn around the application, and a shutdown that lets open streams end properly."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Final

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from demiurge.server.callers import Callers
from demiurge.server.options import ServeOptions

__all__ = ["DRAIN_S", "WorldServer"]

DRAIN_S: Final = 10
"""How long a shutdown waits for requests that run, in seconds."""


KEEP_ALIVE_S: Final = 75
"""How long a connection without a request stays open, in seconds: longer than clients keep one, so that none sends a
request on a connection that the server is about to end."""

MAX_HEAD: Final = 64 * 1024
"""How much of a request may come without a part of its body, in bytes: its head, or what follows the body."""


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's faster parser, which alone would keep a head of any size in memory."""

    _without_body, _in_body = 0, False

    def data_received(self, data: bytes) -> None:
        """Ends the connection of a client whose head grows beyond `MAX_HEAD`."""
        self._without_body += len(data)
        super().data_received(data)
        if self._without_body > MAX_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        """Begins a request."""
        self._without_body, self._in_body = 0, False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header; one that follows the body is left out, since the request has been answered by its head."""
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begins the body."""
        super().on_headers_complete()
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        """Takes a part of the body."""
        self._without_body = 0
        super().on_body(body)


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
                ssl_certfile=cert,
                ssl_keyfile=str(key) if key is not None else None,
            )
        )
        self.config.load()
        self.app, self._options, self._begun = app, options, asyncio.Event()

    @property
    def url(self) -> str:
        """The address of the server."""
        host = f"[{self._options.host}]" if ":" in self._options.host else self._options.host
        return f"{'https' if self._options.tls else 'http'}://{host}:{self._options.port}"

    def new_login_link(self) -> str:
        """Returns a link with which one browser logs in, once (`Callers.new_login_code`)."""
        callers: Callers = self.app.state.callers
        return f"{self.url}/login?code={callers.new_login_code()}"

    async def until_started(self) -> None:
        """Returns when the server answers, or could not start."""
        await self._begun.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to answer."""
        await super().startup(sockets)
        self._begun.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the streams, then the connections, then the application."""
        self.app.state.closing.set()
        await super().shutdown(sockets)
