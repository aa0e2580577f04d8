"""The gateway at `/mcp` of a served world: tokens, sessions, tasks and the protocol's own errors over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import mcp_types as types
import pytest
from mcp.client.streamable_http import streamable_http_client
from tests.mcp.conftest import until
from tests.mcp.gateway.conftest import ERAS, Shop, text_of
from tests.server.conftest import LONGEST_S, Served, served_on

from demiurge import ToolPolicy, World
from demiurge.mcp.gateway import calls
from demiurge.server import mcp_endpoint
from mcp import Client

ROME = {"city": "Rome"}
TASKS = "io.modelcontextprotocol/tasks"
ACCEPT = {"accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@pytest.fixture
async def served(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """The served world. However slow the machine is, a call becomes a task only if it waits for somebody."""
    monkeypatch.setattr(calls, "TASK_AFTER_S", LONGEST_S)
    async with served_on(shop.world, None) as found:
        yield found


@asynccontextmanager
async def connected(served: Served, secret: str, mode: str, **options: Any) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {secret}"}
    async with httpx2.AsyncClient(headers=headers, timeout=LONGEST_S) as http:
        transport = streamable_http_client(f"{served.base}/mcp", http_client=http)
        async with Client(transport, mode=mode, **options) as client:
            yield client


async def token(served: Served, *roles: str, actor: str = "agent:a") -> str:
    return (await served.world.tokens.add(actor, roles)).secret


async def post(served: Served, secret: str, method: str, params: dict[str, Any], **headers: str) -> httpx.Response:
    """Sends one request of the newer protocol, from a client with tasks."""
    name = params.get("name") or params.get("taskId")
    ability: dict[str, Any] = (
        {"extensions": {TASKS: {}}, "elicitation": {}} if headers.pop("tasks", "yes") == "yes" else {}
    )
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": ability if headers.pop("tasks", "yes") == "yes" else {},
    }
    sent = {
        "authorization": f"Bearer {secret}",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        **({"mcp-name": name} if name else {}),
        **headers,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    async with served.browser() as http:
        return await http.post("/mcp", json=body, headers=sent)


async def result(served: Served, secret: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    answered = await post(served, secret, method, params)
    found: dict[str, Any] = answered.json()["result"]
    return found


@pytest.mark.parametrize("mode", ERAS)
async def test_a_token_s_caller_calls_and_waits_and_reads(served: Served, shop: Shop, mode: str) -> None:
    async with connected(served, await token(served, "agent"), mode) as client:
        assert (await client.list_tools()).tools[0].name == "add"
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"sum": 3}
        waits = await client.call_tool("send_parcel", ROME)
        assert waits.structured_content["status"] == "awaiting_approval"
        await shop.approve()
        assert text_of(await client.call_tool("send_parcel", ROME)) == "sent to Rome"
    assert shop.runs == ["Rome"]


@pytest.mark.parametrize("mode", ERAS)
async def test_progress_reaches_the_client(served: Served, shop: Shop, mode: str) -> None:
    seen: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))
        shop.go_on.set()

    async with connected(served, await token(served, "agent"), mode) as client:
        heard = await client.call_tool("wait_for_word", {"word": "go"}, progress_callback=on_progress)
    assert text_of(heard) == "heard go"
    assert seen == [(1, 2, "waiting")]


@pytest.mark.parametrize("mode", ERAS)
async def test_clients_hear_of_a_change_of_the_policy(served: Served, shop: Shop, mode: str) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            heard.put_nowait(message)

    policy = ToolPolicy(allowed_tools=("add",))
    async with connected(served, await token(served, "agent"), mode, message_handler=on_message) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        assert len((await client.list_tools()).tools) > 1
        if mode == "legacy":
            await shop.world.set_policy(policy)
            await heard.get()
        else:
            async with client.listen(tools_list_changed=True) as events:
                await shop.world.set_policy(policy)
                await anext(aiter(events))
        assert [each.name for each in (await client.list_tools(cache_mode="refresh")).tools] == ["add"]


@pytest.mark.parametrize(
    ("options", "offered"),
    [
        ({"mcp_tools": ("note", "add", "core__get_current_time")}, ["add", "note"]),
        ({"mcp_shipped": False}, ["add", "book", "note", "plot", "report", "sell", "send_parcel", "wait_for_word"]),
        ({"mcp_shipped": False, "mcp_search": True}, None),
    ],
)
async def test_a_server_offers_the_tools_that_its_options_say(
    shop: Shop, options: dict[str, Any], offered: list[str] | None
) -> None:
    async with served_on(shop.world, None, **options) as served:
        secret = await token(served, "agent")
        listed = [each["name"] for each in (await result(served, secret, "tools/list", {}))["tools"]]
        hidden = (await post(served, secret, "tools/call", {"name": "hidden", "arguments": {}})).json()
        assert hidden["error"]["message"] == "Unknown tool: hidden"
    assert offered is None or listed == offered


async def test_no_token_no_answer_and_a_revoked_one_is_none(served: Served) -> None:
    added = await served.world.tokens.add("agent:a", ["agent"])
    assert (await post(served, "dmg_wrong", "tools/list", {})).status_code == 401
    assert (await post(served, added.secret, "tools/list", {})).status_code == 200
    await served.world.tokens.revoke(added.token.id)
    assert (await post(served, added.secret, "tools/list", {})).status_code == 401


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("host", "evil.example", 400),
        ("host", "127.0.0.1:80.evil.example", 400),
        ("host", "evil.example@127.0.0.1", 400),
        ("origin", "http://evil", 403),
        ("origin", "null", 403),
    ],
)
async def test_host_and_origin_are_checked(served: Served, header: str, value: str, status: int) -> None:
    secret = await token(served, "agent")
    assert (await post(served, secret, "tools/list", {}, **{header: value})).status_code == status


async def test_a_session_of_the_older_protocol_is_its_token_s_alone(served: Served) -> None:
    secret, other = await token(served, "agent"), await token(served, "agent", actor="agent:b")
    ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    async with served.browser(headers=ACCEPT) as http:
        mine = {"authorization": f"Bearer {secret}"}
        opened = await http.post("/mcp", json=HELLO, headers=mine)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        assert (await http.post("/mcp", json=ask, headers={**mine, **session})).status_code == 200
        theirs = {"authorization": f"Bearer {other}"}
        assert (await http.post("/mcp", json=ask, headers={**theirs, **session})).status_code == 404


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("MAX_SESSIONS_OF_ONE", [200, 200, 200, 503, 200]), ("MAX_SESSIONS", [200, 200, 200, 503, 503])],
)
async def test_one_token_does_not_take_the_sessions_of_all_and_all_have_a_limit(
    limit: str, expected: list[int], served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_endpoint, limit, 3)
    begin = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
    }
    greedy, other = await token(served, "viewer"), await token(served, "agent", actor="agent:b")
    statuses = []
    async with served.browser() as http:
        for secret in (greedy, greedy, greedy, greedy, other):
            headers = {"authorization": f"Bearer {secret}", "accept": "application/json, text/event-stream"}
            statuses.append((await http.post("/mcp", json=begin, headers=headers)).status_code)
    assert statuses == expected


async def test_a_request_that_is_too_large_is_refused(served: Served, shop: Shop) -> None:
    secret = await token(served, "agent")
    answered = await post(served, secret, "tools/call", {"name": "note", "arguments": {"text": "x" * 5_000_000}})
    assert answered.status_code == 413
    assert shop.runs == []


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
async def test_a_client_that_vanishes_in_the_middle_of_a_request_is_no_fault(
    era: str, served: Served, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    secret = await token(served, "agent")
    sent = {"host": "127.0.0.1", "authorization": f"Bearer {secret}", **ACCEPT, "content-type": "application/json"}
    async with served.browser(headers=sent) as http:
        opened = await http.post("/mcp", json=HELLO)
    sent |= {"mcp-protocol-version": era, "mcp-method": "tools/call", "mcp-name": "note", "content-length": "1000"}
    if era == "2025-11-25":
        sent |= {"mcp-session-id": opened.headers["mcp-session-id"]}
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    half = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "note", "arguments": {"te'
    requests = served.server.server_state.tasks
    await until(lambda: not requests)
    for _ in range(3):
        _, writer = await asyncio.open_connection("127.0.0.1", int(served.base.rpartition(":")[2]))
        writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n{half}".encode())
        await until(lambda: bool(requests))
        writer.close()
        await until(lambda: not requests)
    assert (await post(served, secret, "tools/list", {})).status_code == 200
    assert [record.message for record in caplog.records if record.exc_info or record.levelname == "ERROR"] == []
    assert shop.runs == []


async def test_a_call_that_waits_is_a_task(served: Served, shop: Shop) -> None:
    secret = await token(served, "agent")
    made = await result(served, secret, "tools/call", {"name": "send_parcel", "arguments": ROME})
    assert (made["resultType"], made["status"]) == ("task", "input_required")
    task = {"taskId": made["taskId"]}
    waits = await result(served, secret, "tasks/get", task)
    [key] = waits["inputRequests"]
    assert waits["inputRequests"][key]["method"] == "elicitation/create"
    yes = {key: {"action": "accept", "content": {"decision": "approve"}}}
    assert (await result(served, secret, "tasks/update", {**task, "inputResponses": yes}))["resultType"] == "complete"
    assert (await result(served, secret, "tasks/get", task))["status"] == "input_required"  # it may not decide
    strange = {**task, "inputResponses": {"no such key": {"ignored": True}, "decision": 5}}
    assert (await result(served, secret, "tasks/update", strange))["resultType"] == "complete"
    await shop.approve()
    done = await result(served, secret, "tasks/get", task)
    assert done["status"] == "completed"
    assert done["result"]["content"][0]["text"] == "sent to Rome"
    assert (await result(served, secret, "tasks/get", task))["status"] == "completed"
    assert shop.runs == ["Rome"]
    again = await result(served, secret, "tools/call", {"name": "send_parcel", "arguments": ROME})
    assert again["taskId"] != made["taskId"]


async def test_an_approver_decides_in_its_task(served: Served, shop: Shop) -> None:
    secret = await token(served, "agent", "approver")
    made = await result(served, secret, "tools/call", {"name": "send_parcel", "arguments": ROME})
    task = {"taskId": made["taskId"]}
    [key] = (await result(served, secret, "tasks/get", task))["inputRequests"]
    yes = {key: {"action": "accept", "content": {"decision": "approve"}}}
    await result(served, secret, "tasks/update", {**task, "inputResponses": yes})
    await shop.world.settle()
    assert (await result(served, secret, "tasks/get", task))["status"] == "completed"
    assert shop.runs == ["Rome"]


async def test_an_answer_that_comes_twice_answers_one_question_of_a_task(served: Served, shop: Shop) -> None:
    secret = await token(served, "agent", "approver")
    made = await result(served, secret, "tools/call", {"name": "sell", "arguments": ROME})
    task = {"taskId": made["taskId"]}
    [key] = (await result(served, secret, "tasks/get", task))["inputRequests"]
    yes = {key: {"action": "accept", "content": {"text": "yes"}}}
    for _ in range(2):
        await result(served, secret, "tasks/update", {**task, "inputResponses": yes})
        await shop.world.settle()
    [other] = (await result(served, secret, "tasks/get", task))["inputRequests"]
    assert other != key
    assert shop.runs == ["leg 0", "leg 1"]


async def test_a_long_call_becomes_a_task_that_its_client_can_cancel(
    served: Served, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "TASK_AFTER_S", 0.05)
    secret = await token(served, "agent")
    made = await result(served, secret, "tools/call", {"name": "wait_for_word", "arguments": {"word": "go"}})
    assert made["status"] == "working"
    task = {"taskId": made["taskId"]}
    assert (await result(served, secret, "tasks/get", task))["status"] == "working"
    assert "status" not in await result(served, secret, "tasks/cancel", task)
    ended = await result(served, secret, "tasks/get", task)
    assert ended["status"] == "cancelled" or ended["result"]["isError"]
    assert shop.runs == []


async def test_a_task_is_its_caller_s_alone_and_needs_the_extension(served: Served, shop: Shop) -> None:
    secret, other = await token(served, "agent"), await token(served, "agent", "approver", actor="user:b")
    made = await result(served, secret, "tools/call", {"name": "send_parcel", "arguments": ROME})
    task = {"taskId": made["taskId"]}
    methods: dict[str, dict[str, Any]] = {"tasks/get": {}, "tasks/cancel": {}, "tasks/update": {"inputResponses": {}}}
    for method, more in methods.items():
        theirs = (await post(served, other, method, {**task, **more})).json()
        unknown = (await post(served, other, method, {"taskId": "mcp-no", **more})).json()
        assert theirs["error"] == unknown["error"]
        assert theirs["error"]["code"] == -32602
        without = (await post(served, secret, method, {**task, **more}, tasks="no")).json()
        assert without["error"]["code"] == -32021
    other_name = (await post(served, secret, "tasks/get", task, **{"mcp-name": "mcp-other"})).json()
    assert other_name["error"]["code"] == -32020
    assert len(await shop.world.approvals()) == 1


async def test_a_client_that_vanishes_is_told_of_its_call_at_its_return(served: Served, shop: Shop) -> None:
    secret = await token(served, "agent")
    body = {"name": "wait_for_word", "arguments": {"word": "go"}}
    gone = asyncio.create_task(post(served, secret, "tools/call", body, tasks="no"))
    await shop.began.wait()
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    while not await shop.world.doubts():
        await asyncio.sleep(0.02)
    shop.go_on.set()
    told = (await post(served, secret, "tools/call", body, tasks="no")).json()["result"]
    assert told["structuredContent"]["error_code"] == "unknown_outcome"
    assert shop.runs == []


async def test_an_answer_that_could_not_be_sent_is_given_to_the_next_equal_request(served: Served, shop: Shop) -> None:
    secret = await token(served, "agent")
    body = {"name": "note", "arguments": {"text": "once"}}
    told = (await post(served, secret, "tools/list", {})).request
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    content = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**body, "_meta": meta}}

    async def broken(scope: Any, receive: Any, send: Any) -> None:
        async def send_nothing(message: Any) -> None:
            if message["type"] == "http.response.body":
                raise OSError("the client has gone")
            await send(message)

        await served.app(scope, receive, send_nothing)

    headers = {name: told.headers[name] for name in ("authorization", "accept", "mcp-protocol-version")}
    headers |= {"mcp-method": "tools/call", "mcp-name": "note"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(broken), base_url=served.base) as http:
        with pytest.raises(ExceptionGroup):
            await http.post("/mcp", json=content, headers=headers)
    again = (await post(served, secret, "tools/call", body)).json()["result"]
    assert again["_meta"]["demiurge/earlier"]
    assert shop.runs == ["once"]


@pytest.mark.parametrize("is_sent", [True, False])
async def test_work_after_an_answer_is_done_also_if_the_call_ends_after_its_request(is_sent: bool) -> None:
    told: list[bool] = []
    begun: list[asyncio.Future[None]] = []
    after = mcp_endpoint._AfterAnswer(lambda work: begun.append(asyncio.ensure_future(work)))

    async def work(sent: bool) -> None:
        told.append(sent)

    after.add(work)
    after.run(is_sent)
    after.add(work)
    await asyncio.gather(*begun)
    assert told == [is_sent, False]


@pytest.mark.parametrize(
    ("shipped", "listed"), [(False, ["core__read_result"]), (True, ["core__read_result", "workspace__list"])]
)
async def test_tools_that_come_with_demiurge_are_listed_only_if_asked_for(
    shipped: bool, listed: list[str], tmp_path: Path
) -> None:
    policy = ToolPolicy(("workspace__list", "core__read_result"))
    async with (
        World.open(tmp_path / "w", policy=policy) as world,
        served_on(world, None, **({"mcp_shipped": True} if shipped else {})) as found,
        connected(found, await token(found, "agent"), ERAS[0]) as client,
    ):
        assert sorted(tool.name for tool in (await client.list_tools()).tools) == listed
