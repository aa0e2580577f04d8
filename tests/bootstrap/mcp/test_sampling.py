"""A server asks for a model's answer during a call: under a grant, in a unit of its own, and not otherwise."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.mcp.asking_server import WRITE, AskingServer, Poet, form, question, roots, trusted
from tests.bootstrap.mcp.mcp_worlds import intact, opened

from demiurge.apps.demiurge import SAMPLING
from demiurge.errors import Unavailable
from demiurge.mcp import SamplingGrant
from demiurge.world.host import units

GRANT = SamplingGrant(tokens=1000, requests=2)


@pytest.fixture(params=["legacy", "auto"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_the_model_of_the_world_answers_without_context_and_tools(
    era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, model = AskingServer([{"rhyme": question("A rhyme on bolt", system_prompt="Be brief.")}]), Poet("jolt")
    server.connect(monkeypatch, era)
    async with opened(tmp_path / "w", model=model) as world:
        await trusted(world, GRANT)
        done = await world.call(WRITE, {}, "c")
        assert (done.status, done.ok) == ("done", True)
        assert "jolt (Poet)" in done.content
        [request] = model.requests
        assert model.texts() == ["Be brief.", "A rhyme on bolt"]
        assert (request.max_tokens, request.specs) == (50, ())
        [key] = await world.backend.read.keys(SAMPLING)
        asked = next(record for record in world.journal.read() if record.kind == "intent").body["id"].hex()
        assert key == f"{asked}-1"
        state = await world.backend.read.state(SAMPLING, key)
        assert state is not None
        assert (state["tool"], state["outcome"]["tokens"]) == (WRITE, 10)
        assert await world.approvals() == []
        await intact(world)


async def test_without_a_grant_nothing_is_asked_and_the_ability_is_not_declared(
    era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, model = AskingServer([{"rhyme": question("A rhyme")}]), Poet("no")
    server.connect(monkeypatch, era)
    async with opened(tmp_path / "w", model=model) as world:
        await trusted(world)
        done = await world.call(WRITE, {}, "c")
        assert model.requests == []
        assert server.offered[0] is not None
        assert (server.offered[0].sampling, server.offered[0].roots) == (None, None)
        assert ("A model is not offered to this server." in done.content) or "error" in done.content
        assert await world.backend.read.keys(SAMPLING) == []


@pytest.mark.parametrize("rounds", [[{"a": question("1")}, {"b": question("2")}, {"c": question("3")}]])
async def test_a_server_that_asks_on_is_refused_when_its_requests_are_used_up(
    rounds: Any, era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, model = AskingServer(rounds), Poet("one", "two", "three")
    server.connect(monkeypatch, era)
    async with opened(tmp_path / "w", model=model) as world:
        await trusted(world, GRANT)
        done = await world.call(WRITE, {}, "c")
        assert len(model.requests) == 2
        assert "used up" in done.content
        again = await world.call(WRITE, {}, "d")
        assert len(model.requests) == 4  # the grant is for each call
        assert "used up" in again.content
        await intact(world)


@pytest.mark.parametrize(
    ("asked", "tokens", "sent"),
    [
        (question("x" * 8000), 10, []),  # more than the grant
        (question("A rhyme", 5000), 10, [998]),  # an answer of all that is left
        (question("A rhyme", 0), 10, []),
        (question("A rhyme", tools=[]), 10, [50]),
        (question("A rhyme", tool_choice={"mode": "auto"}), 10, []),
    ],
)
async def test_a_request_beyond_the_grant_reaches_no_model(
    asked: Any, tokens: int, sent: list[int], era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, model = AskingServer([{"rhyme": asked}]), Poet("jolt", tokens=tokens)
    server.connect(monkeypatch, era)
    async with opened(tmp_path / "w", model=model) as world:
        await trusted(world, GRANT)
        done = await world.call(WRITE, {}, "c")
        assert [request.max_tokens for request in model.requests] == sent
        assert ("jolt" in done.content) == bool(sent)


async def test_tokens_of_earlier_requests_count(era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, model = AskingServer([{"a": question("1")}, {"b": question("2")}]), Poet("one", tokens=995)
    server.connect(monkeypatch, era)
    async with opened(tmp_path / "w", model=model) as world:
        await trusted(world, GRANT)
        await world.call(WRITE, {}, "c")
        assert [request.max_tokens for request in model.requests] == [50, 4]


async def test_a_server_is_told_that_a_model_failed_and_not_why(
    era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(Poet):
        async def generate(self, request: Any, *, on_event: Any = None) -> Any:
            raise Unavailable("The poet of the organization org-7 is asleep.", code="asleep")

    server = AskingServer([{"rhyme": question("A rhyme")}])
    server.connect(monkeypatch, era)
    async with opened(tmp_path / "w", model=Silent("")) as world:
        await trusted(world, GRANT)
        done = await world.call(WRITE, {}, "c")
        assert "The model gave no answer." in done.content
        assert "org-7" not in done.content
        [key] = await world.backend.read.keys(SAMPLING)
        assert "org-7" in str(await world.backend.read.state(SAMPLING, key))
        await intact(world)


async def test_a_request_without_a_client_has_no_folders(
    era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = AskingServer([{"where": roots()}])
    server.connect(monkeypatch, era)
    async with opened(tmp_path / "w") as world:
        await trusted(world, roots=True)
        assert "roots []" in (await world.call(WRITE, {}, "c")).content


async def test_a_person_is_asked_for_the_form_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, model = AskingServer([{"rhyme": question("A rhyme"), "who": form(), "where": roots()}]), Poet("jolt")
    server.connect(monkeypatch, "auto")
    async with opened(tmp_path / "w", model=model) as world:
        await trusted(world, GRANT, roots=True)
        await world.call(WRITE, {}, "c")
        [waiting] = await world.approvals()
        assert [each["key"] for each in waiting["input"]["questions"]] == ["who"]
    async with opened(tmp_path / "w", model=model) as world:  # in another process
        await world.answer(waiting["id"], content={"name": "Ada"})
        await world.settle()
        done = await world.call(WRITE, {}, "c")
        assert "rhyme=jolt (Poet); where=roots []; who=accept {'name': 'Ada'}" in done.content
        assert len(model.requests) == 1
        await intact(world)


async def test_a_request_after_its_call_reaches_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, model = AskingServer([{"a": question("1")}, {"b": question("2")}], at_once=True), Poet("late")
    server.connect(monkeypatch, "legacy")
    async with opened(tmp_path / "w", model=model) as world:
        await trusted(world, SamplingGrant(tokens=1000, requests=1))
        done = await world.call(WRITE, {}, "c")
        assert "not waited; not waited" in done.content
        await world.settle()
        assert len(model.requests) <= 1
        await intact(world)


async def test_a_call_of_a_chat_is_answered_by_the_model_of_the_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = AskingServer([{"rhyme": question("A rhyme on bolt")}])
    server.connect(monkeypatch, "auto")

    class Caller(Poet):
        async def generate(self, request: Any, *, on_event: Any = None) -> Any:
            from demiurge.wire.items import Completion, ToolCall

            self.requests.append(request)
            if len(self.requests) == 1:
                call = ToolCall("c1", WRITE, "{}")
                return Completion("", (call,), "tool_calls", None, (call,))
            return await Poet("jolt").generate(request)

    model = Caller()
    async with opened(tmp_path / "w", model=model) as world:
        await trusted(world, GRANT)
        reply = await world.chat("shop").send("A secret word, and a rhyme")
        assert (reply.status, reply.text) == ("done", "jolt")
        assert model.texts(1) == ["A rhyme on bolt"]
        tree = await world.chat("shop").trace()
        assert any(node["unit"].startswith("demiurge/Sampling@1/") for node in tree.nodes)
        await intact(world)


@pytest.mark.parametrize(("reads", "code"), [(True, None), (False, "unknown_outcome")])
async def test_a_process_that_ends_while_the_model_answers_gives_no_second_budget(
    reads: bool, code: str | None, era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, began = AskingServer([{"rhyme": question("A rhyme on bolt")}], reads=reads), asyncio.Event()
    server.connect(monkeypatch, era)
    monkeypatch.setattr(units, "GRACE_S", 0.05)

    class Hanging(Poet):
        async def generate(self, request: Any, *, on_event: Any = None) -> Any:
            began.set()
            await asyncio.Event().wait()

    async with opened(tmp_path / "w", model=Hanging()) as world:
        await trusted(world, SamplingGrant(tokens=1000, requests=1))
        calling = asyncio.create_task(world.call(WRITE, {}, "c"))
        await began.wait()
    await asyncio.gather(calling, return_exceptions=True)
    model = Poet("jolt")
    async with opened(tmp_path / "w", model=model) as world:
        await world.settle()
        done = await world.call(WRITE, {}, "c")
        assert done.error_code == code
        assert ("jolt" in done.content) == reads
        assert len(await world.backend.read.keys(SAMPLING)) == 1
        assert len(model.requests) == 1  # the same request, tried again
        await intact(world)
