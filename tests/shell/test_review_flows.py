"""The two flows of the review in a browser, each person with a token of their own: an agent proposes, and a user
changes a tool."""

from __future__ import annotations

from playwright.async_api import Page, expect
from tests.bootstrap.test_prompt_catalog import catalog_of, prompts
from tests.registry.proposals import proposal_of
from tests.server.conftest import Served
from tests.server.review_steps import approve
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
    approving = decision_of(user).get_by_role("button", name="Approve")
    await read_to_the_end(user)
    await expect(decision_of(user)).to_contain_text("Nobody has recorded a verdict on the test case by_eye.")
    await expect(approving).to_be_disabled()
    await user.get_by_label("Note: what you looked at").fill("Three quotes, all in the scene.")
    await user.get_by_role("button", name="It passes").click()
    await expect(user.locator("[data-case=by_eye] .outcome")).to_contain_text("Passed by user:user")
    assert NEW not in await in_catalog(served)
    await decision_of(user).get_by_label("Reason").fill("It helps.")
    await approving.click()
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
    assert (begun, went_on) == ("", "")  # the world had no prompt tool of its own
    assert prompts(served.world, "c1")[-1][1]["content"] == later
    assert (await served.world.replay(check=True))["ok"]


async def test_a_user_changes_a_tool_the_chief_sends_it_back_and_the_revision_is_approved(screen: Screen) -> None:
    served = screen.served
    client = await served.client()
    await approve(client)
    user = await screen.page(f"/prompt-tools/tools/{NEW}")
    await propose_change(user, "Read the scene. Name what is slow, each with a quote.", "Three was never enough.")
    proposal_id = user.url.rsplit("/", 1)[1]
    assert (await client.get(f"/api/prompt-tools/{NEW}")).json()["version"] == 1

    chief = await screen.page("/prompt-tools/issues", role="chief")
    await chief.get_by_role("link", name="[Tool Proposal] Scene pacer").first.click()
    await chief.get_by_role("link", name="Open the proposal").click()
    await expect(chief.get_by_role("region", name="What changes").locator(".removed")).to_contain_text("up to three")
    await decision_of(chief).get_by_label("Reason").fill("Say how many paragraphs at most.")
    await decision_of(chief).get_by_role("button", name="Needs changes").click()
    await expect(chief.get_by_role("status").filter(has_text="returned to its author")).to_be_visible()

    await expect(decision_of(user)).to_contain_text("Returned by user:chief")
    await expect(decision_of(user)).to_contain_text("Say how many paragraphs at most.")
    await expect(decision_of(user).get_by_role("button", name="Approve")).to_have_count(0)
    await decision_of(user).get_by_role("link", name="Revise this proposal").click()
    text = "Read the scene. Name at most nine paragraphs that are slow, each with a quote."
    await user.get_by_label("Prompt", exact=True).fill(text)
    await user.get_by_role("button", name="Send the revision").click()
    await expect(user.get_by_text("revision 2")).to_be_visible()
    assert user.url.endswith(proposal_id)
    await expect(chief.get_by_role("alert")).to_contain_text("what you see now is revision 2")
    await chief.get_by_role("button", name="Read revision 2").click()
    await review(chief, "approve it")

    await read_to_the_end(user)
    await decision_of(user).get_by_role("button", name="Approve").click()
    await expect(decision_of(user)).to_contain_text("in the catalog as version 2")
    live = (await client.get(f"/api/prompt-tools/{NEW}")).json()
    assert (live["version"], live["prompt"], live["proposal"]) == (2, text, proposal_id)
    await chief.goto(f"{served.base}/prompt-tools/issues?tag=proposal%3A{proposal_id}")
    await expect(chief.locator("main li .state")).to_have_text(["closed", "closed"])
    await chief.get_by_role("link", name="[Tool Proposal] Scene pacer").last.click()
    await expect(chief.locator(".comment").filter(has_text="Say how many paragraphs at most.")).to_be_visible()


async def test_a_change_that_is_rejected_leaves_the_live_tool(screen: Screen) -> None:
    served = screen.served
    client = await served.client()
    await approve(client)
    user = await screen.page(f"/prompt-tools/tools/{NEW}")
    await propose_change(user, "Say that every scene is perfect.", "Authors like to be praised.")
    chief = await screen.page(user.url.removeprefix(served.base), role="chief")
    await review(chief, "reject it")
    await expect(user.get_by_text("Recommends to reject it")).to_be_visible()
    await decision_of(user).get_by_label("Reason").fill("Praise is no check.")
    await decision_of(user).get_by_role("button", name="Reject").click()
    await expect(decision_of(chief)).to_contain_text("Rejected by user:user")
    await expect(decision_of(chief)).to_contain_text("Praise is no check.")
    await user.reload()
    await expect(decision_of(user)).to_contain_text("Rejected by you")
    await expect(decision_of(user).get_by_role("button")).to_have_count(0)
    live = (await client.get(f"/api/prompt-tools/{NEW}")).json()
    assert (live["version"], "perfect" in live["prompt"]) == (1, False)


async def test_a_core_tool_is_locked_for_every_role(screen: Screen) -> None:
    served = screen.served
    before = (await (await served.client()).get("/api/prompt-tools/line_editor")).json()
    for role in ("agent", "chief", "user"):
        page = await screen.page("/prompt-tools/tools/line_editor", role=role)
        await expect(page.get_by_text("Locked (core)").first).to_be_visible()
        for name in ("Propose a change", "Propose to delete"):
            await expect(page.get_by_role("button", name=name)).to_be_disabled()
        client = await served.client(role)
        answer = await client.post("/api/proposals", json=proposal_of(id="Line-Editor", proposalType="modify"))
        assert (answer.status_code, answer.json()["code"]) == (403, "core_tool_locked"), role
    listed = await screen.page("/prompt-tools/proposals")
    await expect(listed.locator(".empty")).to_have_text("Nothing is proposed.")
    assert (await (await served.client()).get("/api/prompt-tools/line_editor")).json() == before


async def propose_change(page: Page, prompt: str, rationale: str) -> None:
    """Changes the tool whose page is open, in the form; the page is then that of the proposal."""
    await page.get_by_role("button", name="Propose a change").click()
    await page.get_by_label("Prompt", exact=True).fill(prompt)
    await page.get_by_label("Rationale").fill(rationale)
    await page.get_by_role("button", name="Propose this change").click()
    await expect(page.get_by_role("status").filter(has_text="waits for the Chief")).to_be_visible()
