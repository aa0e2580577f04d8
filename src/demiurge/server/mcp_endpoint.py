"""`/mcp`: the governed catalog of the served world for MCP clients, over streamable HTTP.

The caller is known by the token of each request, as everywhere in this API; a session of the older protocol belongs to
the token that opened it. The protocol's SDK is loaded at the first request.

An answer counts as given when the body that carries it was handed to the operating system, whole, on a connection that
its client had not left; else it is in doubt. A stream to which no answer came is broken off and not ended, for a client
takes a stream that ends for a whole one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import anyio
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from demiurge.bootstrap.gateway import Catalogs, GatewayWorld, own_names, searched, user_key
from demiurge.mcp.gateway.answers import carries_answer
from demiurge.server.callers import CallerSession, callers_of
from demiurge.server.errors import Refused
from demiurge.server.response_wire import wire_of

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from demiurge.mcp.gateway.calls import AfterAnswer
    from demiurge.mcp.gateway.server import McpGateway

__all__ = ["PATH", "McpEndpoint"]

PATH: Final = "/mcp"
MAX_BODY: Final = 4 * 1024 * 1024
MAX_SESSIONS: Final = 1000
MAX_SESSIONS_OF_ONE: Final = 100
"""How many sessions of the older protocol may be open with one token."""

_WORLD, _AFTER = "demiurge.world", "demiurge.after"


class McpEndpoint:
    """The application at `PATH`. One gateway serves all requests of the server."""

    def __init__(self) -> None:
        self._catalogs = Catalogs()
        self._starting = asyncio.Lock()
        self._running: tuple[McpGateway, StreamableHTTPSessionManager] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request. Raises Refused for a caller that is not known."""
        request = Request(scope, receive)
        session = await callers_of(request).session(request)
        gateway, manager = await self._started(request)
        received = await _received(request)
        if received is None:
            return  # the client has gone in the middle of its request
        after = _AfterAnswer(gateway.begin)
        scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]  # the parser keeps blanks
        scope[_WORLD], scope[_AFTER], scope["user"] = self._world(request, session), after, _user(session)
        if request.headers.get("mcp-method") == "tools/call":  # the newer protocol requires this header
            await gateway.note_catalog(scope[_WORLD])
        try:
            await manager.asgi_app(scope, received, _Answer(scope, send, after).send)
        finally:
            after.run(False)

    def _world(self, request: Request, session: CallerSession) -> GatewayWorld:
        callers = callers_of(request)

        async def is_good() -> bool:
            return await callers.is_good(session)

        return GatewayWorld(session.world, self._catalogs, is_good)

    async def _started(self, request: Request) -> tuple[McpGateway, StreamableHTTPSessionManager]:
        if self._running is not None:
            return self._running
        if find_spec("mcp") is None:
            why = "This server does not speak MCP: pip install 'demiurge-runtime[mcp]'."
            raise Refused(404, "not_installed", why)
        async with self._starting:
            if self._running is None:
                await asyncio.to_thread(__import__, "demiurge.mcp.gateway.server")
                self._running = await self._start(request)
        return self._running

    async def _start(self, request: Request) -> tuple[McpGateway, StreamableHTTPSessionManager]:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from demiurge.mcp.gateway.names import ToolNames
        from demiurge.mcp.gateway.server import McpGateway

        world, options = callers_of(request).world, request.app.state.options
        now_named = partial(own_names, world, options.mcp_server)
        only = frozenset(options.mcp_tools) or None
        names = ToolNames(only, await now_named(), options.mcp_server, options.mcp_shipped or options.mcp_search)

        async def key() -> bytes:
            return await asyncio.to_thread(user_key)

        class _Sessions(StreamableHTTPSessionManager):
            def _admit_session(self, requestor: Any) -> Any:  # the SDK gives no other way to a limit for each token
                if sum(owner == requestor for owner in self._session_owners.values()) >= MAX_SESSIONS_OF_ONE:
                    return None
                return super()._admit_session(requestor)

        gateway = McpGateway(
            *(_world_of, key, names),
            sent=_once_sent,
            own_names=now_named,
            marks=options.mcp_marks,
            listed=searched if options.mcp_search else None,
        )
        manager = _Sessions(gateway.server, max_request_body_size=MAX_BODY, max_sessions=MAX_SESSIONS)
        closing: asyncio.Event = request.app.state.closing
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        own_world = GatewayWorld(world, self._catalogs)

        async def run() -> None:
            following = asyncio.create_task(gateway.follow(own_world))
            try:
                async with manager.run():
                    begun.set_result(None)
                    await closing.wait()
                    await gateway.close()
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

        running = request.app.state.mcp = asyncio.create_task(run())
        await asyncio.wait((running, begun), return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            running.result()
        return gateway, manager


class _Answer:
    """The response to one request, on its way to the client. `after` is told once the answer in it was handed over."""

    def __init__(self, scope: Scope, send: Send, after: _AfterAnswer) -> None:
        self._send, self._after, self._wire = send, after, wire_of(scope)
        self._is_post = scope["method"] == "POST"
        self._must_answer = False
        """True while this is a stream for one request to which no answer has come."""

    async def send(self, message: Message) -> None:
        """Sends a part of the response; breaks the connection off in place of the end of a stream without an answer."""
        if message["type"] == "http.response.start":
            kind = dict(message["headers"]).get(b"content-type", b"")
            self._must_answer = self._is_post and kind.startswith(b"text/event-stream")
            await self._send(message)
            return
        is_asked_for = self._must_answer or self._after.is_due
        if not (is_asked_for and carries_answer(message.get("body", b""))):
            if not self._must_answer or message.get("more_body", False):
                await self._send(message)
            elif self._wire is not None:
                self._wire.break_off()
            return
        self._must_answer = False
        was_open = self._wire is None or self._wire.is_open
        await self._send(message)
        with anyio.CancelScope(shield=True):  # the SDK ends a request once its last part was sent
            self._after.run(was_open and (self._wire is None or await self._wire.has_taken_all()))


class _AfterAnswer:
    """The work that `begin` begins after the answer to one request. The SDK's sessions of the older protocol go on with
    a call whose client has gone; its work is begun at once."""

    def __init__(self, begin: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._begin = begin
        self._works: list[AfterAnswer] = []
        self._is_over = False

    @property
    def is_due(self) -> bool:
        """Returns whether there is work that waits for the answer."""
        return bool(self._works)

    def add(self, work: AfterAnswer) -> None:
        """Adds work. It is told whether the answer was handed over."""
        if self._is_over:
            self._begin(work(False))
        else:
            self._works.append(work)

    def run(self, sent: bool) -> None:
        """Begins all work: the answer was handed over, or will never be. A second call does nothing."""
        self._is_over = True
        works, self._works = self._works, []
        for work in works:
            self._begin(work(sent))


async def _received(request: Request) -> Receive | None:
    """Returns the messages of a request from its first one on, once its body has come as far as `MAX_BODY`; None if
    the client went before that."""
    held: deque[Message] = deque()
    size, is_whole = 0, request.method != "POST"
    while not is_whole and size <= MAX_BODY:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return None
        held.append(message)
        size += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)

    async def receive() -> Message:
        return held.popleft() if held else await request.receive()

    return receive


def _world_of(ctx: Any) -> GatewayWorld:
    world: GatewayWorld = ctx.request.scope[_WORLD]
    return world


def _once_sent(ctx: Any, work: AfterAnswer) -> bool:
    if ctx.request is None:
        return False
    ctx.request.scope[_AFTER].add(work)
    return True


def _user(session: CallerSession) -> Any:
    """Returns the user of a request as the SDK knows it, to which it binds the sessions of the older protocol."""
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken

    return AuthenticatedUser(AccessToken(token="", client_id=session.token.id, scopes=[]))
