"""Recorded worlds with reviewed prompt tools, issues and catalogs open, replay, go on, and take decisions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.provider import Provider
from tests.recorded.record import CHAT
from tests.recorded.unpacking import Recording, agrees, differences

from demiurge import World
from demiurge.bootstrap.backend.review_views import ToolProposalView
from demiurge.errors import Conflict

RECORDED = "reviews"
WHY = "It holds up."


def opened(recording: Recording, name: str) -> World:
    """A recorded world under the default policy of the tools that it was recorded with."""
    return World.open(recording.world(name), recording.module("desk_tools").TOOLS, create=False)


async def proposal_for(world: World, tool: str, state: str) -> ToolProposalView:
    """Returns the one proposal for a tool that is in a state."""
    [found] = await world.prompt_tools.proposals(state=state, tool=tool)
    return found


async def catalogs(world: World, chat: str) -> list[dict[str, str]]:
    """Returns the prompt tools of the catalog of each message of a chat, by id with their digests, without core tools;
    of a message without a catalog an empty one."""
    core = {tool.id for tool in await world.prompt_tools.catalog() if tool.locked}
    said = [record.body["value"] for record in world.journal.read(f"{CHAT}/{chat}") if record.kind == "event"]
    refs = [value["$value"]["catalog_ref"] for value in said if value.get("$tag") == "UserMessage"]
    found = [json.loads(world.blobs.get(ref))["prompt_tools"] if ref is not None else {} for ref in refs]
    return [{name: digest for name, digest in one.items() if name not in core} for one in found]


@pytest.mark.parametrize("name", ["desk", "fork"])
def test_a_world_with_reviews_verifies_and_replays_to_the_states_that_it_had(
    recording: Recording, demiurge: Any, name: str
) -> None:
    assert differences(recording, demiurge, name, recording.facts["reviews"][name]) == []


def test_approved_tools_and_decisions_are_shown_as_they_were(recording: Recording, demiurge: Any) -> None:
    facts = recording.facts
    recording.module("desk_tools")
    tools = [tool for tool in facts["catalog"]["tools"] if tool["kind"] == "prompt" and not tool["locked"]]
    live = [tool for tool in demiurge("desk", "tools", "ls")["tools"] if tool["kind"] == "prompt"]
    assert agrees(tools, [tool for tool in live if not tool["locked"]])
    assert agrees(facts["proposals"], demiurge("desk", "tools", "proposals")["proposals"])
    assert agrees(facts["history"], demiurge("desk", "tools", "history", "scene_pacer"))
    assert agrees(facts["issues"], demiurge("desk", "issues", "ls"))


async def test_the_claims_of_recorded_answers_are_judged_as_they_were(recording: Recording) -> None:
    async with opened(recording, "desk") as world:
        found = await world.chat("cited").claims()
        assert agrees(recording.facts["claims"], [reply.to_json() for reply in found])
        assert [reply.ok for reply in found] == [True, True, False]


@pytest.mark.parametrize("name", ["desk", "fork"])
async def test_each_recorded_turn_keeps_the_catalog_that_it_had(recording: Recording, name: str) -> None:
    versions = {one["version"]: one["digest"] for one in recording.facts["history"]["versions"]}
    async with opened(recording, name) as world:
        assert await catalogs(world, "core") == [{}]
        assert await catalogs(world, "bare") == [{}]
        first, second = await catalogs(world, "paced")
        assert first == {"scene_pacer": versions[1]}
        assert second["scene_pacer"] == versions[2]
        assert sorted(second) == ["our_style", "scene_pacer"]


@pytest.mark.parametrize("name", ["desk", "fork"])
async def test_an_open_proposal_is_approved_and_is_in_the_next_turn(
    recording: Recording, provider: Provider, name: str
) -> None:
    async with opened(recording, name) as world:
        reviewed = await proposal_for(world, "gate_keeper", "user_decision")
        assert (await world.prompt_tools.approve(reviewed.id, reviewed.digest, read=True)).state == "approved"
        back = await proposal_for(world, "scene_pacer", "chief_review")
        await world.prompt_tools.skip_review(back.id, back.digest, WHY)
        await world.prompt_tools.record_verdict(back.id, back.digest, "by_eye", True, WHY)
        assert (await world.prompt_tools.approve(back.id, back.digest, read=True)).state == "approved"
        newest, *earlier = await world.prompt_tools.history("scene_pacer")
        assert (newest.version, newest.digest) == (3, earlier[-1].digest)
        assert (await world.chat("paced").send("And now?")).text == "Still here."
        *_, last = await catalogs(world, "paced")
        assert sorted(last) == ["gate_keeper", "our_style", "scene_pacer"]
        assert last["scene_pacer"] == newest.digest
        assert "gate_keeper" in str(provider.seen[-1])
        assert (await world.replay())["ok"]


async def test_a_closed_proposal_stays_closed_and_an_open_issue_goes_on(recording: Recording) -> None:
    async with opened(recording, "desk") as world:
        for tool, state in (("scene_judge", "rejected"), ("scene_counter", "withdrawn")):
            closed = await proposal_for(world, tool, state)
            with pytest.raises(Conflict):
                await world.prompt_tools.approve(closed.id, closed.digest, read=True)
        [issue] = [found for found in await world.issues.list(status="open") if found.title == "Two endings"]
        await world.issues.comment(issue.id, "Both.")
        shown = await world.issues.show(issue.id)
        assert [comment["body"] for comment in shown.comments] == ["The first.", "Or the second.", "Both."]
        assert (await world.replay())["ok"]
