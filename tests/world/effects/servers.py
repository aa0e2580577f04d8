"""Small web servers that answer with whatever bytes a test wants, on an address of its choice."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class SeenRequest:
    """A request as it came in; header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


Answer = bytes | Callable[[SeenRequest, asyncio.StreamWriter], Awaitable[None]]


def http_response(status: int, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer; `_` in a header's name is `-`."""
    fields = {"content-length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode("latin-1") + body


@dataclass(slots=True)
class Site:
    """Answers by path; `asked` is what it saw."""

    answers: dict[str, Answer]
    port: int = 0
    asked: list[SeenRequest] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *lines = head.strip().split("\r\n")
            method, target, _ = line.split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (entry.partition(":") for entry in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            asked = SeenRequest(method, target, headers, body)
            self.asked.append(asked)
            found = self.answers.get(target.partition("?")[0], http_response(404))
            if isinstance(found, bytes):
                writer.write(found)
                await writer.drain()
            else:
                await found(asked, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving_site(
    answers: Mapping[str, Answer], *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Site]:
    made = Site(dict(answers))
    server = await asyncio.start_server(made.serve, host, port, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await server.wait_closed()
