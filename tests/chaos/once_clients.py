"""The clients of the campaign of `test_once_kill`. Each has one key after the other charged, and asks for what was not
answered again, with the same arguments, until it is told what came of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

__all__ = ["Client", "LegacyHttp", "ModernHttp", "Stdio"]

PATIENCE_S = 20.0
"""How long a client waits for an answer before it asks again."""

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "once", "version": "1"}}


class Broken(Exception):
    """The connection ended before the answer."""


@dataclass
class Client:
    """`told`: what the client was told of each key, `charged` or `in doubt`. `seen` counts what happened to it."""

    name: str
    told: dict[str, str] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    asked: int = 0

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Has keys charged until the campaign is over and the last key is answered."""
        while not is_over():
            self.asked += 1
            key = f"{self.name}-{self.asked}"
            arguments = {"key": key, "padding": 150_000 if self.asked % 3 == 0 else 0}
            while key not in self.told:
                try:
                    result = await self.ask(arguments)
                except (Broken, OSError, EOFError, TimeoutError, httpx.HTTPError) as error:
                    self.seen[f"no answer ({type(error).__name__})"] += 1
                    await asyncio.sleep(0.02)
                else:
                    self._take(key, result)
        await self.close()

    def _take(self, key: str, result: dict[str, Any]) -> None:
        if not result.get("isError"):
            if (result.get("structuredContent") or {}).get("status") == "running":
                self.seen["still running"] += 1
                return
            assert f"charged {key}" in result["content"][0]["text"], result
            self.told[key] = "charged"
            return
        code = result["structuredContent"]["error_code"]
        self.seen[code] += 1
        if code == "unknown_outcome":
            self.told[key] = "in doubt"

    async def ask(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Returns the result of one call. Raises what `run` takes for no answer."""
        raise NotImplementedError

    async def close(self) -> None:
        """Ends the connection."""


@dataclass
class Stdio(Client):
    """A client that starts `mcp serve` itself: `start` does so, for the socket at which the client listens. It loses
    patience without a word, and asks again through the same pipe."""

    folder: Path = Path()
    start: Callable[[str], Awaitable[None]] | None = None
    pipe: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    number: int = 0

    async def ask(self, arguments: dict[str, Any]) -> dict[str, Any]:
        reader, writer = self.pipe = self.pipe or await self._connected()
        self.number += 1
        params = {"name": "charge", "arguments": arguments, "_meta": META}
        sent = {"jsonrpc": "2.0", "id": f"{arguments['key']}/{self.number}", "method": "tools/call", "params": params}
        try:
            async with asyncio.timeout(PATIENCE_S):
                writer.write(json.dumps(sent).encode() + b"\n")
                await writer.drain()
                while True:
                    line = await reader.readline()
                    if not line.endswith(b"\n"):
                        raise Broken
                    answer = json.loads(line)
                    if str(answer.get("id")).startswith(f"{arguments['key']}/"):  # also the answer that it waited for
                        return _result(answer)
        except TimeoutError:
            self.seen["patience lost"] += 1
            raise
        except Exception:
            await self.close()
            raise

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        came: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        place = self.folder / f"{self.name}.sock"
        place.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(lambda *pipe: came.put_nowait(pipe), place, limit=1 << 24)
        try:
            assert self.start is not None
            await self.start(str(place))
            async with asyncio.timeout(PATIENCE_S):
                return await came.get()
        finally:
            server.close()

    async def close(self) -> None:
        if self.pipe is not None:
            self.pipe[1].close()
            self.pipe = None


@dataclass
class Http(Client):
    """A client of a server at `url`."""

    url: str = ""
    token: str = ""
    session: str | None = None

    @asynccontextmanager
    async def _posted(self, method: str, params: dict[str, Any], **headers: str) -> AsyncIterator[httpx.Response]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers |= {"authorization": f"Bearer {self.token}", "accept": "application/json, text/event-stream"}
        async with (
            httpx.AsyncClient(timeout=PATIENCE_S) as http,
            http.stream("POST", self.url, json=body, headers=headers) as answer,
        ):
            if answer.status_code != 200:
                self.session = None
                raise Broken
            yield answer

    async def _read(self, answer: httpx.Response) -> dict[str, Any]:
        """Returns the answer in a response, without reading on: so does the protocol's SDK."""
        async for line in answer.aiter_lines():
            text = line.removeprefix("data:").strip()
            if text.startswith("{"):
                return _result(json.loads(text))
        self.seen["streams that ended without an answer"] += 1
        raise Broken


@dataclass
class ModernHttp(Http):
    """A client of 2026-07-28."""

    async def ask(self, arguments: dict[str, Any]) -> dict[str, Any]:
        params = {"name": "charge", "arguments": arguments, "_meta": META}
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "charge"}
        async with self._posted("tools/call", params, **headers) as answer:
            return await self._read(answer)


@dataclass
class LegacyHttp(Http):
    """A client with a session."""

    async def ask(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self.session is None:
            async with self._posted("initialize", HELLO) as opened:
                await self._read(opened)
                self.session = opened.headers["mcp-session-id"]
        headers = {"mcp-protocol-version": "2025-11-25", "mcp-session-id": self.session}
        params = {"name": "charge", "arguments": arguments}
        try:
            async with self._posted("tools/call", params, **headers) as answer:
                return await self._read(answer)
        except httpx.TransportError:
            self.session = None
            raise


def _result(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the result of an answer. An error of the protocol says nothing of the call."""
    if "result" not in answer:
        raise Broken
    result: dict[str, Any] = answer["result"]
    return result
