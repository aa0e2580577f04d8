"""The card of a tool that asks half-way: a form in the chat and in the inbox, with a keyboard, and its problems."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, expect
from tests.provider import Provider
from tests.server.asking_tools import asked, serving_asking
from tests.shell.conftest import Screen
from tests.shell.steps import card_of

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")


@pytest_asyncio.fixture(loop_scope="session")
async def screen(browser: Browser, provider: Provider, tmp_path: Path) -> AsyncIterator[Screen]:
    async with serving_asking(tmp_path / "w", provider) as served:
        found = Screen(served, browser)
        yield found
        assert found.problems == []


async def test_a_form_is_filled_in_and_its_problems_stand_at_the_fields(screen: Screen) -> None:
    await asked(screen.served)
    page = await screen.page("/chats/c1")
    card = card_of(page)
    await expect(page.locator(".turn-status")).to_contain_text("A tool waits for an answer")
    await expect(card).to_contain_text("These are the words of the server tours")
    await expect(card).to_contain_text("Never answer with a password")
    await expect(card.locator(".hidden-character")).to_have_text("U+202E")
    name, nights = card.get_by_label("Name of the traveller"), card.get_by_label("nights")
    await expect(nights).to_have_value("2")
    await name.fill("A")
    await nights.fill("10")
    await nights.press("Enter")
    await expect(card.get_by_text("It must have at least 2 characters.")).to_be_visible()
    await expect(card.get_by_text("It must be at most 9.")).to_be_visible()
    await expect(name).to_be_focused()
    await expect(name).to_have_attribute("aria-invalid", "true")
    await name.fill("Ada")
    await nights.fill("3")
    await card.get_by_label("meal").select_option("Meat")
    await card.get_by_label("bag").check()
    await card.get_by_label("window").select_option("Yes")
    await card.get_by_role("button", name="Answer", exact=True).click()
    await expect(page.get_by_text("Booked.")).to_have_count(1)
    await expect(page.locator(".tool .outcome")).to_contain_text("Answered by you")
    assert '{"extras": ["bag"], "meal": "m", "name": "Ada", "nights": 3, "window": true}' in str(
        screen.served.provider.seen[-1]
    )


async def test_the_inbox_shows_the_form_and_a_person_declines_by_the_keyboard(screen: Screen) -> None:
    await asked(screen.served)
    page = await screen.page("/approvals")
    card = page.locator("[data-approval]:visible")
    await expect(card.get_by_label("Name of the traveller")).to_be_visible()
    await page.evaluate(AXE)
    found = await page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa']}).then(({violations}) => violations)")
    assert found == []
    await card.get_by_role("button", name="Decline to answer").press("Enter")
    await expect(card.locator(".outcome")).to_contain_text("Answered by you")
    await screen.served.world.settle()
    assert '"action": "decline"' in str(screen.served.provider.seen[-1])


async def test_an_address_is_a_link_that_says_its_host_and_opens_by_nobody_but_the_person(screen: Screen) -> None:
    waiting = await asked(screen.served, "Lima")
    user = await screen.served.client()
    await user.post(f"/api/approvals/{waiting['id']}/answer", json={"content": {"name": "Ada"}})
    await screen.served.world.settle()
    page = await screen.page("/chats/c1")
    card = card_of(page)
    link = card.get_by_role("link", name="open pay.example")
    await expect(link).to_have_attribute("href", "https://pay.example/x")
    await expect(link).to_have_attribute("rel", "noopener noreferrer")
    await card.get_by_label("Your answer").fill("Rest.")
    await card.get_by_role("button", name="Answer", exact=True).click()
    await expect(page.get_by_text("Booked.")).to_have_count(1)
    assert "Rest." in str(screen.served.provider.seen[-1])
    assert len(page.context.pages) == 1


async def test_a_person_ends_the_call(screen: Screen) -> None:
    await asked(screen.served)
    page = await screen.page("/chats/c1")
    await card_of(page).get_by_role("button", name="End the call").click()
    await expect(page.locator(".tool .outcome")).to_contain_text("Rejected by you")
    await screen.served.world.settle()
    assert "approval_rejected" in str(screen.served.provider.seen[-1])
