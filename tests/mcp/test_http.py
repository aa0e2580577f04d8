"""Servers over HTTP that fail: each call gets an honest answer, and the memory and the secrets stay bounded."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
from tests.mcp.bad_http_server import ACT, BadHttpServer
from tests.mcp.sample_server import served_app

from demiurge.errors import Unavailable
from demiurge.mcp import Limits, McpClients, ServerSettings, ToolDefinition
from demiurge.tools import ToolContext, ToolEffect, ToolFailure, ToolResult
from demiurge.tools.capabilities import SecretName

PINNED = ToolDefinition.of_json(ACT)
ACTS, READS = ToolEffect.EXTERNAL_SIDE_EFFECT, ToolEffect.READ_ONLY


@asynccontextmanager
async def bad_server(behaviour: str, **more: Any) -> AsyncIterator[tuple[BadHttpServer, McpClients, ServerSettings]]:
    server = BadHttpServer(behaviour)
    clients = McpClients(**more.pop("clients", {}))
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(served_app(server.app))
        stack.push_async_callback(clients.close)
        yield server, clients, ServerSettings("bad", transport="http", url=url, **more)


async def code_of(clients: McpClients, settings: ServerSettings, effect: ToolEffect) -> str:
    try:
        result = await clients.call(settings, PINNED, {}, ToolContext(), effect)
    except ToolFailure as failure:
        return f"quotes {failure.message}" if "evil" in failure.model_message else failure.error_code.value
    assert isinstance(result, ToolResult)
    return "done" if result.success else "failed"


@pytest.mark.parametrize(
    ("behaviour", "if_it_acts", "if_it_reads", "sent"),
    [
        ("works", "done", "done", 1),
        ("refuses_calls", "unavailable", "unavailable", 0),
        ("forgets_session", "unavailable", "unavailable", 0),
        ("fails", "unknown_outcome", "unavailable", 1),
        ("gateway_timeout", "unknown_outcome", "unavailable", 1),
        ("no_answer", "unknown_outcome", "unavailable", 1),
        ("html", "unknown_outcome", "unavailable", 1),
        ("redirects", "unknown_outcome", "unavailable", 1),
        ("bomb", "unknown_outcome", "unavailable", 1),
        ("breaks_off", "unknown_outcome", "execution", 1),
        ("ends_the_stream_of_a_call", "unknown_outcome", "unavailable", 1),
        ("hundred_megabytes", "result_too_large", "result_too_large", 1),
        ("endless_event", "result_too_large", "result_too_large", 1),
        ("many_events", "done", "done", 1),
    ],
)
@pytest.mark.parametrize("effect", [ACTS, READS])
async def test_a_bad_answer_gets_an_honest_code(
    behaviour: str, if_it_acts: str, if_it_reads: str, sent: int, effect: ToolEffect
) -> None:
    async with bad_server(behaviour) as (server, clients, settings):
        assert await code_of(clients, settings, effect) == (if_it_acts if effect is ACTS else if_it_reads)
        assert server.acted == sent
        listing = await clients.list_tools(settings)  # a bad answer is not the end
        assert listing.find("act") == PINNED


async def test_a_server_that_goes_while_it_answers_may_have_acted(monkeypatch: pytest.MonkeyPatch) -> None:
    send = httpx2.AsyncClient.send

    async def refuse_to_go_on(client: httpx2.AsyncClient, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if "last-event-id" in request.headers:
            raise httpx2.ConnectError("nobody listens", request=request)
        return await send(client, request, **options)

    monkeypatch.setattr(httpx2.AsyncClient, "send", refuse_to_go_on)
    async with bad_server("ends_the_stream_of_a_call") as (server, clients, settings):
        assert await code_of(clients, settings, ACTS) == "unknown_outcome"
        assert server.acted == 1


async def test_a_forgotten_session_begins_again() -> None:
    async with bad_server("forgets_session") as (server, clients, settings):
        assert await code_of(clients, settings, ACTS) == "unavailable"
        server.behaviour = "works"
        assert await code_of(clients, settings, ACTS) == "done"
        assert server.methods.count("initialize") == 2


async def test_streams_that_end_at_once_are_not_asked_for_ever() -> None:
    async with bad_server("ends_streams", limits=Limits(timeout_s=1)) as (server, clients, settings):
        assert await code_of(clients, settings, ACTS) == "unknown_outcome"
        assert server.methods.count("GET") <= 60
        assert server.acted == 1


async def test_a_server_that_refuses_us_says_its_status() -> None:
    async with bad_server("refuses_all") as (_, clients, settings):
        with pytest.raises(Unavailable, match="refused the connection with the status 401"):
            await clients.list_tools(settings)


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as taken:  # bound, so that nobody else listens there
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"
        clients, settings = McpClients(), ServerSettings("gone", transport="http", url=url)
        with pytest.raises(Unavailable, match=r"can't be reached. Nothing listens at 127\.0\.0\.1:\d+\."):
            await clients.list_tools(settings)
        assert await code_of(clients, settings, ACTS) == "unavailable"
        await clients.close()


@pytest.mark.parametrize(
    ("scheme", "path", "says"),
    [
        ("http", "/other", "There is no MCP server at this address: it answered with the status 404."),
        ("https", "/mcp", "does not speak TLS, which an https address needs."),
    ],
)
async def test_a_wrong_address_is_told_apart(scheme: str, path: str, says: str) -> None:
    clients = McpClients()
    async with served_app(BadHttpServer("works").app) as url:
        wrong = httpx2.URL(url).copy_with(scheme=scheme, path=path)
        with pytest.raises(Unavailable, match=says):
            await clients.list_tools(ServerSettings("bad", transport="http", url=str(wrong)))
    await clients.close()


async def test_a_server_that_went_away_got_nothing() -> None:
    clients = McpClients()
    server = BadHttpServer("works")
    async with served_app(server.app) as url:
        settings = ServerSettings("bad", transport="http", url=url)
        assert await code_of(clients, settings, ACTS) == "done"
    assert await code_of(clients, settings, ACTS) == "unavailable"
    assert server.acted == 1
    await clients.close()


async def test_headers_and_authorization_go_with_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_TENANT", "t-1")

    class Auth(httpx2.Auth):
        def auth_flow(self, request: httpx2.Request) -> Any:
            request.headers["authorization"] = "Bearer canary-1"
            yield request

    async def auth_of(settings: ServerSettings) -> httpx2.Auth:
        assert settings.connection_id == "notes"
        return Auth()

    async def secret_of(name: SecretName) -> str:
        return f"value of {name.alias}@{name.version}"

    headers = {"X-Tenant": "${MCP_TENANT}", "X-Key": SecretName("notes", 3), "X-Both": "k ${secret:two}"}
    more = {"headers": headers, "connection_id": "notes", "clients": {"auth_of": auth_of, "secret_of": secret_of}}
    async with bad_server("works", **more) as (server, clients, settings):
        assert await code_of(clients, settings, ACTS) == "done"
        for seen in server.requests:
            assert seen["x-tenant"] == "t-1"
            assert seen["x-key"] == "value of notes@3"
            assert seen["x-both"] == "k value of two@1"
            assert seen["authorization"] == "Bearer canary-1"
            assert seen["accept-encoding"] == "identity"


@pytest.mark.parametrize("is_sent", [False, True])
async def test_an_authorization_that_fails_is_unavailable(is_sent: bool) -> None:
    class Auth(httpx2.Auth):
        fails = False

        def auth_flow(self, request: httpx2.Request) -> Any:
            if self.fails and not is_sent:
                raise RuntimeError("canary: no token")
            yield request
            if self.fails:
                raise RuntimeError("canary: no token")

    auth = Auth()
    async with bad_server("works", clients={"auth_of": lambda settings: auth}) as (server, clients, settings):
        await clients.list_tools(settings)
        auth.fails = True
        assert await code_of(clients, settings, ACTS) == ("unknown_outcome" if is_sent else "unavailable")
        assert server.acted == int(is_sent)
