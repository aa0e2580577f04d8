"""A chat in a browser, from the first word to an approved call."""

from __future__ import annotations

from playwright.async_api import expect
from tests.shell.conftest import Screen


async def test_a_whole_chat_with_an_approval(screen: Screen) -> None:
    provider = screen.served.provider
    call = provider.call("order_part", {"part": "bolt", "card": "4111-secret"})
    provider.say(provider.answer(call), provider.answer(provider.text("**Ordered** it.")))
    page = await screen.page()
    await page.get_by_label("Title of a new chat").fill("Shop")
    await page.get_by_role("button", name="New chat").click()
    await page.get_by_label("Message", exact=True).fill("Order a bolt")
    await page.get_by_role("button", name="Send").click()
    card = page.locator("[data-approval]")
    await expect(card).to_contain_text("4111-secret")
    await expect(card.locator("[data-countdown]")).to_contain_text("6 d")
    await card.get_by_role("button", name="Approve this call").click()
    await expect(page.locator(".markdown strong")).to_have_text("Ordered")
    await expect(page.locator(".tool .state")).to_have_text("done")
    await expect(page.locator(".tokens")).to_have_text("20 tokens in, 10 out, cost unknown")
