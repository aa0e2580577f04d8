"""The reviewer of a proposal as Chief of Staff, the ids that a prompt tool may have, and refusals as events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.reviewed_worlds import change_of, opened
from tests.registry.proposals import proposal_of

from demiurge import Tool, World
from demiurge.bootstrap.event_outcome import event_outcome
from demiurge.errors import DemiurgeError
from demiurge.registry.core_ids import CORE_IDS
from demiurge.values.caller import Caller

ANSWERS = {"sensible": "Yes.", "overlaps": "No.", "violates": "No.", "changes": "None."}
CHIEF = Caller("user:zoe", roles=("chief",))


async def refused(call: Any) -> tuple[str, str]:
    with pytest.raises(DemiurgeError) as found:
        await call
    return found.value.code, found.value.message


def read_file(path: str) -> str:
    """Reads a file of mine."""
    return path


def send_mail(to: str) -> str:
    """Sends a mail."""
    return to


async def test_a_user_acts_as_both_where_there_is_no_chief_and_the_record_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        tools = world.prompt_tools
        made = await tools.propose(proposal_of())
        assert made.chiefs == []
        skipped = await tools.skip_review(made.id, made.digest, "I am alone here.")
        assert skipped.review is not None
        assert skipped.review["kind"] == "user"
        decide = await world.issues.show(made.decision_issue)
        assert "This world has no Chief of Staff, so user acts as both Chief and user." in (decide.body or "")
        assert await world.issues.list(status="open") == []
        code, why = await refused(tools.approve(made.id, made.digest, read=False))
        assert (code, "Read the whole text" in why) == ("not_read", True)
        done = await tools.approve(made.id, made.digest, read=True)
        assert done.decision is not None
        assert done.decision["read"] is True
        document = await tools.version("scene_pacer", 1)
        assert (document["read"], document["review"]["kind"]) == (True, "user")
        assert (await world.replay(check=True))["ok"]


async def test_the_review_of_a_chief_with_a_token_cannot_be_skipped(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        tools = world.prompt_tools
        early = await tools.propose(proposal_of(id="early_tool", name="Early tool"))
        await tools.skip_review(early.id, early.digest, "Nobody else is here.")
        made = await tools.propose(proposal_of())
        token = (await world.tokens.add("user:zoe", ["chief"])).token
        assert (await tools.proposal(made.id)).chiefs == ["user:zoe"]
        code, why = await refused(tools.skip_review(made.id, made.digest, "No need."))
        assert (code, "user:zoe" in why) == ("chief_present", True)
        forged = {"proposal_id": made.id, "digest": made.digest, "reason": "No need.", "chiefs": []}
        for schema, value in (
            ("sys/ToolProposalSkip@1", forged),
            ("sys/ToolProposalEvent@1", {"$tag": "Skip", "$value": forged}),
        ):
            sent = await world.submit(schema, value)
            await world.settle()
            outcome = await event_outcome(world.backend, sent.unit, sent.seq)
            assert (outcome["state"], outcome["code"]) == ("refused", "chief_present")
        shown = await tools.proposal(early.id)
        assert shown.missing == ["The Chief of Staff has not reviewed this revision."]
        assert (await refused(tools.approve(early.id, early.digest, read=True)))[0] == "not_reviewed"
        chief = world.acting_as(CHIEF).prompt_tools
        after = await chief.review(made.id, made.digest, "approve", **ANSWERS)
        assert (after.state, after.missing) == ("user_decision", [])
        assert await world.issues.list(status="open", assignee="chief") == []
        assert (await tools.approve(made.id, made.digest, read=True)).state == "approved"
        await world.tokens.revoke(token.id)
        assert (await tools.approve(early.id, early.digest, read=True)).state == "approved"


async def test_an_event_that_only_the_world_itself_sends_is_refused_in_words(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        made = await world.prompt_tools.propose(proposal_of())
        published = {"proposal_id": made.id, "digest": made.digest, "version": 1, "code": None, "message": None}
        sent = await world.submit("sys/ToolProposalPublished@1", published)
        await world.settle()
        outcome = await event_outcome(world.backend, sent.unit, sent.seq)
        assert (outcome["state"], outcome["code"]) == ("refused", "origin_not_allowed")


@pytest.mark.parametrize("tool_id", ["send_mail", "sendmail", "mcp__time__convert_time", "workspace__read"])
async def test_a_prompt_tool_takes_no_id_of_a_tool_that_can_be_called(tmp_path: Path, tool_id: str) -> None:
    async with World.open(tmp_path / "w", tools=[send_mail], environment={"HOME": str(tmp_path)}) as world:
        code, why = await refused(world.prompt_tools.propose(proposal_of(id=tool_id)))
        assert code in ("id_is_callable", "invalid_proposal")
        assert "can be called" in why
        assert await world.prompt_tools.proposals() == []


async def test_a_tool_that_became_callable_after_its_proposal_stops_the_approval(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        made = await world.prompt_tools.propose(proposal_of(id="send_mail", name="Mail"))
        await world.prompt_tools.skip_review(made.id, made.digest, "I am alone here.")
    async with World.open(tmp_path / "w", tools=[send_mail], environment={"HOME": str(tmp_path)}) as world:
        code, _ = await refused(world.prompt_tools.approve(made.id, made.digest, read=True))
        assert code == "id_is_callable"


@pytest.mark.parametrize("name", ["line_editor", "read_file", "line-editor", "lineeditor"])
def test_a_callable_of_ones_own_takes_no_id_of_a_core_tool(tmp_path: Path, name: str) -> None:
    with pytest.raises(DemiurgeError, match="stands for the core tool"):
        World.open(tmp_path / "w", tools=[Tool.wrap(read_file, name=name)], environment={"HOME": str(tmp_path)})


async def test_a_tool_as_it_is_read_can_be_sent_and_a_change_names_its_version(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        tools = world.prompt_tools
        rest = {name: proposal_of()[name] for name in ("rationale", "examples", "testCases")}
        core = (await tools.show(CORE_IDS[0])).to_json()
        made = await tools.propose({**core, **rest, "id": "my_search", "name": "My search"})
        await tools.skip_review(made.id, made.digest, "I am alone here.")
        await tools.approve(made.id, made.digest, read=True)
        read = (await tools.show("my_search")).to_json()
        assert "usageNotes" in read
        change = {"id": "my_search", "proposalType": "modify", "prompt": "Search and quote.", **rest}
        for kind in ("modify", "delete"):
            code, why = await refused(tools.propose({**change, "proposalType": kind}))
            assert (code, "baseHash" in why) == ("invalid_proposal", True)
        second = await tools.propose({**read, **change})
        assert (second.base, second.target) == (read["digest"], "user")
        assert (await tools.propose({**change, "baseHash": read["digest"]})).body == second.body
        assert (await refused(tools.propose({**proposal_of(), "locked": False})))[0] == "invalid_proposal"
        copied = await tools.copy("line_editor", "line_editor_custom", "Our house style differs from the usual one.")
        assert (copied.state, copied.checks and copied.checks["passed"]) == ("chief_review", True)
        again = await tools.copy("my_search", "my_search_two", "A second one with other words is needed.")
        assert again.body is not None
        assert again.body["testCases"] == rest["testCases"]
        assert (await change_of(world, id="my_search"))["baseHash"] == read["digest"]
