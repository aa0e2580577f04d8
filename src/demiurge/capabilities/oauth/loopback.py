"""Waits for the browser: a web server on 127.0.0.1 that takes one redirect of an authorization server.

It listens on a port that the machine chooses and answers at one path only, to requests that name this very address. The
first redirect with the state of the login decides; others, which any page can have a browser send, change nothing. The
pages repeat nothing of what was sent.
"""

from __future__ import annotations

import asyncio
import hmac
from contextlib import suppress
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qsl

from demiurge.capabilities.oauth.errors import LoginFailed

__all__ = ["LoopbackRedirect"]

PATH: Final = "/oauth/callback"
MAX_REQUEST: Final = 16 * 1024
REQUEST_SECONDS: Final = 10.0

_PAGE: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Demiurge</title>"
    "<body style='font: 1.1rem system-ui; margin: 4rem auto; max-width: 32rem'>"
)
_DONE: Final = (
    f"{_PAGE}<h1>Back to the terminal</h1><p>Demiurge has the answer of the server and goes on there. "
    "You can close this page.</p>"
)
_FOREIGN: Final = (
    f"{_PAGE}<h1>Not this login</h1><p>This answer does not belong to the login that Demiurge waits for: its state is "
    "another one. Open the link in the terminal again.</p>"
)
_HEADERS: Final = (
    "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\n"
    "content-security-policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'\r\n"
    "connection: close\r\n"
)


class LoopbackRedirect:
    """`async with LoopbackRedirect(state) as redirect`: `redirect.uri` is where the browser has to be sent."""

    def __init__(self, state: str) -> None:
        self._state = state
        self._server: asyncio.Server | None = None
        self._query: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._authority = ""
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MAX_REQUEST)
        self._authority = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self._query.cancel()
        for writer in self._open.values():  # browsers keep connections on which they ask nothing
            writer.close()
        if self._open:
            await asyncio.wait(self._open, timeout=REQUEST_SECONDS)

    @property
    def uri(self) -> str:
        return f"http://{self._authority}{PATH}"

    async def query(self, timeout_s: float) -> dict[str, str]:
        """Returns the query of the first redirect with the state of the login. A parameter that comes twice is refused.
        Raises LoginFailed (`login_timeout`, `redirect_invalid`)."""
        try:
            return await asyncio.wait_for(asyncio.shield(self._query), timeout_s)
        except TimeoutError:
            why = f"Nobody finished the login in the browser within {timeout_s:.0f} seconds. Run the command again."
            raise LoginFailed(why, code="login_timeout") from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        task.add_done_callback(self._open.pop)
        with suppress(OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_SECONDS):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                writer.write(self._answer(head))
                await writer.drain()
        with suppress(OSError):
            writer.close()

    def _answer(self, head: str) -> bytes:
        line, *headers = head.split("\r\n")
        method, _, rest = line.partition(" ")
        path, _, query = rest.rpartition(" ")[0].partition("?")
        named = {name.strip().lower(): value.strip() for name, _, value in (entry.partition(":") for entry in headers)}
        if named.get("host") != self._authority or path != PATH:
            return _response("404 Not Found", "")
        if method != "GET":
            return _response("405 Method Not Allowed", "")
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=32)
        if not any(
            name == "state" and hmac.compare_digest(value.encode(), self._state.encode()) for name, value in pairs
        ):
            return _response("400 Bad Request", _FOREIGN)
        if not self._query.done():
            if len({name for name, _ in pairs}) < len(pairs):
                why = "The redirect of the authorization server has a parameter twice. Start the login again."
                self._query.set_exception(LoginFailed(why, code="redirect_invalid"))
            else:
                self._query.set_result(dict(pairs))
        return _response("200 OK", _DONE)


def _response(status: str, page: str) -> bytes:
    body = page.encode()
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(body)}\r\n{_HEADERS}\r\n"
    )
    return head.encode() + body
