"""The inbox: a line for each call that waits, the card of one of them, keys, and links."""

from __future__ import annotations

from playwright.async_api import Locator, Page, expect
from tests.shell.conftest import Screen
from tests.shell.steps import approval_records, ask_for_order, card_of, reject

PARTS = {"bolts": "bolt M8", "nuts": "nut", "gears": "gear"}


async def three_calls(screen: Screen) -> None:
    for chat, part in PARTS.items():
        await ask_for_order(screen.served, chat, part=part)


def lines(page: Page) -> Locator:
    return page.get_by_role("list", name="Calls that wait").get_by_role("listitem")


async def test_a_line_says_tool_first_argument_who_asks_age_and_time_left(screen: Screen) -> None:
    await three_calls(screen)
    page = await screen.page("/approvals")
    await expect(lines(page)).to_have_count(3)
    first = lines(page).first
    await expect(first).to_contain_text("order_part part: bolt M8")
    await expect(first).to_contain_text("Asked for by user:user in Untitled, ")
    await expect(first).to_contain_text("ago.")
    await expect(first).to_contain_text("6 d 23 h left")
    await expect(page.get_by_label("Panels").locator(".count")).to_contain_text("3")
    await expect(lines(page).locator(".inbox-call")).to_contain_text(list(PARTS.values()))  # the soonest expiry first
    await expect(card_of(page)).to_contain_text("bolt M8")


async def test_a_long_first_argument_is_short_in_its_line_and_whole_in_its_card(screen: Screen) -> None:
    await ask_for_order(screen.served, part="word " * 100 + "\u202eTHE END")
    page = await screen.page("/approvals")
    await expect(lines(page).first).not_to_contain_text("THE END")
    await expect(card_of(page)).to_contain_text("U+202ETHE END")


async def test_keys_go_through_the_calls_and_a_decision_moves_the_focus_to_the_next_line(screen: Screen) -> None:
    await three_calls(screen)
    page = await screen.page("/approvals")
    await expect(card_of(page).get_by_role("button", name="Approve this call")).to_be_enabled()
    await page.keyboard.press("j")
    await expect(card_of(page)).to_be_focused()
    await page.keyboard.press("j")
    await expect(card_of(page)).to_contain_text("nut")
    await expect(card_of(page)).to_be_focused()
    await page.keyboard.press("r")
    await page.keyboard.press("Enter")
    await expect(card_of(page).get_by_label("Reason")).to_be_focused()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(lines(page).nth(1)).to_contain_text("Rejected by user:user")
    await expect(card_of(page).locator(".outcome")).to_contain_text("Rejected by you")
    await expect(lines(page).nth(2).get_by_role("button")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(card_of(page)).to_contain_text("gear")
    await expect(card_of(page)).to_be_focused()
    assert [each["verdict"] for each in await approval_records(screen.served, "nuts")] == ["reject"]
    assert await approval_records(screen.served, "gears") == []
    await page.keyboard.press("k")
    await expect(card_of(page).locator(".outcome")).to_contain_text("Rejected by you")
    await expect(card_of(page).get_by_role("button", name="Reject")).to_have_count(0)


async def test_the_list_is_gone_through_by_arrows_and_a_link_opens_a_call(screen: Screen) -> None:
    await three_calls(screen)
    page = await screen.page("/approvals")
    await lines(page).first.get_by_role("button").focus()
    await page.keyboard.press("End")
    await expect(lines(page).last.get_by_role("button")).to_be_focused()
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")
    await expect(card_of(page)).to_contain_text("nut")
    await page.reload()
    await expect(card_of(page)).to_contain_text("nut")
    await expect(card_of(page)).to_have_count(1)


async def test_a_narrow_inbox_has_the_list_above_the_card(screen: Screen) -> None:
    await three_calls(screen)
    page = await screen.page("/approvals", viewport={"width": 360, "height": 800})
    await expect(card_of(page)).to_contain_text("bolt M8")
    above, below = await lines(page).last.bounding_box(), await card_of(page).bounding_box()
    assert above is not None
    assert below is not None
    assert above["y"] < below["y"]
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360


async def test_a_second_click_on_the_place_of_a_button_decides_no_other_call(screen: Screen) -> None:
    await three_calls(screen)
    page = await screen.page("/approvals")
    approve = card_of(page).get_by_role("button", name="Approve this call")
    await expect(approve).to_be_enabled()
    place = await approve.bounding_box()
    assert place is not None
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    await page.mouse.click(x, y)
    await expect(lines(page).nth(1).get_by_role("button")).to_be_focused()
    await page.mouse.click(x, y)
    await expect(card_of(page).locator(".outcome")).to_contain_text("Approved by you")
    verdicts = [await approval_records(screen.served, chat) for chat in PARTS]
    assert [len(each) for each in verdicts] == [1, 0, 0]


async def test_a_long_name_and_a_long_reason_are_cut_hide_nothing_and_can_be_read_whole(screen: Screen) -> None:
    await ask_for_order(screen.served, part="bolt")
    page = await screen.page("/approvals", actor="user:\u202e" + "a" * 400)
    await expect(card_of(page)).to_contain_text("bolt")
    await reject(card_of(page), "\u202e" + "r" * 475 + " END")
    other = await screen.page("/chats/c1")
    said = other.locator(".outcome")
    await expect(said).to_contain_text("U+202E" + "r" * 119 + "… Show all 480 characters")
    await expect(said).to_contain_text("user:U+202E" + "a" * 114 + "… Show all 406 characters")
    await expect(said).not_to_contain_text("END")
    await said.get_by_role("button", name="Show all 480 characters").click()
    await expect(said).to_contain_text("r END")


async def test_a_line_of_the_inbox_cuts_who_asks(screen: Screen) -> None:
    provider = screen.served.provider
    provider.say(provider.answer(provider.call("order_part", {"part": "bolt", "card": "4111"})))
    asker = await screen.served.world.tokens.add("user:\u202e" + "a" * 400, ["user"])
    async with screen.served.browser(headers={"authorization": f"Bearer {asker.secret}"}) as client:
        await client.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    page = await screen.page("/approvals")
    await expect(lines(page).first).to_contain_text("by user:U+202E" + "a" * 114 + "… (406 characters) in Untitled")
