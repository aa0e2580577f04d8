"""A page reads its data again after a request that failed, or that got no answer."""

from __future__ import annotations

from playwright.async_api import Route, expect
from tests.shell.conftest import Screen

PROBLEM = '{"code": "unavailable", "message": "The world cannot do this now."}'


async def test_a_read_that_gets_no_answer_ends_and_the_page_reads_again(screen: Screen) -> None:
    await (await screen.served.client()).post("/api/chats", json={"chat_id": "c1", "title": "Orders"})
    page = await screen.page("/approvals")
    await page.clock.install()
    held: list[Route] = []
    await page.route("**/api/chats/c1", lambda route: held.append(route))
    await page.goto(screen.served.base + "/chats/c1")
    await expect(page.get_by_text("Loading the chat …")).to_be_visible()
    await page.clock.fast_forward("01:01")
    await expect(page.get_by_role("main").get_by_text("The server has not answered for a minute.")).to_be_visible()
    await page.unroute_all()
    # the note goes by itself when the page reads again, so its button is pressed only if it is there
    await page.evaluate("document.querySelectorAll('.problem button').forEach((button) => button.click())")
    await expect(page.get_by_role("heading", name="Orders")).to_be_visible()
    assert held


async def test_a_turn_that_could_not_be_read_is_shown_after_another_try(screen: Screen) -> None:
    provider, user = screen.served.provider, await screen.served.client()
    provider.say(provider.answer(provider.text("")), provider.answer(provider.text("Yes.")))
    for text in ("One", "Two"):
        await user.post("/api/chats/c1/messages", json={"text": text, "wait": True})
    page = await screen.page("/approvals")
    await page.route("**/api/chats/c1/turns/1**", lambda route: route.fulfill(status=503, body=PROBLEM))
    await page.goto(screen.served.base + "/chats/c1")
    await expect(page.get_by_text("This turn failed.")).to_be_visible()
    await page.get_by_role("button", name="Tokens and cost").click()
    failed = page.get_by_role("alert").filter(has_text="The world cannot do this now.")
    await expect(failed).to_be_visible()
    await page.unroute_all()
    await failed.get_by_role("button", name="Try again").click()
    await expect(failed).to_have_count(0)
    await expect(page.get_by_text("This turn failed.")).to_be_visible()
