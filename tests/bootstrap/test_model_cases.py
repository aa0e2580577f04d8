"""The test cases of a proposal on a model: what the model is told, what is recorded, and what an approval needs."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.bootstrap.asked_models import asking, opened_with
from tests.bootstrap.child_program import run_program
from tests.provider import Provider, serving
from tests.registry.proposals import proposal_of

from demiurge import World
from demiurge.bootstrap.backend.review_views import ToolProposalView
from demiurge.errors import DemiurgeError
from demiurge.values.caller import Caller

AGENT = Caller("agent:ada", roles=("agent",))
CHIEF = Caller("user:grace", roles=("chief",))
FILES = {"Story/one.md": "The hall is dark."}
CALL = '{"tool": "file_reader", "args": {"file_path": "Story/one.md"}, "nonce": "NONCE"}'
READS = {
    "id": "reads",
    "should": "pass",
    "given": {"message": "Read the first scene.", "files": FILES},
    "reply": CALL,
    "expect": {"tool": "file_reader"},
}
MANUAL = {"id": "by_eye", "should": "pass", "check": "Read the three quotes."}


@pytest.fixture
def server() -> Iterator[Provider]:
    with serving() as running:
        yield running


@pytest.fixture
async def world(tmp_path: Path, server: Provider) -> AsyncIterator[World]:
    async with opened_with(tmp_path / "world", server) as found:
        yield found


async def proposed(world: World, *more: dict[str, Any], **changed: Any) -> ToolProposalView:
    cases = [*proposal_of()["testCases"], *more]
    return await world.prompt_tools.propose(proposal_of(testCases=cases, **changed))


async def refused(expected: str, call: Any) -> str:
    with pytest.raises(DemiurgeError) as found:
        await call
    assert found.value.code == expected, found.value
    return found.value.message


def results(view: ToolProposalView) -> list[tuple[str, bool]]:
    return [(result["case"], result["right"]) for result in view.model_runs["cases"]["results"]]


async def is_whole(world: World) -> bool:
    return world.journal.verify().ok and bool((await world.replay(check=True))["ok"])


async def test_each_automatic_case_is_asked_and_checked_as_the_harness_does(world: World, server: Provider) -> None:
    def reply(messages: list[dict[str, Any]]) -> str:
        return CALL if "first scene" in messages[1]["content"] else "The second paragraph is slow."

    model, made = asking(server, reply), await proposed(world, READS, MANUAL)
    found = await world.prompt_tools.try_cases(made.id, made.digest)
    assert results(found) == [("quotes", False), ("no_quotes", False), ("reads", True)]
    run = found.model_runs["cases"]
    assert {name: run[name] for name in ("status", "cases", "requests", "tokens", "by", "digest", "cost_micros")} == {
        "status": "done",
        "cases": ["quotes", "no_quotes", "reads"],
        "requests": 3,
        "tokens": 2250,
        "by": "user",
        "digest": made.digest,
        "cost_micros": None,
    }
    assert run["results"][0]["broken"] == ['must_match: the reply does not match "[^"]+"']
    assert run["results"][2]["reply"] == CALL
    first, _, last = ([message["content"] for message in body["messages"]] for body in model.bodies)
    assert "Read the scene. Name up to three paragraphs" in first[0]
    assert first[1] == "Is the second scene slow?"
    assert "NONCE" not in first[0]
    assert "TOOL_NONCE: NONCE" in last[0]
    assert json.loads(last[1].splitlines()[-1]) == {"files": FILES}
    assert all("tools" not in body for body in model.bodies)
    assert await is_whole(world)
    assert len(model.bodies) == 3


async def test_no_approval_needs_the_cases_on_a_model(world: World, server: Provider) -> None:
    asking(server, lambda _: "")
    made = await proposed(world)
    found = await world.prompt_tools.try_cases(made.id, made.digest)
    assert results(found) == [("quotes", False), ("no_quotes", False)]
    assert found.model_runs["cases"]["results"][0]["broken"] == ["reply: the model said nothing"]
    await world.prompt_tools.skip_review(made.id, made.digest, "I have read it.")
    assert (await world.prompt_tools.approve(made.id, made.digest, read=True)).state == "approved"
    await refused("wrong_state", world.prompt_tools.try_cases(made.id, made.digest))


async def test_good_replies_on_a_model_approve_nothing(world: World, server: Provider) -> None:
    asking(server, lambda _: '"She waited."')
    made = await proposed(world)
    found = await world.acting_as(CHIEF).prompt_tools.try_cases(made.id, made.digest)
    assert results(found) == [("quotes", True), ("no_quotes", True)]
    assert (found.state, found.review) == ("chief_review", None)
    await refused("not_reviewed", world.prompt_tools.approve(made.id, made.digest, read=True))


async def test_an_agent_may_not_try_cases(world: World, server: Provider) -> None:
    model, made = asking(server), await proposed(world)
    await refused("role_missing", world.acting_as(AGENT).prompt_tools.try_cases(made.id, made.digest))
    other = "sha256:" + "0" * 64
    await refused("other_digest", world.prompt_tools.try_cases(made.id, other))
    assert model.bodies == []


@pytest.mark.parametrize(
    ("kind", "cases", "code"),
    [
        ("review", ["quotes"], "no_case"),
        ("cases", [], "no_case"),
        ("cases", ["x"] * 11, "no_case"),
        ("approve", [], "unknown_kind"),
    ],
)
async def test_a_run_names_cases_if_it_is_about_cases(
    world: World, server: Provider, kind: str, cases: list[str], code: str
) -> None:
    model, made = asking(server), await proposed(world)
    about = {"proposal_id": made.id, "digest": made.digest, "provider": "openai-chat", "model": "m"}
    await refused(code, world.backend.run.submit_review("sys/ModelRunAsk@1", {**about, "kind": kind, "cases": cases}))
    assert model.bodies == []


async def test_a_manual_case_and_none_are_not_tried(world: World, server: Provider) -> None:
    model, made = asking(server), await proposed(world, MANUAL)
    about = {"proposal_id": made.id, "digest": made.digest, "provider": "openai-chat", "model": "m", "kind": "cases"}
    for case in ("by_eye", "nothing"):
        await world.backend.run.submit_review("sys/ModelRunAsk@1", {**about, "cases": [case]})
        run = (await world.prompt_tools.proposal(made.id)).model_runs["cases"]
        assert (run["status"], run["code"]) == ("failed", "no_case")
    assert model.bodies == []


async def test_a_revision_ends_the_run_and_the_finished_cases_stay(world: World, server: Provider) -> None:
    asked, go_on = Event(), Event()

    def reply(_: list[dict[str, Any]]) -> str:
        asked.set()
        assert go_on.wait(60)
        return '"She waited."'

    model, made = asking(server, reply), await proposed(world)
    trying = asyncio.create_task(world.prompt_tools.try_cases(made.id, made.digest))
    assert await asyncio.to_thread(asked.wait, 60)
    going_on = (await world.prompt_tools.proposal(made.id)).model_runs["cases"]
    assert (going_on["status"], going_on["results"]) == ("running", [])
    await refused("busy", world.prompt_tools.ask_model(made.id, made.digest))
    await world.prompt_tools.propose(proposal_of(prompt="Another prompt of the tool."), revises=made.id)
    go_on.set()
    await refused("other_digest", trying)
    found = await world.prompt_tools.proposal(made.id)
    assert results(found) == [("quotes", True)]
    assert found.model_runs["cases"]["digest"] != found.digest
    assert len(model.bodies) == 1
    assert await is_whole(world)


async def test_a_budget_that_ends_between_two_cases_is_said(world: World, server: Provider) -> None:
    model, made = asking(server, lambda _: '"She waited."'), await proposed(world)
    for _ in range(59):
        await refused("bad_answer", world.prompt_tools.ask_model(made.id, made.digest))
    said = await refused("budget_exceeded", world.prompt_tools.try_cases(made.id, made.digest))
    assert said == "The budget for model runs on this proposal is used up: 60 requests were made."
    assert results(await world.prompt_tools.proposal(made.id)) == [("quotes", True)]
    assert len(model.bodies) == 60
    assert await is_whole(world)


@pytest.mark.parametrize("hit", range(2, 8))
async def test_a_killed_run_goes_on_and_counts_each_case_once(tmp_path: Path, server: Provider, hit: int) -> None:
    folder = tmp_path / "world"
    async with opened_with(folder, server) as world:
        made = await proposed(world)
    asking(server, lambda _: '"She waited."')
    faults = f"journal.before_commit=kill@{hit}"
    ended = await run_program("model_review_child", folder, server.url, made.id, "cases", faults=faults)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    async with opened_with(folder, server) as world:
        await world.settle()
        found = await world.prompt_tools.proposal(made.id)
        assert results(found) == [("quotes", True), ("no_quotes", True)]
        assert (found.model_runs["cases"]["status"], found.model_runs["cases"]["requests"]) == ("done", 2)
        assert await is_whole(world)
