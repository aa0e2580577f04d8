"""The gateway as a server of the protocol, in both eras: the SDK's `Server` with our handlers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final
from weakref import WeakSet

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    SubscriptionBus,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from pydantic import Field

from demiurge.errors import DemiurgeError, NotFound
from demiurge.mcp.gateway.calls import AfterAnswer, CallsOfClients
from demiurge.mcp.gateway.catalog import page
from demiurge.mcp.gateway.clients import set_level
from demiurge.mcp.gateway.handed_on import Marks
from demiurge.mcp.gateway.items import ItemsOfClients
from demiurge.mcp.gateway.names import ToolNames
from demiurge.mcp.gateway.port import CallerWorld, CallState, Waiting
from demiurge.mcp.gateway.questions import read_responses
from demiurge.mcp.gateway.request_state import RequestStates
from demiurge.mcp.gateway.resource_updates import ResourceUpdates
from demiurge.mcp.gateway.task import EXTENSION, require_tasks, task_fields
from demiurge.tools.errors import ToolErrorCode
from demiurge.tools.spec import ToolSpec
from demiurge.values.caller import Caller

__all__ = ["McpGateway"]

INSTRUCTIONS: Final = (
    "These tools are governed: each call is decided by a policy, and some wait for a person. A result that says that a "
    "call waits is no failure: call the same tool with the same arguments later to read its result."
)

MOST_LISTENING: Final = 32
"""How many streams of changes one caller may have at once."""

MOST_LISTENING_IN_ALL: Final = 256
"""How many streams of changes all callers may have at once."""

TELL_S: Final = 2.0
"""The longest time that a client takes to hear of a change, in seconds."""

_OFFERED: ContextVar[Sequence[ToolSpec]] = ContextVar("_OFFERED", default=())
"""The catalog of the caller whose request is served, noted by `McpGateway.note_catalog`."""

Context = ServerRequestContext[Any, Any]


class TaskParams(types.RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str = Field(alias="taskId")


class TaskAnswers(TaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any] = Field(alias="inputResponses", default_factory=dict)


class _Server(Server[Any]):
    """A server that says in both eras that its lists change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(True, True, True)
        return super().create_initialization_options(changes, experimental_capabilities, {})


class _StreamBus:
    """The events of one stream: those of all streams, and the changes of the resources that its client follows."""

    def __init__(self, shared: SubscriptionBus) -> None:
        self._shared = shared
        self._deliver: Callable[[ServerEvent], None] | None = None

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        self._deliver = listener
        return self._shared.subscribe(listener)

    async def publish(self, event: ServerEvent) -> None:
        if self._deliver is not None:
            self._deliver(event)


@dataclass
class McpGateway:
    """Serves the catalogs of a world. `world_of` tells the caller of a request, from its transport alone; `key` is a
    secret of the world's user; `sent`, if given, runs something once the answer to a request was handed over
    whole, or could not be. `own_names` returns the names that `names` has to follow (`ToolNames.own_names`), as they
    are now. `marks`: as of CallsOfClients. `listed` returns what the list of tools describes of a catalog; None: all of
    it. A client may call what is not listed."""

    world_of: Callable[[Context], CallerWorld]
    key: Callable[[], Awaitable[bytes]]
    names: ToolNames = field(default_factory=ToolNames)
    sent: Callable[[Context, AfterAnswer], bool] | None = None
    own_names: Callable[[], Awaitable[Mapping[str, str] | None]] | None = None
    marks: Marks | None = None
    listed: Callable[[Sequence[ToolSpec]], Sequence[ToolSpec]] | None = None

    def __post_init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self._listening: set[ListenHandler] = set()
        self._listeners: Counter[Caller] = Counter()
        self._calls = CallsOfClients(self.names, self._states, self._once_sent, self.marks)
        self.items = ItemsOfClients(self.names, self.world_of, self._calls)
        self.updates = ResourceUpdates(self.items, self.world_of)
        self._made_states: RequestStates | None = None
        self._connections: WeakSet[Connection] = WeakSet()
        self._background: set[asyncio.Task[None]] = set()
        self.server = self._made_server()

    def _made_server(self) -> Server[Any]:
        server = _Server(
            "demiurge",
            version=version("demiurge-runtime"),
            title="Demiurge",
            instructions=INSTRUCTIONS,
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,  # type: ignore[arg-type]  # a task is a result of the extension
            on_list_prompts=self.items.list_prompts,
            on_get_prompt=self.items.get_prompt,  # type: ignore[arg-type]  # or what the call waits for
            on_list_resources=self.items.list_resources,
            on_list_resource_templates=self.items.list_templates,
            on_read_resource=self.items.read_resource,  # type: ignore[arg-type]
            on_subscribe_resource=self.updates.subscribe,
            on_unsubscribe_resource=self.updates.unsubscribe,
            on_completion=self.items.complete,
            on_subscriptions_listen=self._listen,
        )
        server.middleware[:] = [self._declare]  # the SDK's own would tell an exporter of traces what requests hold
        server.extensions = {EXTENSION: {}}
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, self._set_level)
        server.add_request_handler("tasks/get", TaskParams, self._get_task)
        server.add_request_handler("tasks/cancel", TaskParams, self._cancel_task)
        server.add_request_handler("tasks/update", TaskAnswers, self._update_task)
        return server

    # -- tools --------------------------------------------------------------------------------------------------------

    async def note_catalog(self, world: CallerWorld) -> None:
        """Notes the catalog of the caller of a `tools/call` over HTTP, in the context of its request. The SDK compares
        headers of the request with the arguments of which the tool's schema says so (`x-mcp-header`)."""
        with suppress(DemiurgeError):  # the answer to the call will say it
            _OFFERED.set(await world.catalog())

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        """Returns the schema of a tool that the caller of this request is offered; None for another."""
        tool_id = self.names.id_of(name)
        return next((spec.input_schema for spec in _OFFERED.get() if spec.name == tool_id), None)

    async def _declare(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Takes out of what this server says that it has what it has not for this caller; notes who hears of
        changes."""
        self._connections.add(ctx.session._connection)  # the SDK gives no other way to it
        result = await call_next(ctx)
        if ctx.method in ("initialize", "server/discover") and isinstance(result, dict):
            world, lacks = self.world_of(ctx), list[str]()
            kinds = [kind for kind in ("prompt", "resource", "template") if await self.items.offered(world, kind)]
            lacks += ["prompts"] if "prompt" not in kinds else []
            lacks += ["resources"] if not {"resource", "template"}.intersection(kinds) else []
            lacks += ["completions"] if not {"prompt", "template"}.intersection(kinds) else []
            declared = result["capabilities"]
            result["capabilities"] = {name: each for name, each in declared.items() if name not in lacks}
        return result

    async def _listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        caller = self.world_of(ctx).caller
        if self._listeners[caller] >= MOST_LISTENING:
            raise MCPError(types.INTERNAL_ERROR, f"This caller listens {MOST_LISTENING} times already.")
        if self._listeners.total() >= MOST_LISTENING_IN_ALL:
            raise MCPError(types.INTERNAL_ERROR, "Too many clients listen for changes; try again later.")
        self._listeners[caller] += 1
        bus = _StreamBus(self._bus)
        listening, asked = ListenHandler(bus, max_subscriptions=1), params.notifications.resource_subscriptions or ()
        try:
            async with self.updates.following(ctx, asked, bus.publish) as uris:
                wanted = params.notifications.model_copy(update={"resource_subscriptions": uris or None})
                self._listening.add(listening)
                return await listening(ctx, params.model_copy(update={"notifications": wanted}))
        finally:
            self._listening.discard(listening)
            self._listeners[caller] -= 1
            if not self._listeners[caller]:
                del self._listeners[caller]

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        try:
            catalog = await self.world_of(ctx).catalog()
        except DemiurgeError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message, {"code": error.code}) from error
        listed = self.listed(catalog) if self.listed is not None else catalog
        return page(self.names.offered(listed), params.cursor if params is not None else None)

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> HandlerResult:
        return await self._calls.call(self.world_of(ctx), ctx, params)

    async def follow(self, world: CallerWorld) -> None:
        """Tells clients of changes of the catalog, until the world is closed."""
        async for _ in world.changes():
            if self.own_names is not None:
                with suppress(DemiurgeError):  # the server was removed, and its tools with it
                    self.names.rename(await self.own_names())
            await self.updates.end_withdrawn()
            await asyncio.gather(*(_tell(connection) for connection in list(self._connections)))
            for event in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
                await self._bus.publish(event)

    async def _set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        set_level(ctx, params.level)
        return types.EmptyResult()

    # -- tasks --------------------------------------------------------------------------------------------------------

    async def _get_task(self, ctx: Context, params: TaskParams) -> HandlerResult:
        require_tasks(ctx, params.task_id)
        world = self.world_of(ctx)
        held = world.take_up(params.task_id, waits=False)
        try:
            state = await self._calls.state_of(ctx, held)
            found = await self._task(ctx, world, state)
        except BaseException as error:
            await self._calls.leave(held)
            if isinstance(error, NotFound):
                raise _no_task() from error
            if isinstance(error, DemiurgeError):
                raise MCPError(types.INTERNAL_ERROR, error.message, {"code": error.code}) from error
            raise
        if state.status == "ended":
            self._once_sent(ctx, lambda sent: held.leave(read=sent))
        else:
            await self._calls.leave(held)
        return found

    async def _task(self, ctx: Context, world: CallerWorld, state: CallState) -> dict[str, Any]:
        if state.status == "ended":
            if state.error_code == ToolErrorCode.CANCELLED:
                return task_fields(state.call_id, "cancelled")
            result = await (await self._calls.form_of(world, state.tool)).ended(state, world.blob)
            if isinstance(result, MCPError):
                failure = result.error.model_dump(by_alias=True, exclude_none=True)
                return {**task_fields(state.call_id, "failed"), "error": failure}
            shown = result.model_dump(by_alias=True, mode="json", exclude_none=True)
            return {**task_fields(state.call_id, "completed"), "result": shown}
        waiting = await world.waiting(state.call_id) if state.status == "waiting" else None
        if waiting is None:
            return task_fields(state.call_id, "working")
        asked = {
            f"{key}{_ending(waiting)}": question.model_dump(by_alias=True, mode="json", exclude_none=True)
            for key, question in self._calls.requests(ctx, waiting).items()
        }
        return {**task_fields(state.call_id, "input_required"), "inputRequests": asked}

    async def _cancel_task(self, ctx: Context, params: TaskParams) -> HandlerResult:
        world = await self._own_task(ctx, params.task_id)
        with suppress(DemiurgeError):  # it has ended
            await world.cancel(params.task_id)
        return {}

    async def _update_task(self, ctx: Context, params: TaskAnswers) -> HandlerResult:
        world = await self._own_task(ctx, params.task_id)
        if (waiting := await world.waiting(params.task_id)) is not None:
            ending, given = _ending(waiting), read_responses(params.input_responses)
            now = {key.removesuffix(ending): each for key, each in given.items() if key.endswith(ending)}
            await self._calls.take_answers(world, waiting, now)
        return {}

    async def _own_task(self, ctx: Context, task_id: str) -> CallerWorld:
        require_tasks(ctx, task_id)
        world = self.world_of(ctx)
        held = world.take_up(task_id, waits=False)
        try:
            await self._calls.state_of(ctx, held)
        except DemiurgeError as error:
            raise _no_task() from error
        finally:
            await self._calls.leave(held)
        return world

    # -- parts --------------------------------------------------------------------------------------------------------

    async def _states(self, world: CallerWorld) -> RequestStates:
        if self._made_states is None:
            self._made_states = RequestStates(await self.key(), await world.world_id())
        return self._made_states

    def _once_sent(self, ctx: Context, work: AfterAnswer) -> None:
        """Runs `work` when the answer was handed over, or could not be. Without `sent` the client is in this process;
        an answer that the transport can't follow stays in doubt."""
        if self.sent is None or not self.sent(ctx, lambda sent: self._run(work, sent)):
            self.begin(self._run(work, self.sent is None))

    async def _run(self, work: AfterAnswer, sent: bool) -> None:
        with suppress(DemiurgeError):  # the world is closed: the answer is given once more
            await work(sent)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begins work that `close` waits for."""
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self) -> None:
        """Ends the streams, and waits for what was begun."""
        for listening in list(self._listening):
            listening.close()
        await self.updates.close()
        await self._calls.close()
        if self._background:
            await asyncio.wait(self._background)


async def _tell(connection: Connection) -> None:
    """Tells a client of the older protocol that the lists changed. One that does not read is not waited for."""
    with anyio.move_on_after(TELL_S):
        await connection.send_tool_list_changed()
        await connection.send_prompt_list_changed()
        await connection.send_resource_list_changed()


def _ending(waiting: Waiting) -> str:
    """Returns the end of the keys of a task's questions. No two questions of a task have the same key, so an answer
    that comes twice, or late, answers no other question."""
    return f".{waiting.approval[:12]}"


def _no_task() -> MCPError:
    return MCPError(types.INVALID_PARAMS, "There is no such task.")
