"""The card of a waiting call: the words that the terminal shows too, in the same order, read from its top."""

from __future__ import annotations

import pytest
from playwright.async_api import expect
from tests.shell.conftest import Screen
from tests.shell.steps import ask_for_order, card_of

TOP = "(card) => Math.round(card.getBoundingClientRect().top - card.closest('.viewport').getBoundingClientRect().top)"


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
async def test_the_card_is_read_from_its_top_and_has_the_words_of_the_terminal(
    screen: Screen, width: int, scheme: str
) -> None:
    await ask_for_order(screen.served, part="bolt\n" * 40)
    user = await screen.served.client()
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    words = asked["card"]
    size = {"width": width, "height": 640}
    page = await screen.page("/chats/c1", viewport=size, color_scheme=scheme)
    card = card_of(page)
    await expect(card).to_contain_text(words["why"])
    assert words["why"].startswith("A person is asked because ")
    text = await card.inner_text()
    places = [text.index(each) for each in (words["description"].split("\n")[0], words["effect"], "bolt", words["why"])]
    assert places == sorted(places)
    assert "sha256:" not in text  # the digest, the rule and the expiry are folded
    assert await card.evaluate(TOP) >= 0
    await expect(card.get_by_label("Reason")).to_have_count(0)
    await card.get_by_role("button", name="Reject", exact=True).click()
    await expect(card.get_by_label("Reason")).to_be_focused()
