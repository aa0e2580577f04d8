"""A connection that posts events, as thin as a client can be: the figures are to be those of the server."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any, Self

from bench.http.server import Server

__all__ = ["Connection", "chat_created"]

SCHEMA = "demiurge/ChatCreated@1"


def chat_created(chat: str, number: int) -> dict[str, object]:
    """The value of an event that names a chat."""
    return {"chat_id": chat, "title": f"Chat {number}", "created_at_ms": number}


class Connection:
    """One connection that is kept open, as an async context manager."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._head = f"Host: 127.0.0.1:{server.port}\r\nAuthorization: Bearer {server.token}\r\n"

    async def __aenter__(self) -> Self:
        self.reader, self._writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    async def post(self, chat: str, number: int) -> None:
        """Posts an event; durable on return."""
        await self.post_json("/api/events", {"schema": SCHEMA, "value": chat_created(chat, number)})

    async def post_json(self, path: str, value: object) -> None:
        """Posts a value, and waits for the answer."""
        body = json.dumps(value)
        self._writer.write(
            f"POST {path} HTTP/1.1\r\n{self._head}Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        await self._body(await self._answer())

    async def get_json(self, path: str) -> Any:
        """Returns what an answer holds."""
        return json.loads(await self._body(await self.get(path)))

    async def get(self, path: str) -> bytes:
        """Returns the head of an answer; its body, or a stream, is still to be read."""
        self._writer.write(f"GET {path} HTTP/1.1\r\n{self._head}\r\n".encode())
        return await self._answer()

    async def _answer(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")):
            raise SystemExit(head.decode())
        return head

    async def _body(self, head: bytes) -> bytes:
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        return await self.reader.readexactly(length)
