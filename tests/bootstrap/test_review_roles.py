"""The review of prompt tools and the issues, for callers who may read no blob by its address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bootstrap.reviewed_worlds import approve, opened, propose

from demiurge import World
from demiurge.bootstrap.prompt_tools import PromptToolRegistry
from demiurge.errors import Conflict, DemiurgeError
from demiurge.values.caller import Caller

APPROVER = Caller("user:approver", roles=("approver",))
CHIEF = Caller("user:chief", roles=("chief",))
AGENT = Caller("agent:other", roles=("agent",))
VIEWER = Caller("user:viewer", roles=("viewer",))
ANSWERS = {"sensible": "Yes.", "overlaps": "No.", "violates": "No.", "changes": "None."}
ZERO = "sha256:" + "0" * 64
SECRET = b"The notes of another unit."


async def approved_twice(world: World) -> None:
    """Approves a tool and a change of it, and proposes another change."""
    await propose(world, "p1")
    await approve(world, "p1")
    live = (await world.prompt_tools.catalog())[-1]
    for name, prompt in (("p2", "Name one slow sentence."), ("p3", "Name two slow sentences.")):
        await propose(world, name, id=live.id, proposalType="modify", baseHash=live.digest, prompt=prompt)
        if name == "p2":
            await approve(world, name)


@pytest.mark.parametrize("caller", [APPROVER, CHIEF], ids=lambda caller: caller.actor)
async def test_an_approver_and_a_chief_read_versions_and_differences(tmp_path: Path, caller: Caller) -> None:
    async with opened(tmp_path / "w") as world:
        await approved_twice(world)
        tools, tool = world.acting_as(caller).prompt_tools, (await world.prompt_tools.catalog())[-1].id
        assert (await tools.version(tool, 2))["tool"]["prompt"] == "Name one slow sentence."
        assert [diff.field for diff in await tools.diff(tool, 1, 2)] == ["prompt"]
        assert [diff.field for diff in await tools.proposal_diff("p3")] == ["prompt"]


@pytest.mark.parametrize("caller", [APPROVER, CHIEF], ids=lambda caller: caller.actor)
async def test_an_approver_and_a_chief_open_issues_and_still_store_no_blob(tmp_path: Path, caller: Caller) -> None:
    async with opened(tmp_path / "w") as world:
        board = world.acting_as(caller).issues
        made = await board.open("Two endings", "The last chapter has two endings.")
        assert (made.body, made.opened_by) == ("The last chapter has two endings.", caller.actor)
        with pytest.raises(DemiurgeError) as refused:
            world.acting_as(caller).blobs.put(b"x")
        assert refused.value.code == "role_missing"


@pytest.mark.parametrize("schema", ["sys/IssueOpen@1", "sys/ToolProposalSubmit@1", "sys/ToolProposalRevise@1"])
async def test_no_address_takes_the_place_of_the_text_of_an_issue_or_a_proposal(tmp_path: Path, schema: str) -> None:
    """Else an approver would read any blob as the body of an issue."""
    async with opened(tmp_path / "w") as world:
        secret = world.blobs.put(SECRET)
        value: dict[str, Any] = {
            "issue": "issue-1",
            "proposal_id": "p1",
            "title": "T",
            "body_ref": secret,
            "assignee": "",
            "tags": [],
        }
        value |= {"priority": "normal", "status": "open", "opened_by": None}
        value |= {"actions": [], "proposal": None, "digest": None}
        run = world.acting_as(APPROVER).backend.run
        own = {name: given for name, given in value.items() if name != "body_ref"}
        for given, text, code in (
            (value, None, "body_ref_given"),
            (value, "x", "body_ref_given"),
            (own, None, "no_body"),
        ):
            with pytest.raises(DemiurgeError) as refused:
                await run.submit_review(schema, given, text)
            assert refused.value.code == code
        assert await world.issues.list() == []


async def test_an_event_that_has_no_text_takes_none(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        made = await world.issues.open("Two endings", "")
        comment = {"issue": made.id, "body": "x", "action": None, "by": None}
        with pytest.raises(DemiurgeError) as refused:
            await world.backend.run.submit_review("sys/IssueComment@1", comment, "A text.")
        assert refused.value.code == "body_given"
        assert (await world.issues.show(made.id)).comments == []


async def test_a_text_that_is_no_unicode_is_refused_with_a_sentence(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        with pytest.raises(DemiurgeError, match="text"):
            await world.issues.open("Two endings", "\ud800")
        assert await world.issues.list() == []


async def test_only_the_documents_of_approvals_are_read_by_their_address(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await approved_twice(world)
        secret, body = world.blobs.put(b'{"secret": 1}'), (await world.prompt_tools.proposal("p3")).digest
        read = world.acting_as(APPROVER).backend.read
        for ref in (secret, body, ZERO, "no address"):
            with pytest.raises(DemiurgeError) as refused:
                await read.approved_document(ref)
            assert refused.value.code == "not_found", ref
        [version, _] = await read.tool_versions()
        assert (await read.approved_document(version.snapshot))["digest"] == version.digest
        with pytest.raises(DemiurgeError) as refused:
            await world.acting_as(VIEWER).backend.read.approved_document(version.snapshot)
        assert refused.value.code == "role_missing"


async def test_a_proposal_that_changes_a_version_which_was_never_approved_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await propose(world, "p1", proposalType="modify", baseHash=ZERO)
        await world.settle()
        with pytest.raises(DemiurgeError, match="no approved version") as refused:
            await world.prompt_tools.proposal_diff("p1")
        assert refused.value.code == "not_found"


async def test_a_rollback_of_an_approver_is_refused_for_the_role(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await approved_twice(world)
        tool = (await world.prompt_tools.catalog())[-1].id
        with pytest.raises(DemiurgeError) as refused:
            await world.acting_as(APPROVER).prompt_tools.rollback(tool, 1, "The first text was better.")
        assert refused.value.code == "role_missing"
        back = await world.prompt_tools.rollback(tool, 1, "The first text was better.")
        assert back.body is not None
        assert (back.body["prompt"], back.body["rationale"]) == (
            (await world.prompt_tools.version(tool, 1))["tool"]["prompt"],
            "The first text was better.",
        )


Act = Callable[[PromptToolRegistry], Awaitable[object]]


@pytest.mark.parametrize(
    ("caller", "act"),
    [
        (APPROVER, lambda tools: tools.approve("p1", ZERO, read=True)),
        (AGENT, lambda tools: tools.reject("p1", ZERO, "No.")),
        (AGENT, lambda tools: tools.needs_changes("p1", ZERO, "No.")),
        (AGENT, lambda tools: tools.withdraw("p1", ZERO, "No.")),
        (AGENT, lambda tools: tools.review("p1", ZERO, "approve", **ANSWERS)),
        (CHIEF, lambda tools: tools.skip_review("p1", ZERO, "No.")),
        (AGENT, lambda tools: tools.record_verdict("p1", ZERO, "none", True, "Seen.")),
    ],
    ids=["approve", "reject", "needs changes", "withdraw", "review", "skip", "verdict"],
)
async def test_a_missing_role_is_said_before_a_wrong_digest(tmp_path: Path, caller: Caller, act: Act) -> None:
    async with opened(tmp_path / "w") as world:
        await propose(world, "p1")
        with pytest.raises(DemiurgeError) as refused:
            await act(world.acting_as(caller).prompt_tools)
        assert refused.value.code == "role_missing"


async def test_a_wrong_digest_is_answered_with_the_one_that_is_current(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        await propose(world, "p1")
        current = (await world.prompt_tools.proposal("p1")).digest
        with pytest.raises(Conflict) as refused:
            await world.prompt_tools.reject("p1", ZERO, "No.")
        assert (refused.value.code, refused.value.details) == ("other_digest", {"digest": current})
