"""The pages of an open proposal and of its issue whose text was erased."""

from __future__ import annotations

import pytest
from playwright.async_api import expect
from tests.registry.proposals import proposal_of
from tests.server.review_steps import approve
from tests.shell.conftest import Screen
from tests.shell.review_steps import decision_of, propose, reviewed, state_of
from tests.shell.test_propose_form import fill, sent


@pytest.mark.parametrize("act", ["Reject", "Withdraw it for good"])
async def test_the_page_says_that_the_text_was_erased_and_offers_a_rejection_or_withdrawal(
    screen: Screen, act: str
) -> None:
    made = await reviewed(screen.served)
    await screen.served.world.erase(made["digest"], "It was asked for.")
    page = await screen.page(f"/prompt-tools/proposals/{made['id']}")
    await expect(page.get_by_text("Erased: the text of this proposal is gone for good.")).to_be_visible()
    decision = decision_of(page)
    await expect(decision).to_contain_text("Its text was erased, so it cannot be approved.")
    await expect(decision.get_by_role("button", name="Approve")).to_be_disabled()
    if act == "Reject":
        await decision.get_by_label("Reason").fill("Its text is gone.")
    else:
        await decision.get_by_text("Withdraw this proposal").click()
    await decision.get_by_role("button", name=act).click()
    await expect(decision).to_contain_text("Rejected by you" if act == "Reject" else "Withdrawn by you")
    assert await state_of(screen.served, made["id"]) == ("rejected" if act == "Reject" else "withdrawn")


async def test_a_revision_is_written_anew(screen: Screen) -> None:
    made = await propose(screen.served)
    await screen.served.world.erase(made["digest"], "It was asked for.")
    page = await screen.page(f"/prompt-tools/proposals/{made['id']}")
    await page.get_by_role("link", name="Revise this proposal").click()
    await expect(page.get_by_text("The text of this proposal was erased: write it anew.")).to_be_visible()
    await expect(page.get_by_label("Id", exact=True)).to_have_value("scene_pacer")
    await expect(page.get_by_label("Prompt", exact=True)).to_have_value("")
    given = proposal_of(prompt="Quote one slow sentence of the scene.")
    await fill(page, given, but=("id",))
    await page.get_by_role("button", name="Send the revision").click()
    await expect(page.get_by_role("region", name="The tool as it is proposed")).to_contain_text(given["prompt"])
    assert (await sent(screen, page))["revision"] == 2


async def test_a_change_of_a_tool_whose_proposal_was_erased_begins_without_examples(screen: Screen) -> None:
    user = await screen.served.client()
    await approve(user)
    [row] = (await user.get("/api/proposals")).json()["proposals"]
    await screen.served.world.erase(row["digest"], "It was asked for.")
    page = await screen.page("/prompt-tools/propose/change/scene_pacer")
    await expect(page.get_by_text("cannot be read: write new ones. Their text was erased.")).to_be_visible()
    await expect(page.get_by_label("Goals", exact=True)).to_have_value(proposal_of()["goals"])


async def test_an_issue_whose_text_was_erased_says_so_and_a_rejection_works(screen: Screen) -> None:
    made = await reviewed(screen.served)
    cell = await screen.served.world.state("sys/Issue@1", made["decision_issue"])
    assert cell is not None
    await screen.served.world.erase(cell["body_ref"], "It was asked for.")
    page = await screen.page(f"/prompt-tools/issues/{made['decision_issue']}")
    await expect(page.get_by_text("The text of this issue was erased.")).to_be_visible()
    await expect(page.get_by_text("Its text was erased: approve on the page of the proposal.")).to_be_visible()
    await expect(page.get_by_role("button", name="Approve")).to_be_disabled()
    await page.get_by_label("Reason").fill("Its text is gone.")
    await page.get_by_role("button", name="Reject").click()
    await expect(page.get_by_role("status").filter(has_text="closed")).to_be_visible()
    assert await state_of(screen.served, made["id"]) == "rejected"
