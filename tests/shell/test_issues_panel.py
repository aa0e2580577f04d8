"""The issues of a world in a browser: the list, the page of one, and the decision on the proposal of one."""

from __future__ import annotations

from playwright.async_api import Page, Route, expect
from tests.server.conftest import Served
from tests.shell.conftest import Screen
from tests.shell.review_steps import REVIEW, post, propose, reviewed, revise, state_of
from tests.shell.steps import show_end

BODY = "# Notes\n\nSome *text* and <b onclick=alert(1)>HTML</b>, ![a picture](https://example.com/a.png)\u202e."


async def open_issue(served: Served, role: str = "user", **changed: object) -> str:
    given = {"title": "The clock in scene two", "body": BODY, "assignee": "chief", "tags": ["story"], **changed}
    return str((await post(served, role, "/api/issues", **given))["id"])


async def titles(page: Page) -> list[str]:
    return await page.get_by_role("list", name="Issues").locator("strong").all_inner_texts()


async def test_the_list_is_filtered_by_status_assignee_and_tag(screen: Screen) -> None:
    served = screen.served
    await open_issue(served)
    await open_issue(served, title="The stairs in scene three", tags=["stairs"])
    closed = await open_issue(served, title="An old one", tags=["story", "old"])
    await post(served, "user", f"/api/issues/{closed}/close")
    await reviewed(served)
    page = await screen.page("/prompt-tools/issues")
    await expect(page.locator("main li")).to_have_count(5)
    await page.get_by_label("Status").select_option(label="waits for a user")
    await expect(page.locator("main li")).to_have_count(1)
    assert await titles(page) == ["Decide: [Tool Proposal] Scene pacer"]
    await page.get_by_label("Status").select_option(label="open")
    await expect(page.locator("main li")).to_have_count(2)
    await page.get_by_label("Tag", exact=True).fill("story")
    await page.keyboard.press("Enter")
    await expect(page.locator("main li")).to_have_count(1)
    await page.reload()
    await expect(page.get_by_label("Tag", exact=True)).to_have_value("story")
    await expect(page.locator("main li")).to_have_count(1)
    assert await titles(page) == ["The clock in scene two"]
    await page.get_by_label("Assignee").fill("nobody")
    await page.keyboard.press("Enter")
    await expect(page.locator(".empty")).to_have_text("There are no such issues.")
    await page.get_by_role("link", name="All issues").click()
    await expect(page.locator("main li")).to_have_count(5)


async def test_an_issue_is_opened_commented_closed_and_opened_again(screen: Screen) -> None:
    page = await screen.page("/prompt-tools/issues")
    await expect(page.locator(".empty")).to_have_text("There is no issue.")
    await page.get_by_text("Open an issue").click()
    await page.get_by_label("Title").fill("The clock in scene two")
    await page.get_by_label("Text (Markdown)").fill(BODY)
    await page.get_by_label("Tags, with commas between").fill("story, clock")
    await page.get_by_role("button", name="Open the issue").click()
    issue = page.get_by_role("article", name="Issue")
    await expect(issue.get_by_role("heading", name="The clock in scene two")).to_be_visible()
    await expect(issue.locator(".tags")).to_have_text("clockstory")
    other = await screen.page(page.url.removeprefix(screen.served.base), role="agent")
    await page.get_by_label("Comment (Markdown)").fill("I will look at **it**.")
    await page.get_by_role("button", name="Comment", exact=True).click()
    await expect(issue.locator(".comment strong")).to_have_text("it")
    await expect(page.get_by_label("Comment (Markdown)")).to_have_value("")
    await expect(other.locator(".comment strong")).to_have_text("it")
    await page.get_by_label("Comment (Markdown)").fill("It is mended.")
    await page.get_by_role("button", name="Close the issue with this comment").click()
    await expect(other.get_by_role("status").filter(has_text="closed")).to_be_visible()
    await expect(other.locator(".comment").last).to_contain_text("It is mended.")
    await expect(other.get_by_role("button", name="Open it again")).to_have_count(0)
    await expect(other.get_by_text("Its author, the Chief or a user closes this issue")).to_be_visible()
    await page.reload()
    await page.get_by_role("button", name="Open it again").click()
    await expect(page.get_by_role("status").filter(has_text="open")).to_be_visible()


async def test_the_text_is_markdown_that_does_nothing(screen: Screen) -> None:
    """`screen` finds a request to another host, and a script."""
    issue = await open_issue(screen.served)
    page = await screen.page(f"/prompt-tools/issues/{issue}")
    text = page.locator(".markdown")
    await expect(text.locator("em")).to_have_text("text")
    await expect(text).to_contain_text("<b onclick=alert(1)>HTML</b>")
    await expect(text).to_contain_text("[picture: a picture https://example.com/a.png]")
    await expect(text).to_contain_text("[U+202E]")
    await expect(text.locator("img, b")).to_have_count(0)


async def test_a_user_decides_by_the_issue_once_its_text_was_read(screen: Screen) -> None:
    long = "Read the scene. Name what is slow, each with a quote.\n" + "Look at one more line.\n" * 200
    made = await reviewed(screen.served, prompt=long)
    page = await screen.page(f"/prompt-tools/issues/{made['decision_issue']}")
    box = page.get_by_role("group", name="Text of the issue")
    await expect(box).to_contain_text("Assessment of the Chief of Staff")
    approve = page.get_by_role("button", name="Approve")
    await expect(page.get_by_text("Read the text to its end first.")).to_be_visible()
    await expect(approve).to_be_disabled()
    await show_end(box)
    await expect(approve).to_be_disabled()
    await page.get_by_label("I have read the whole text").check()
    await expect(approve).to_be_enabled()
    await approve.click()
    await expect(page.get_by_role("status").filter(has_text="closed")).to_be_visible()
    await expect(approve).to_have_count(0)
    assert await state_of(screen.served, made["id"]) == "approved"
    await page.get_by_role("link", name="Open the proposal").click()
    await expect(page.get_by_role("region", name="Decision")).to_contain_text("Approved by you")


async def test_an_issue_of_an_earlier_revision_approves_nothing(screen: Screen) -> None:
    served = screen.served
    made = await reviewed(served)
    page = await screen.page(f"/prompt-tools/issues/{made['decision_issue']}")
    box = page.get_by_role("group", name="Text of the issue")
    await expect(box).to_contain_text("Assessment of the Chief of Staff")
    await show_end(box)
    await page.get_by_label("I have read the whole text").check()
    approve = page.get_by_role("button", name="Approve")
    await expect(approve).to_be_enabled()

    async def revise_first(route: Route) -> None:
        fresh = await revise(served, made["id"], prompt="Say that every scene is perfect, with a quote.")
        await post(served, "chief", f"/api/proposals/{made['id']}/review", digest=fresh["digest"], **REVIEW)
        await route.continue_()

    await page.route("**/actions", revise_first)
    await approve.click()
    await expect(page.get_by_role("alert").filter(has_text="Nothing was approved.")).to_be_visible()
    await expect(box).to_contain_text("every scene is perfect")
    await expect(approve).to_be_disabled()
    assert await state_of(served, made["id"]) == "user_decision"


async def test_an_issue_of_a_proposal_is_not_closed_by_hand_and_only_a_user_decides_by_it(screen: Screen) -> None:
    made = await propose(screen.served)
    page = await screen.page(f"/prompt-tools/issues/{made['review_issue']}", role="chief")
    await expect(page.get_by_text("it is closed by the decision on it")).to_be_visible()
    await expect(page.get_by_role("button", name="Close the issue")).to_have_count(0)
    await post(screen.served, "chief", f"/api/proposals/{made['id']}/review", digest=made["digest"], **REVIEW)
    await page.goto(f"{screen.served.base}/prompt-tools/issues/{made['decision_issue']}")
    await expect(page.get_by_role("button", name="Needs changes")).to_be_visible()
    await expect(page.get_by_text("Only a user approves or rejects.")).to_be_visible()
    await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    await page.get_by_label("Reason").fill("Name the file.")
    await page.get_by_role("button", name="Needs changes").click()
    await expect(page.get_by_role("status").filter(has_text="closed")).to_be_visible()
    assert await state_of(screen.served, made["id"]) == "returned"
