"""One live connection to an MCP server, over its standard input and output or over HTTP, in either era of the protocol.

This module and the transports beside it are the only ones that import the SDK, so they are imported when a server is
used. The SDK's cache and its check of results are not used: a listing is always fetched, and a result is checked
against the pinned schema with bounded work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, TypeAlias

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import (
    CompleteResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequestParams,
    ElicitResult,
    Implementation,
    ListRootsRequest,
    LoggingMessageNotificationParams,
    PromptListChangedNotification,
    PromptReference,
    ResourceListChangedNotification,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from demiurge.errors import Unavailable
from demiurge.mcp.definition import ToolDefinition
from demiurge.mcp.elicitation import LiveCalls, ServerAnswer
from demiurge.mcp.flow import CallNote, Flow, current_note, message_limit, noting
from demiurge.mcp.http_client import BoundedHttpClient
from demiurge.mcp.list_definitions import read_definitions
from demiurge.mcp.listing import Listing
from demiurge.mcp.partial_page import words
from demiurge.mcp.requests import request_of
from demiurge.mcp.resource_watch import ResourceWatch
from demiurge.mcp.server_process import ServerProcess
from demiurge.mcp.settings import ServerSettings
from demiurge.mcp.stdio_transport import stdio_transport
from demiurge.mcp.watched_streams import watched
from mcp import Client, MCPError

__all__ = ["ServerConnection", "Target", "open_connection"]

_MAX_INSTRUCTIONS: Final = 8192
_LISTEN_S: Final = 10.0
_LISTEN_AGAIN_S: Final = 5.0

Target: TypeAlias = Any
"""A server in this process, as the SDK's `Client` takes it."""

_LIST_CHANGED: Final = (
    ToolListChangedNotification,
    PromptListChangedNotification,
    ResourceListChangedNotification,
)

for _name in ("mcp", "client", "httpx2"):  # their lines quote servers; a program that wants them configures logging
    logging.getLogger(_name).addHandler(logging.NullHandler())

OnLog: TypeAlias = Callable[[Any, Any, str], None]
"""Takes a line of a server's log: level, data, logger."""

_Logs: TypeAlias = dict[int, tuple[CallNote, OnLog]]
"""The calls that go on, with what takes their logs."""


class ServerConnection:
    """A connection that is ready for calls. `ended` is set when the server has closed it."""

    def __init__(
        self,
        client: Client,
        ended: asyncio.Event,
        process: ServerProcess | None,
        live: LiveCalls,
        watch: ResourceWatch,
        logs: _Logs,
        *,
        notes_sends: bool,
    ) -> None:
        self._client, self.ended, self._process, self._notes_sends = client, ended, process, notes_sends
        self._resources = watch
        self._logs = logs
        self.live = live
        """The calls during which the server may ask a person; unused in the era 2026-07-28."""

    @property
    def protocol(self) -> str:
        """The revision of the protocol that was agreed on."""
        return self._client.protocol_version

    @property
    def is_open(self) -> bool:
        return not self.ended.is_set()

    @property
    def log(self) -> str:
        """The end of the standard error of the server's process; "" for a server over HTTP."""
        return self._process.log if self._process is not None else ""

    @property
    def asks_during_calls(self) -> bool:
        """Returns whether the server asks a person while a call goes on, as in the older era."""
        return self.protocol not in MODERN_PROTOCOL_VERSIONS

    async def call(
        self,
        note: CallNote,
        pinned: ToolDefinition,
        arguments: dict[str, Any],
        on_progress: ProgressFnT,
        on_log: OnLog,
        *,
        input_responses: Any = None,
        request_state: str | None = None,
    ) -> ServerAnswer:
        """Sends one call of a definition and returns its answer. `note` says afterwards whether the call can have
        reached the server. Raises the SDK's MCPError, pydantic's ValidationError for an answer of another form; a
        cancellation is sent to the server."""
        request, form = request_of(pinned, arguments, input_responses, request_state)
        note.sent = not self._notes_sends
        self._logs[id(note)] = note, on_log
        try:
            with noting(note):
                return await self._client.session.send_request(request, form, progress_callback=on_progress)
        finally:
            del self._logs[id(note)]

    async def list_tools(self) -> Listing:
        """Fetches all pages of the server's lists: of its tools, and of its prompts, resources and templates if it
        declares them. Raises Unavailable (`server_unavailable`) if it gives no list of its tools."""
        client, info = self._client, self._client.server_info
        found, problems = await read_definitions(client)
        return Listing(
            found,
            client.protocol_version,
            words(info.name if info is not None else ""),
            words(info.version if info is not None else ""),
            (client.instructions or "")[:_MAX_INSTRUCTIONS],
            tuple(problems),
        )

    async def complete(
        self, about: PromptReference | ResourceTemplateReference, argument: str, value: str, given: dict[str, str]
    ) -> CompleteResult:
        """Asks for the values of an argument that begin with `value`. Raises the SDK's MCPError, pydantic's
        ValidationError."""
        asked = {"name": argument, "value": value}
        return await self._client.session.complete(about, asked, given or None)

    def updates(self, uri: str) -> AsyncGenerator[str, None]:
        """Yields the changes of a resource, as `ResourceWatch.updates`."""
        return self._resources.updates(self._client, uri)

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Calls `on_change` for each change that a server of the era 2026-07-28 announces, until it offers no more.
        Servers of the older era announce changes by themselves."""
        can = self._client.server_capabilities
        wanted = [each is not None and bool(each.list_changed) for each in (can.tools, can.prompts, can.resources)]
        if self.protocol not in MODERN_PROTOCOL_VERSIONS or not any(wanted):
            return
        tools, prompts, resources = wanted
        while self.is_open:
            try:
                async with AsyncExitStack() as stack:
                    async with asyncio.timeout(_LISTEN_S):
                        changes = await stack.enter_async_context(
                            self._client.listen(
                                tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
                            )
                        )
                    async for _ in changes:
                        on_change()
            except MCPError:
                return
            except (RuntimeError, TimeoutError):
                on_change()  # changes in between were not announced
            await asyncio.sleep(_LISTEN_AGAIN_S)


@asynccontextmanager
async def open_connection(
    settings: ServerSettings,
    headers: dict[str, str],
    *,
    process: ServerProcess | None = None,
    auth: httpx2.Auth | None = None,
    target: Target = None,
    mode: str = "auto",
    on_change: Callable[[], None],
) -> AsyncIterator[ServerConnection]:
    """Reaches a server and agrees with it on a protocol. `settings` has its references resolved; `headers` are their
    values. `process`: the server that was started, for the transport stdio; whoever started it stops it. Raises
    Unavailable (`server_unavailable`)."""
    ended = asyncio.Event()
    async with AsyncExitStack() as stack:
        http: BoundedHttpClient | None = None
        notes_sends = target is None
        limit, flow = message_limit(settings.limits.max_result_bytes), Flow()
        if process is not None:
            target = stdio_transport(process, limit, flow, ended.set)
        elif target is None:
            assert settings.url is not None
            http = await stack.enter_async_context(BoundedHttpClient(settings.url, limit, headers, auth))
            transport = streamable_http_client(settings.url, http_client=http, max_sse_event_size=limit)
            target = watched(transport, flow, ended.set, getattr(auth, "leaks", None))

        async def on_message(message: object) -> None:
            if isinstance(message, _LIST_CHANGED):
                on_change()
            elif isinstance(message, ResourceUpdatedNotification):
                resources.changed(message.params.uri)

        live, resources = LiveCalls(settings.name), ResourceWatch(ended)

        async def on_question(context: object, params: ElicitRequestParams) -> ElicitResult:
            return await live.ask(params)

        async def on_sampling(context: object, params: CreateMessageRequestParams) -> Any:
            return await live.serve(CreateMessageRequest(params=params))

        async def on_roots(context: object) -> Any:
            return await live.serve(ListRootsRequest())

        logs: _Logs = {}

        async def on_log(params: LoggingMessageNotificationParams) -> None:
            note, going_on = current_note(), list(logs.values())
            found = [log for each, log in going_on if each is note or (note is None and len(going_on) == 1)]
            for log in found:
                log(params.level, params.data, params.logger or "")

        client = Client(
            target,
            mode=mode,
            cache=None,
            client_info=_client_info(),
            message_handler=on_message,
            elicitation_callback=on_question,
            logging_callback=on_log,
            log_level="info",
            sampling_callback=on_sampling if settings.sampling is not None else None,
            list_roots_callback=on_roots if settings.roots else None,
        )
        try:
            await stack.enter_async_context(client)
        except Exception as error:
            reason = getattr(auth, "public_problem", "") or await _reason(process, http)
            log = {"log": process.log} if process is not None else None
            raise Unavailable(reason, code="server_unavailable", details=log) from error
        connection = ServerConnection(client, ended, process, live, resources, logs, notes_sends=notes_sends)
        watching = asyncio.create_task(connection.watch(on_change), name="mcp-watch")
        try:
            yield connection
        finally:
            ended.set()
            await live.close()
            watching.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await watching


async def _reason(process: ServerProcess | None, http: BoundedHttpClient | None) -> str:
    """Returns why a server could not be reached, without its words."""
    if process is not None and (code := await process.exit_code()) is not None:
        return f"The server's program ended at its start, with the exit code {code}."
    if http is not None and http.last_problem:
        return f"The server can't be reached. {http.last_problem}"
    status = http.last_status if http is not None else None
    if status in (401, 403):
        return f"The server refused the connection with the status {status}. Check its headers, or its connection."
    if status in (404, 405, 410, 501):
        return f"There is no MCP server at this address: it answered with the status {status}."
    if status is not None:
        return f"The server answered with the status {status}."
    return "The server does not speak the protocol."


def _client_info() -> Implementation:
    try:
        own = version("demiurge-runtime")
    except PackageNotFoundError:
        own = "0"
    return Implementation(name="demiurge", version=own)
