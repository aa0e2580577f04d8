"""A connection that a test can cut: a proxy between a browser and a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

__all__ = ["CuttableConnection", "cuttable_connection"]


@dataclass
class CuttableConnection:
    """`base` is the address to open. `cut` ends every connection and refuses new ones until `mend`."""

    base: str
    is_cut: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def cut(self) -> None:
        self.is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self.is_cut = False

    def cut_streams_after(self, text: bytes) -> None:
        """Cuts the connection as soon as `text` was passed on to the browser."""
        self._last = text

    _last: bytes = b""

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, down: bool) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                if self.is_cut:
                    break
                writer.write(data)
                await writer.drain()
                if down and self._last and self._last in data:
                    self._last = b""
                    self.cut()
        writer.transport.abort()


@asynccontextmanager
async def cuttable_connection(base: str) -> AsyncIterator[CuttableConnection]:
    """Yields a connection to the server at `base`."""
    host, _, port = base.rpartition("//")[2].partition(":")
    made = CuttableConnection("")

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if made.is_cut:
            writer.transport.abort()
            return
        up_reader, up_writer = await asyncio.open_connection(host, int(port))
        made._writers |= {writer, up_writer}
        await asyncio.gather(made._pass_on(reader, up_writer, down=False), made._pass_on(up_reader, writer, down=True))
        made._writers -= {writer, up_writer}

    server = await asyncio.start_server(connect, "127.0.0.1")
    async with server:
        made.base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield made
        made.cut()
