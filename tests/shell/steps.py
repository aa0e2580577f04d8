"""Steps that several tests of the web shell take."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from playwright.async_api import Locator, Page
from tests.server.conftest import Served

__all__ = ["approval_records", "ask_for_order", "card_of", "read_to_end", "reject", "say", "show_end"]


async def ask_for_order(served: Served, chat: str = "c1", **arguments: Any) -> None:
    """Makes a chat in which a call of `order_part` waits for a person; after it the model says `Ordered.`"""
    provider = served.provider
    given: Mapping[str, Any] = {"part": "bolt", "card": "4111", **arguments}
    provider.say(provider.answer(provider.call("order_part", given)), provider.answer(provider.text("Ordered.")))
    user = await served.client()
    await user.post(f"/api/chats/{chat}/messages", json={"text": "Order a bolt", "wait": True})


def card_of(page: Page) -> Locator:
    """The card of the call that waits, and is in sight."""
    return page.locator("[data-approval]:visible")


async def show_end(box: Locator) -> None:
    """Scrolls a box to its end, and the page to the box's end, as a person who reads it."""
    await box.evaluate("(box) => { box.scrollTo(0, box.scrollHeight); box.scrollIntoView({block: 'end'}); }")


async def read_to_end(box: Locator, button: Locator) -> None:
    """Scrolls a box to its end until the button may be pressed. A text that changes begins at its top again."""
    async with asyncio.timeout(60):
        while not await button.is_enabled():
            await show_end(box)


async def say(page: Page, text: str) -> None:
    """Sends a message in the chat that is open."""
    await page.get_by_label("Message", exact=True).fill(text)
    await page.get_by_role("button", name="Send").click()


async def reject(card: Locator, reason: str = "") -> None:
    """Rejects a call by its card, as a person who gives a reason."""
    await card.get_by_role("button", name="Reject", exact=True).click()
    await card.get_by_label("Reason").fill(reason)
    await card.get_by_role("button", name="Reject this call").click()


async def approval_records(served: Served, chat: str = "c1") -> list[dict[str, Any]]:
    """The bodies of the decisions that the record of a chat has."""
    user = await served.client()
    query = {"unit": f"demiurge/Demiurge@1/{chat}", "kind": "approval"}
    return [each["body"] for each in (await user.get("/api/journal", params=query)).json()["records"]]
