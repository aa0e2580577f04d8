"""An open proposal, or its issue, whose text was erased: it is shown without the text, and is still decided on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.bootstrap.reviewed_worlds import approve, opened
from tests.registry.proposals import proposal_of

from demiurge import World
from demiurge.bootstrap.backend.review_views import ToolProposalView
from demiurge.errors import NotFound


async def erased_proposal(world: World) -> ToolProposalView:
    """Submits a proposal, erases its text, and returns the proposal as it was."""
    made = await world.prompt_tools.propose(proposal_of())
    await world.erase(made.digest, "It was asked for.")
    return made


async def test_an_erased_proposal_is_shown_without_its_text(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        made = await erased_proposal(world)
        shown = await world.prompt_tools.proposal(made.id)
        assert shown.body is None
        assert (shown.state, shown.digest, shown.name) == (made.state, made.digest, made.name)
        with pytest.raises(NotFound, match=r"text of the proposal .* was erased") as refused:
            await world.prompt_tools.proposal_diff(made.id)
        assert refused.value.code == "erased"


async def test_an_erased_proposal_is_rejected_withdrawn_or_returned(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        tools = world.prompt_tools
        made = await erased_proposal(world)
        assert (await tools.reject(made.id, made.digest, "Its text is gone.")).state == "rejected"
    async with opened(tmp_path / "v") as world:
        tools = world.prompt_tools
        made = await erased_proposal(world)
        assert (await tools.needs_changes(made.id, made.digest, "Its text is gone.")).state == "returned"
        assert (await tools.withdraw(made.id, made.digest)).state == "withdrawn"
        assert (await world.replay())["ok"]


async def test_an_erased_proposal_is_never_approved(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        tools = world.prompt_tools
        made = await tools.propose(proposal_of())
        await tools.skip_review(made.id, made.digest, "A test.")
        await world.erase(made.digest, "It was asked for.")
        with pytest.raises(NotFound) as refused:
            await tools.approve(made.id, made.digest, read=True)
        assert refused.value.code == "erased"
        shown = await tools.proposal(made.id)
        assert (shown.state, shown.version) == ("user_decision", None)
        assert [tool.locked for tool in await tools.catalog()] == [True] * 16
        assert (await tools.reject(made.id, made.digest, "Its text is gone.")).state == "rejected"


async def test_a_revision_brings_a_text_again(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        made = await erased_proposal(world)
        revised = await world.prompt_tools.propose(proposal_of(prompt="Quote one slow sentence."), made.id)
        assert revised.body is not None
        assert revised.body["prompt"] == "Quote one slow sentence."


async def test_a_rollback_to_a_version_whose_proposal_was_erased_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        made = await world.prompt_tools.propose(proposal_of())
        await approve(world, made.id)
        await world.erase(made.digest, "It was asked for.")
        with pytest.raises(NotFound, match="was erased") as refused:
            await world.prompt_tools.rollback("scene_pacer", 1, "The older text was clearer to read.")
        assert refused.value.code == "erased"


async def test_an_erased_issue_is_shown_without_its_text_and_is_still_decided_by(tmp_path: Path) -> None:
    async with opened(tmp_path / "w") as world:
        made = await world.prompt_tools.propose(proposal_of())
        await world.prompt_tools.skip_review(made.id, made.digest, "A test.")
        cell = await world.state("sys/Issue@1", made.decision_issue)
        assert cell is not None
        await world.erase(cell["body_ref"], "It was asked for.")
        assert (await world.issues.show(made.decision_issue)).body is None
        commented = await world.issues.comment(made.decision_issue, "Its text is gone.")
        assert [comment["body"] for comment in commented.comments] == ["Its text is gone."]
        decided = await world.issues.act(made.decision_issue, "reject", "Its text is gone.", made.digest)
        assert (decided.status, decided.body) == ("closed", None)
        assert (await world.prompt_tools.proposal(made.id)).state == "rejected"
