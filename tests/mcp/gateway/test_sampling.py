"""A server's requests for a model and for folders go through the gateway to the client that made the call only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from pydantic import FileUrl
from tests.bootstrap.mcp.asking_server import WRITE, AskingServer, Poet, form, question, roots, trusted
from tests.bootstrap.mcp.mcp_worlds import intact, opened
from tests.bootstrap.webhook_worlds import LOOPBACK, manifest_with, until
from tests.mcp.gateway.conftest import AGENT, APPROVER, ERAS, OTHER, text_of
from tests.world.effects.servers import http_response, serving_site

from demiurge import World
from demiurge.apps.demiurge import SAMPLING
from demiurge.bootstrap.gateway import Catalogs, GatewayWorld
from demiurge.errors import NotFound, UsageError
from demiurge.mcp import SamplingGrant
from demiurge.mcp.gateway.server import McpGateway
from demiurge.values.caller import Caller
from mcp import Client, MCPError

GRANT = SamplingGrant(tokens=1000)


class User:
    """A client's own model and folders. `asked`: what it was asked."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.asked: list[Any] = []
        self.refuses = refuses

    async def sample(self, context: Any, params: types.CreateMessageRequestParams) -> Any:
        self.asked.append(params)
        if self.refuses:
            return types.ErrorData(code=-1, message="No.")
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="mine"), model="own")

    async def list_roots(self, context: Any) -> Any:
        self.asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///home/ada"))])

    async def elicit(self, context: Any, params: Any) -> Any:
        self.asked.append(params.message)
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    def can(self, *, elicits: bool = False) -> dict[str, Any]:
        own = {"sampling_callback": self.sample, "list_roots_callback": self.list_roots}
        return {**own, "elicitation_callback": self.elicit} if elicits else own


def gateway_of(world: World, caller: Caller) -> McpGateway:
    own = GatewayWorld(world.acting_as(caller), Catalogs())

    async def key() -> bytes:
        return b"k" * 32

    return McpGateway(lambda _: own, key)


@asynccontextmanager
async def client_of(world: World, caller: Caller, mode: str, **options: Any) -> AsyncIterator[Client]:
    gateway = gateway_of(world, caller)
    async with Client(gateway.server, mode=mode, **options) as client:
        yield client
    await gateway.close()


@pytest.fixture(params=["legacy", "auto"])
def server_era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("mode", ERAS)
async def test_the_client_answers_with_its_own_model_and_folders(
    mode: str, server_era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, model, user = AskingServer([{"a": question("A rhyme", 5000)}, {"b": roots()}]), Poet("ours"), User()
    server.connect(monkeypatch, server_era)
    async with opened(tmp_path / "w", model=model) as world:
        await trusted(world, GRANT, roots=True)
        async with client_of(world, AGENT, mode, **user.can()) as client:  # the token may decide nothing
            result = await client.call_tool(WRITE, {})
        assert "mine (own)" in text_of(result)
        assert "roots ['file:///home/ada']" in text_of(result)
        assert model.requests == []
        assert [each if each == "roots" else each.max_tokens for each in user.asked] == [1000, "roots"]
        assert await world.backend.read.keys(SAMPLING) == []
        await intact(world)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_declared_nothing_leaves_it_to_the_world(
    mode: str, server_era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, model = AskingServer([{"a": question("A rhyme"), "b": roots()}]), Poet("ours")
    server.connect(monkeypatch, server_era)
    async with opened(tmp_path / "w", model=model) as world:
        await trusted(world, GRANT, roots=True)
        async with client_of(world, AGENT, mode) as client:
            result = await client.call_tool(WRITE, {})
        assert "ours (Poet)" in text_of(result)
        assert "roots []" in text_of(result)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_refuses_is_told_to_the_server(
    mode: str, server_era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, model, user = AskingServer([{"a": question("A rhyme")}]), Poet("ours"), User(refuses=True)
    server.connect(monkeypatch, server_era)
    async with opened(tmp_path / "w", model=model) as world:
        await trusted(world, GRANT)
        async with client_of(world, AGENT, mode, **user.can()) as client:
            if mode == "legacy":
                result = await client.call_tool(WRITE, {})
                assert "refused" in text_of(result)
            else:  # the client library gives up
                with pytest.raises(MCPError):
                    await client.call_tool(WRITE, {})
        assert model.requests == []


@pytest.mark.parametrize(("caller", "together"), [(APPROVER, True), (AGENT, False)])
async def test_a_form_is_asked_with_the_others_only_of_a_client_that_may_decide(
    caller: Caller, together: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, user = AskingServer([{"a": question("A rhyme"), "b": form(), "c": roots()}]), User()
    server.connect(monkeypatch, "auto")
    async with opened(tmp_path / "w", model=Poet("ours")) as world:
        await trusted(world, GRANT, roots=True)
        async with client_of(world, caller, "auto", **user.can(elicits=True)) as client:
            first = await client.session.call_tool(WRITE, {}, allow_input_required=True)
            assert isinstance(first, types.InputRequiredResult)
            assert set(first.input_requests or {}) == ({"a", "b", "c"} if together else {"a", "c"})
            if together:
                result = await client.call_tool(WRITE, {})
                assert "a=mine (own); b=accept {'name': 'Ada'}; c=roots ['file:///home/ada']" in text_of(result)
                return
            answers = {"a": await user.sample(None, question("").params), "c": await user.list_roots(None)}
            state = first.request_state
            second = await client.session.call_tool(
                WRITE, {}, input_responses=answers, request_state=state, allow_input_required=True
            )
            assert isinstance(second, types.InputRequiredResult)
            assert set(second.input_requests or {}) == {"b"}
            forged: dict[str, Any] = {"b": types.ElicitResult(action="accept", content={"name": "Eve"})}
            third = await client.session.call_tool(
                WRITE, {}, input_responses=forged, request_state=second.request_state, allow_input_required=True
            )
            assert isinstance(third, types.CallToolResult)
            assert third.structured_content is not None
            assert third.structured_content["status"] == "needs_answer"
            [waiting] = await world.approvals()
            await world.answer(waiting["id"], content={"name": "Ada"})
            await world.settle()
            result = await client.call_tool(WRITE, {})
            assert "a=mine (own); b=accept {'name': 'Ada'}; c=roots ['file:///home/ada']" in text_of(result)


async def test_nobody_answers_what_another_client_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, user = AskingServer([{"a": question("A rhyme")}]), User()
    server.connect(monkeypatch, "auto")
    async with opened(tmp_path / "w", model=Poet("ours")) as world:
        await trusted(world, GRANT)
        reply = {"a": await user.sample(None, question("").params)}
        async with client_of(world, AGENT, "auto", **user.can()) as client:
            first = await client.session.call_tool(WRITE, {}, allow_input_required=True)
            assert isinstance(first, types.InputRequiredResult)
            [waiting] = await world.approvals()
            assert waiting["input"]["questions"][0]["kind"] == "sampling"
            other = world.acting_as(OTHER).backend.run
            call_id = waiting["unit"].partition("/Calls@1/")[2]
            with pytest.raises(NotFound):
                await other.own_request(call_id)
            with pytest.raises(NotFound):
                await other.answer_own(waiting["id"], {"answers": {"a": {"action": "decline"}}})
            async with client_of(world, OTHER, "auto", **user.can()) as thief:
                with pytest.raises(MCPError):
                    await thief.session.call_tool(
                        WRITE, {}, input_responses=reply, request_state=first.request_state, allow_input_required=True
                    )
            with pytest.raises(UsageError):
                await world.acting_as(AGENT).answer(waiting["id"], content={"role": "assistant"})
            done = await client.session.call_tool(
                WRITE, {}, input_responses=reply, request_state=first.request_state, allow_input_required=True
            )
            assert isinstance(done, types.CallToolResult)
            assert "a=mine (own)" in text_of(done)


async def test_an_approval_is_not_the_askers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = AskingServer([{"b": form()}])
    server.connect(monkeypatch, "auto")
    async with opened(tmp_path / "w") as world:
        await trusted(world, GRANT)
        async with client_of(world, AGENT, "auto", **User().can()) as client:
            result = await client.call_tool(WRITE, {})
            assert result.structured_content is not None
            assert result.structured_content["status"] == "needs_answer"
        [waiting] = await world.approvals()
        agent = world.acting_as(AGENT).backend.run
        assert await agent.own_request(waiting["unit"].partition("/Calls@1/")[2]) is None
        with pytest.raises(NotFound):
            await agent.answer_own(waiting["id"], {"content": {"name": "Eve"}})


async def test_a_client_that_is_gone_finds_the_request_again_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, user, model = AskingServer([{"a": question("A rhyme")}]), User(), Poet("ours")
    server.connect(monkeypatch, "auto")
    async with opened(tmp_path / "w", model=model) as world:
        await trusted(world, GRANT)
        async with client_of(world, AGENT, "auto", **user.can()) as client:
            first = await client.session.call_tool(WRITE, {}, allow_input_required=True)
            assert isinstance(first, types.InputRequiredResult)
    async with opened(tmp_path / "w", model=model) as world:
        await world.settle()
        async with client_of(world, AGENT, "auto", **user.can()) as client:
            result = await asyncio.wait_for(client.call_tool(WRITE, {}), 20)
        assert "mine (own)" in text_of(result)
        assert model.requests == []
        assert server.calls == ["begun", "1:"]
        await intact(world)


async def test_a_webhook_hears_of_questions_to_people_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, user = AskingServer([{"a": question("A rhyme")}, {"b": form()}]), User()
    server.connect(monkeypatch, "auto")
    manifest = manifest_with(LOOPBACK, tmp_path / "manifest")
    async with serving_site({"/h": http_response(204)}) as there, opened(tmp_path / "w", manifest=manifest) as world:
        await trusted(world, GRANT)
        await world.webhooks.add(f"http://127.0.0.1:{there.port}/h")
        async with client_of(world, AGENT, "auto", **user.can()) as client:
            first = await client.session.call_tool(WRITE, {}, allow_input_required=True)
            assert isinstance(first, types.InputRequiredResult)
            await world.settle()
            await client.call_tool(WRITE, {})
        [waiting] = await world.approvals()
        await until(lambda: there.asked)
        await world.settle()
        assert [json.loads(each.body)["data"]["id"] for each in there.asked] == [waiting["id"]]
