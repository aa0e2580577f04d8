"""The two flows of the review in a browser, each person with a token of their own: an agent proposes, and a user
changes a tool."""

from __future__ import annotations

from playwright.async_api import Page, expect
from tests.bootstrap.test_prompt_catalog import catalog_of, prompts
from tests.server.conftest import Served
from tests.shell.conftest import Screen
from tests.shell.review_steps import (
    WITH_MANUAL,
    answer_the_questions,
    decision_of,
    open_proposal,
    propose,
    read_to_the_end,
)
from tests.shell.steps import ask_for_order, card_of, say

from demiurge.registry.catalog_text import entry_ids

NEW = "scene_pacer"
WHEN = "When a scene feels slow or rushed."


async def review(page: Page, recommendation: str) -> None:
    await answer_the_questions(page)
    await page.get_by_label(recommendation).check()
    await page.get_by_role("button", name="Send the review").click()
    await expect(page.locator(".outcome").filter(has_text="Recommends to")).to_be_visible()


async def in_catalog(served: Served) -> set[str]:
    user = await served.client()
    return {tool["id"] for tool in (await user.get("/api/prompt-tools")).json()["tools"]}


async def test_an_agent_proposes_the_chief_reviews_and_the_user_approves(screen: Screen) -> None:
    """The tool is in the prompt of the next message, and in none of a turn that began before the approval."""
    served = screen.served
    provider = served.provider
    await ask_for_order(served)
    made = await propose(served, testCases=WITH_MANUAL)
    author = await open_proposal(screen, made["id"], "agent")
    await expect(author.get_by_text("Only a user approves or rejects.")).to_be_visible()

    chief = await screen.page("/chats", role="chief")
    badge = chief.get_by_role("link", name="Prompt Tools").locator(".count")
    await expect(badge).to_contain_text("1")
    await chief.get_by_role("link", name="Prompt Tools").click()
    await chief.get_by_role("link", name="Proposals").click()
    await chief.get_by_role("region", name="Waits for you").get_by_role("link").click()
    await review(chief, "approve it")
    await expect(decision_of(chief).get_by_role("button", name="Approve")).to_have_count(0)
    await expect(badge).to_have_count(0)
    await expect(author.get_by_role("status").filter(has_text="waits for a user")).to_be_visible()

    user = await open_proposal(screen, made["id"])
    await expect(user.get_by_text("It is clear.")).to_be_visible()
    approve = decision_of(user).get_by_role("button", name="Approve")
    await read_to_the_end(user)
    await expect(decision_of(user)).to_contain_text("Nobody has recorded a verdict on the test case by_eye.")
    await expect(approve).to_be_disabled()
    await user.get_by_label("Note: what you looked at").fill("Three quotes, all in the scene.")
    await user.get_by_role("button", name="It passes").click()
    await expect(user.locator("[data-case=by_eye] .outcome")).to_contain_text("Passed by user:user")
    assert NEW not in await in_catalog(served)
    await decision_of(user).get_by_label("Reason").fill("It helps.")
    await approve.click()
    await expect(decision_of(user)).to_contain_text("Approved by you")
    await expect(decision_of(user)).to_contain_text("in the catalog as version 1")
    await expect(decision_of(author)).to_contain_text("Approved by user:user")
    await expect(decision_of(author)).to_contain_text("It helps.")
    assert NEW in await in_catalog(served)

    await user.goto(f"{served.base}/chats/c1")
    await card_of(user).get_by_role("button", name="Approve this call").click()
    await expect(user.locator(".markdown")).to_have_text("Ordered.")
    seen = [*provider.seen]
    provider.say(provider.answer(provider.text("The second scene is slow.")))
    await say(user, "Is a scene slow?")
    await expect(user.get_by_text("The second scene is slow.")).to_be_visible()
    begun, went_on, later = (catalog_of(request) for request in (*seen, *provider.seen))
    assert [NEW in entry_ids(each) for each in (begun, went_on, later)] == [False, False, True]
    assert [WHEN in each for each in (begun, went_on, later)] == [False, False, True]
    recorded = [prompt[1]["content"] for prompt in prompts(served.world, "c1")]
    assert recorded == [begun, went_on, later]
    assert (await served.world.replay(check=True))["ok"]
