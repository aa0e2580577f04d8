"""Requests to the gateway apart from worlds: what it declares, tasks, prompts, resources, streams and turns."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from tests.mcp.gateway.test_asked_calls import CALL, CALLER, DONE, CallsWorld, Connection, Session

from demiurge.errors import Conflict, NotFound
from demiurge.mcp.gateway import server
from demiurge.mcp.gateway.calls import MOST_AT_ONCE, MOST_WAITING, _Turns
from demiurge.mcp.gateway.items import ItemsOfClients
from demiurge.mcp.gateway.names import ToolNames
from demiurge.mcp.gateway.server import McpGateway, TaskParams
from demiurge.mcp.gateway.task import EXTENSION
from demiurge.tools.spec import ToolSpec
from demiurge.values.caller import Caller

CTX: Any = SimpleNamespace(method="", protocol_version="2026-07-28", request=None, session=None)
OTHER = Caller("agent:b", roles=("agent",), transport="http")


def gateway_of(world: Any = None) -> McpGateway:
    """A gateway whose requests all come with `CTX`, from the caller of `world`."""

    def world_of(ctx: Any) -> Any:
        assert ctx is CTX or ctx.method, "the caller is known from the request alone"
        return world

    async def key() -> bytes:
        return b"k" * 32

    return McpGateway(world_of, key)


# -- what is declared ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["initialize", "server/discover"])
@pytest.mark.parametrize(
    ("kinds", "lacks"),
    [
        ((), {"prompts", "resources", "completions"}),
        (("prompt",), {"resources"}),
        (("resource",), {"prompts", "completions"}),
        (("template",), {"prompts"}),
        (("prompt", "template"), set()),
        (("prompt", "resource"), set()),
    ],
)
async def test_a_capability_that_a_caller_is_not_offered_is_not_declared(
    method: str, kinds: tuple[str, ...], lacks: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = gateway_of("a world")
    every = {"tools", "logging", "prompts", "resources", "completions"}

    async def offered(world: Any, kind: str) -> list[str]:
        assert world == "a world"
        return [kind] if kind in kinds else []

    async def call_next(_ctx: Any) -> Any:
        return {"capabilities": {name: {"is": name} for name in every}}

    monkeypatch.setattr(gateway.items, "offered", offered)
    connection: Any = Connection()
    ctx: Any = SimpleNamespace(method=method, session=SimpleNamespace(_connection=connection))
    declared = cast(Any, await gateway._declare(ctx, call_next))
    assert declared == {"capabilities": {name: {"is": name} for name in every - lacks}}
    assert connection in gateway._connections, "it hears of changes"


async def test_the_answer_to_another_request_is_handed_on_as_it_is() -> None:
    async def call_next(_ctx: Any) -> Any:
        return {"capabilities": {"prompts": {}}}

    ctx: Any = SimpleNamespace(method="tools/call", session=SimpleNamespace(_connection=Connection()))
    assert await gateway_of()._declare(ctx, call_next) == {"capabilities": {"prompts": {}}}


# -- tasks --------------------------------------------------------------------------------------------------------


def task_gateway(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> McpGateway:
    gateway = gateway_of(CallsWorld([[DONE]]))

    async def state_of(_ctx: Any, _held: Any) -> Any:
        raise fault

    monkeypatch.setattr(server, "require_tasks", lambda _ctx, _task_id: None)
    monkeypatch.setattr(gateway._calls, "state_of", state_of)
    return gateway


@pytest.mark.parametrize("name", ["_get_task", "_cancel_task", "_update_task"])
async def test_a_task_that_is_not_the_callers_is_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = task_gateway(NotFound("secret words", code="no_call"), monkeypatch)
    params = server.TaskAnswers(taskId=CALL) if name == "_update_task" else TaskParams(taskId=CALL)
    with pytest.raises(MCPError) as refused:
        await getattr(gateway, name)(CTX, params)
    assert refused.value.error == types.ErrorData(code=types.INVALID_PARAMS, message="There is no such task.")


async def test_a_task_that_can_not_be_read_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = task_gateway(Conflict("The world is closed.", code="closed"), monkeypatch)
    with pytest.raises(MCPError) as refused:
        await gateway._get_task(CTX, TaskParams(taskId=CALL))
    expected = types.ErrorData(code=types.INTERNAL_ERROR, message="The world is closed.", data={"code": "closed"})
    assert refused.value.error == expected


async def test_a_client_that_did_not_declare_tasks_has_none() -> None:
    ctx: Any = SimpleNamespace(
        method="tasks/get",
        request=None,
        protocol_version="2026-07-28",
        session=Session(),
    )
    with pytest.raises(MCPError) as refused:
        await gateway_of()._get_task(ctx, TaskParams(taskId=CALL))
    assert refused.value.error.message == f"The client did not declare {EXTENSION}."
    assert refused.value.error.data == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


# -- prompts and resources ----------------------------------------------------------------------------------------


def item(kind: str, name: str, **more: str) -> ToolSpec:
    found = {"server": "docs", "kind": kind, "name": name, **more}
    return ToolSpec(f"mcp__docs__{kind}_{name}", "", {"type": "object"}, mcp_item=found)


ITEMS = (
    item("prompt", "greet"),
    item("resource", "log", uri="file:///log"),
    item("template", "page", uriTemplate="file:///pages/{page}"),
)


class Asked:
    """Stands in for the calls of clients: notes what is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def ask(self, world: Any, ctx: Any, tool: str, arguments: Any, params: Any, _form: Any) -> Any:
        self.asked.append((world, ctx, tool, arguments, params))
        return {"answer": tool}


class ItemsWorld:
    async def items(self) -> Any:
        return ITEMS


def items_of(asked: Asked, world: Any) -> ItemsOfClients:
    def world_of(ctx: Any) -> Any:
        assert ctx is CTX, "the caller is known from the request alone"
        return world

    return ItemsOfClients(ToolNames(), world_of, cast(Any, asked))


async def test_a_prompt_is_a_call_with_its_arguments() -> None:
    asked, world = Asked(), ItemsWorld()
    params = types.GetPromptRequestParams(name="docs_greet", arguments={"who": "Ada"})
    shown = await items_of(asked, world).list_prompts(CTX, None)
    params = params.model_copy(update={"name": shown.prompts[0].name})
    assert await items_of(asked, world).get_prompt(CTX, params) == {"answer": "mcp__docs__prompt_greet"}
    assert asked.asked == [(world, CTX, "mcp__docs__prompt_greet", {"who": "Ada"}, params)]


async def test_a_resource_and_an_address_of_a_template_are_calls() -> None:
    asked, world = Asked(), ItemsWorld()
    items = items_of(asked, world)
    [log] = (await items.list_resources(CTX, None)).resources
    place = str(log.uri).removesuffix("file:///log")
    for uri, tool, arguments in (
        (str(log.uri), "mcp__docs__resource_log", {}),
        (f"{place}file:///pages/7", "mcp__docs__template_page", {"uri": "file:///pages/7"}),
    ):
        params = types.ReadResourceRequestParams(uri=uri)
        assert await items.read_resource(CTX, params) == {"answer": tool}
        assert asked.asked.pop() == (world, CTX, tool, arguments, params)


@pytest.mark.parametrize(("version", "code"), [("2026-07-28", types.INVALID_PARAMS), ("2025-11-25", -32002)])
async def test_a_resource_or_prompt_that_is_not_offered_is_not_there(version: str, code: int) -> None:
    items = ItemsOfClients(ToolNames(), lambda _ctx: cast(Any, ItemsWorld()), cast(Any, Asked()))
    ctx: Any = SimpleNamespace(protocol_version=version)
    with pytest.raises(MCPError) as refused:
        await items.read_resource(ctx, types.ReadResourceRequestParams(uri="file:///none"))
    expected = types.ErrorData(code=code, message="There is no such resource.", data={"uri": "file:///none"})
    assert refused.value.error == expected
    with pytest.raises(MCPError) as unknown:
        await items.get_prompt(ctx, types.GetPromptRequestParams(name="none"))
    said = types.ErrorData(code=types.INVALID_PARAMS, message="There is no such prompt.", data={"name": "none"})
    assert unknown.value.error == said


# -- streams of changes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "others", "why"),
    [
        (server.MOST_LISTENING, 0, f"This caller listens {server.MOST_LISTENING} times already."),
        (1, server.MOST_LISTENING_IN_ALL - 1, "Too many clients listen for changes; try again later."),
    ],
)
async def test_a_caller_and_all_callers_have_so_many_streams(own: int, others: int, why: str) -> None:
    gateway = gateway_of(SimpleNamespace(caller=CALLER))
    gateway._listeners[CALLER], gateway._listeners[OTHER] = own, others
    with pytest.raises(MCPError) as refused:
        await gateway._listen(CTX, cast(Any, None))
    assert refused.value.error == types.ErrorData(code=types.INTERNAL_ERROR, message=why)
    assert (gateway._listeners[CALLER], gateway._listeners[OTHER]) == (own, others)


async def test_a_catalog_that_can_not_be_read_is_said_with_its_code() -> None:
    gateway = gateway_of(CallsWorld([], tools=Conflict("The world is closed.", code="closed")))
    with pytest.raises(MCPError) as refused:
        await gateway._list_tools(CTX, None)
    expected = types.ErrorData(code=types.INTERNAL_ERROR, message="The world is closed.", data={"code": "closed"})
    assert refused.value.error == expected


# -- turns --------------------------------------------------------------------------------------------------------


async def begun(turns: _Turns, count: int, caller: Caller = CALLER) -> tuple[list[asyncio.Event], list[int]]:
    """So many calls of a caller begin; each ends with its event. The list has those whose turn has come."""
    ends, running = [asyncio.Event() for _ in range(count)], list[int]()

    async def call(number: int) -> None:
        async with turns.turn(caller):
            running.append(number)
            await ends[number].wait()

    for number in range(count):
        asyncio.get_running_loop().create_task(call(number))
        await asyncio.sleep(0)
    return ends, running


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_sixteen_calls_of_a_caller_run_at_once_and_the_next_in_their_order() -> None:
    turns = _Turns()
    ends, running = await begun(turns, MOST_AT_ONCE + 3)
    assert running == [*range(MOST_AT_ONCE)]
    others, others_running = await begun(turns, 1, OTHER)
    assert others_running == [0], "another caller has turns of its own"
    ends[3].set()
    await settled()
    assert running == [*range(MOST_AT_ONCE + 1)]
    for each in (*ends, *others):
        each.set()
    await settled()
    assert (turns._running, turns._waiting) == ({}, {})


async def test_a_turn_that_ends_leaves_the_others_counted() -> None:
    turns = _Turns()
    ends, running = await begun(turns, MOST_AT_ONCE)
    ends[0].set()
    await settled()
    more, more_running = await begun(turns, 2)
    assert (len(running), more_running) == (MOST_AT_ONCE, [0])
    for each in (*ends, *more):
        each.set()
    await settled()


async def test_the_257th_waiting_call_of_a_caller_is_refused() -> None:
    turns = _Turns()
    ends, _ = await begun(turns, MOST_AT_ONCE + MOST_WAITING)
    with pytest.raises(MCPError) as refused:
        async with turns.turn(CALLER):
            pass
    why = "Too many calls of this caller are waiting; try again later."
    assert refused.value.error == types.ErrorData(code=types.INTERNAL_ERROR, message=why)
    for each in ends:
        each.set()
    await settled()
