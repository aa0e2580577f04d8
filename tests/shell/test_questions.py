"""The card of a question that the model asks a person: in the chat and in the inbox, over reloads and restarts."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Route, expect
from tests.provider import Provider
from tests.server.conftest import Served, serving_world
from tests.shell.conftest import Screen
from tests.shell.steps import approval_records, card_of, say

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")

WHERE = {"question": "Where to?", "choices": ["Rome", "Oslo"]}


def ask(provider: Provider, **arguments: Any) -> None:
    """Lets the model ask a question at the next message, and then say that it has booked."""
    call = Provider.call("core__ask_user", {**WHERE, **arguments})
    provider.say(Provider.answer(call), Provider.answer(Provider.text("Booked.")))


async def asked(served: Served, chat: str = "c1", **arguments: Any) -> None:
    """Makes a chat in which a question waits."""
    ask(served.provider, **arguments)
    user = await served.client()
    await user.post(f"/api/chats/{chat}/messages", json={"text": "Book a trip", "wait": True})


def told(provider: Provider) -> str:
    return str(provider.seen[-1])


async def test_a_whole_chat_with_a_question_over_a_reload_and_a_restart_of_the_server(
    browser: Browser, provider: Provider, tmp_path: Path, port: int
) -> None:
    ask(provider)
    async with serving_world(tmp_path / "w", provider, port) as served:
        before = Screen(served, browser)
        page = await before.page("/chats")
        await page.get_by_role("button", name="New chat").click()
        await say(page, "Book a trip")
        await expect(card_of(page).locator(".question-text")).to_have_text("Where to?")
        await expect(page.locator(".turn-status")).to_contain_text("The model waits for an answer")
        await page.reload()
        await expect(card_of(page).get_by_role("button", name="Oslo")).to_be_enabled()
    async with serving_world(tmp_path / "w", provider, port) as served:
        await expect(page.locator(".banner")).to_have_count(0, timeout=30_000)
        await expect(card_of(page).locator(".question-text")).to_have_text("Where to?")
        await card_of(page).get_by_role("button", name="Oslo").click()
        await expect(page.get_by_text("Booked.")).to_have_count(1)
        await expect(page.locator(".tool .outcome")).to_contain_text("Answered by you")
        await expect(page.locator(".tool .outcome q")).to_have_text("Oslo")
        await page.reload()
        await expect(page.locator(".tool .question-text")).to_have_text("Where to?")
        await expect(page.locator(".tool .outcome q")).to_have_text("Oslo")
        await expect(card_of(page)).to_have_count(0)
        assert before.problems == []
        await page.context.close()
    assert '"answer":"Oslo","choice":1' in told(provider).replace('\\"', '"')


async def test_words_of_ones_own_are_an_answer_and_an_empty_one_is_not(screen: Screen) -> None:
    await asked(screen.served)
    page = await screen.page("/chats/c1")
    answer = card_of(page).get_by_role("button", name="Answer", exact=True)
    await expect(answer).to_be_disabled()
    await card_of(page).get_by_label("Your answer").fill("Lima, if you can")
    await answer.click()
    await expect(page.locator(".tool .outcome q")).to_have_text("Lima, if you can")
    await expect(page.get_by_text("Booked.")).to_have_count(1)
    assert "Lima, if you can" in told(screen.served.provider)


async def test_a_question_that_takes_only_its_choices_has_no_field_for_other_answers(screen: Screen) -> None:
    await asked(screen.served, allow_other=False)
    page = await screen.page("/chats/c1")
    await expect(card_of(page).get_by_role("button", name="Rome")).to_be_enabled()
    await expect(card_of(page).get_by_role("button", name="Answer", exact=True)).to_have_count(0)
    await card_of(page).get_by_label("Why, if you decline").fill("I stay here.")
    await card_of(page).get_by_role("button", name="Decline to answer").click()
    await expect(page.locator(".tool .outcome")).to_contain_text("Declined by you")
    await expect(page.locator(".tool .outcome q")).to_have_text("I stay here.")
    await expect(page.get_by_text("Booked.")).to_have_count(1)
    assert "I stay here." in told(screen.served.provider)


async def test_question_choices_and_answer_are_shown_as_they_are(screen: Screen) -> None:
    odd = "**a** <img src=x onerror=alert(1)>\u202etxt"
    await asked(screen.served, question=odd, choices=[odd, "plain"])
    page = await screen.page("/chats/c1")
    shown = "**a** <img src=x onerror=alert(1)>U+202Etxt"
    await expect(card_of(page).locator(".question-text")).to_have_text(shown)
    first = card_of(page).locator(".choices button").first
    await expect(first).to_have_text(shown)
    await first.click()
    await expect(page.locator(".tool .outcome q")).to_have_text(shown)
    await expect(page.locator(".tool img, .tool strong:has-text('a')")).to_have_count(0)


async def test_the_keyboard_alone_answers_and_only_on_a_button(screen: Screen) -> None:
    await asked(screen.served)
    page = await screen.page("/approvals")
    await expect(card_of(page).get_by_role("button", name="Rome")).to_be_enabled()
    await page.keyboard.press("j")
    await expect(card_of(page)).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("a")
    await expect(card_of(page).get_by_role("button", name="Rome")).to_be_focused()
    assert await approval_records(screen.served) == []
    await page.keyboard.press("Enter")
    await expect(card_of(page).locator(".outcome")).to_contain_text("Answered by you")
    assert [each["verdict"] for each in await approval_records(screen.served)] == ["answer"]


async def test_the_keyboard_alone_answers_a_question_without_choices(screen: Screen) -> None:
    await asked(screen.served, choices=None)
    page = await screen.page("/approvals")
    await expect(card_of(page).get_by_label("Your answer")).to_be_visible()
    await page.keyboard.press("j")
    await page.keyboard.press("a")
    await expect(card_of(page).get_by_label("Your answer")).to_be_focused()
    await page.keyboard.type("ajar")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Tab")
    assert await approval_records(screen.served) == []
    await page.keyboard.press("Enter")
    await expect(card_of(page).locator(".outcome q")).to_have_text("ajar")


async def test_a_double_click_is_one_answer_and_another_card_stays_open(screen: Screen) -> None:
    await asked(screen.served)
    await asked(screen.served, "c2", question="Who comes along?", choices=None)
    page = await screen.page("/approvals")
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    first = card_of(page).filter(has_text="Where to?")
    other = card_of(page).filter(has_text="Who comes along?")
    held: list[Route] = []
    await page.route("**/answer", lambda route: held.append(route))
    lines = page.locator(".inbox-row")
    await lines.filter(has_text="Who comes along?").click()
    await other.get_by_label("Your answer").fill("Ada")
    await lines.filter(has_text="Where to?").click()
    await first.get_by_role("button", name="Rome").dblclick()
    await expect(first.get_by_role("button", name="Oslo")).to_be_disabled()
    await expect(first.locator(".outcome")).to_have_count(0)
    await lines.filter(has_text="Who comes along?").click()
    await expect(other.get_by_label("Your answer")).to_have_value("Ada")
    await expect(other.get_by_role("button", name="Answer", exact=True)).to_be_enabled()
    await lines.filter(has_text="Where to?").click()
    await held[0].continue_()
    await expect(first.locator(".outcome")).to_contain_text("Answered by you")
    assert len(posts) == 1
    assert len(await approval_records(screen.served)) == 1


async def test_the_person_who_answers_second_is_told_who_was_first_and_with_what(screen: Screen) -> None:
    await asked(screen.served)
    late = await screen.page("/approvals", actor="user:ada")
    await expect(card_of(late).get_by_role("button", name="Rome")).to_be_enabled()
    await late.route("**/api/approvals", lambda route: route.abort())
    user = await screen.served.client()
    [waiting] = (await user.get("/api/approvals")).json()["approvals"]

    async def answer_first(route: Route) -> None:
        await user.post(f"/api/approvals/{waiting['id']}/answer", json={"answer": "Oslo"})
        await route.continue_()

    await late.route("**/answer", answer_first)
    await card_of(late).get_by_role("button", name="Rome").click()
    await expect(card_of(late).locator(".outcome")).to_contain_text("Answered by user:user")
    await expect(card_of(late).locator(".outcome q")).to_have_text("Oslo")
    assert len(await approval_records(screen.served)) == 1


async def test_an_approver_sees_and_answers_and_a_viewer_sees_that_a_question_was_asked(screen: Screen) -> None:
    await asked(screen.served)
    viewer = await screen.page("/chats/c1", role="viewer")
    await expect(viewer.locator(".card")).to_contain_text("Your role does not see the question.")
    approver = await screen.page("/approvals", role="approver")
    await card_of(approver).get_by_role("button", name="Oslo").click()
    await expect(card_of(approver).locator(".outcome")).to_contain_text("Answered by you")
    await expect(viewer.locator(".card .outcome")).to_contain_text("Answered by user:approver")
    await expect(viewer.locator(".card .outcome")).to_contain_text("your role does not see the answer")
    assert "Where to?" not in await viewer.content()
    assert "Oslo" not in await viewer.content()


async def problems_of(page: Page) -> list[str]:
    await page.evaluate(AXE)
    found = await page.evaluate("axe.run()")
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found["violations"]]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "dark")])
async def test_axe_finds_nothing_in_a_card_of_a_question(screen: Screen, width: int, scheme: Any) -> None:
    await asked(screen.served)
    await asked(screen.served, "c2", question="Who comes along?", choices=None)
    page = await screen.page("/approvals", viewport={"width": width, "height": 800}, color_scheme=scheme)
    await expect(page.locator(".inbox-row")).to_have_count(2)
    for line in await page.locator(".inbox-row").all():
        await line.click()
        assert await problems_of(page) == []
    await page.goto(screen.served.base + "/chats/c1")
    await card_of(page).get_by_role("button", name="Rome").click()
    await expect(page.locator(".tool .outcome q")).to_have_text("Rome")
    await expect(page.get_by_text("Booked.")).to_have_count(1)
    assert await problems_of(page) == []
