"""The second step of an approval card that changes the arguments of a call."""

from __future__ import annotations

import json
from typing import Any

from playwright.async_api import Locator, Page, expect
from tests.server.conftest import Served
from tests.shell.conftest import Screen
from tests.shell.steps import approval_records, ask_for_order, card_of, read_to_end, show_end

PARCEL: dict[str, Any] = {
    "city": "Kyiv",
    "boxes": 3,
    "weight_kg": 12.5,
    "speed": "slow",
    "address": {"street": "Main 1"},
}


async def ask_for_parcel(served: Served, arguments_json: str = json.dumps(PARCEL)) -> None:
    """Makes a chat in which a call of `send_parcel` waits for a person."""
    provider = served.provider
    call = {**provider.call("send_parcel", {}), "arguments": arguments_json}
    provider.say(provider.answer(call), provider.answer(provider.text("Sent.")))
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Send a parcel", "wait": True})


async def begin_to_change(page: Page) -> Locator:
    """Opens the form of the card, once the proposed arguments were read."""
    card = card_of(page)
    await show_end(card.get_by_role("group", name="Arguments", exact=True))
    await card.get_by_role("button", name="Change arguments").click()
    await expect(card.get_by_role("heading", name="Change the arguments")).to_be_focused()
    return card


async def used_arguments(served: Served) -> Any:
    """The arguments of the call that took the place of the proposed one."""
    [decision] = await approval_records(served)
    call = await (await served.client()).get(f"/api/blob/{decision['call_ref']}")
    return json.loads(call.json()["arguments_json"])


async def tab_to(page: Page, target: Locator) -> None:
    """Presses Tab until the target has the focus."""
    for _ in range(12):
        if await target.evaluate("(each) => each === document.activeElement"):
            return
        await page.keyboard.press("Tab")
    await expect(target).to_be_focused()


async def test_a_call_runs_with_the_arguments_that_were_typed_by_the_tools_schema(screen: Screen) -> None:
    await ask_for_parcel(screen.served)
    page = await screen.page("/chats/c1")
    card = await begin_to_change(page)
    approve = card.get_by_role("button", name="Approve with changed arguments")
    await expect(approve).to_be_disabled()
    await expect(card.get_by_text("Nothing is changed yet.")).to_be_visible()
    await card.get_by_label("city").fill("Lviv")
    await card.get_by_label("boxes").fill("4")
    await card.get_by_label("weight_kg").fill("1e1")
    await card.get_by_label("speed").select_option(label="fast")
    await card.get_by_label("address").fill('{"street": "Side 2"}')
    await card.get_by_label("included: insured").check()
    await card.get_by_role("combobox", name="insured").select_option(label="true")
    await read_to_end(card.get_by_role("group", name="Changed arguments"), approve)
    await approve.click()
    await expect(page.locator(".markdown")).to_have_text("Sent.")
    wanted = {
        "city": "Lviv",
        "boxes": 4,
        "weight_kg": 10.0,
        "speed": "fast",
        "address": {"street": "Side 2"},
        "insured": True,
    }
    assert await used_arguments(screen.served) == wanted
    assert "Lviv" in str(screen.served.provider.seen[-1])


async def test_proposed_and_changed_arguments_are_shown_after_the_decision_and_after_a_reload(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page, inbox = await screen.page("/chats/c1"), await screen.page("/approvals", actor="user:ada")
    await expect(card_of(inbox)).to_contain_text("bolt")
    card = await begin_to_change(page)
    await card.get_by_label("part").fill("nut")
    await show_end(card.get_by_role("group", name="Changed arguments"))
    await card.get_by_role("button", name="Approve with changed arguments").click()
    await expect(card_of(inbox).locator(".outcome")).to_contain_text("Approved with changed arguments by user:user")
    await expect(card_of(inbox).locator(".outcome")).to_contain_text("The call: done.")
    await expect(card_of(inbox).get_by_role("group", name="Proposed arguments")).to_contain_text("bolt")
    await expect(card_of(inbox).get_by_role("group", name="Changed arguments")).to_contain_text("nut")
    for _ in range(2):
        tool = page.locator(".card.tool")
        await expect(tool.locator(".outcome")).to_contain_text("Approved with changed arguments by you")
        await expect(tool).to_contain_text("Changed by you: part")
        await expect(tool.get_by_role("group", name="Changed arguments")).to_contain_text("nut")
        await tool.get_by_text("Proposed arguments", exact=True).click()
        await expect(tool.get_by_role("group", name="Proposed arguments")).to_contain_text("bolt")
        await page.reload()


async def test_a_value_that_does_not_fit_is_said_and_reset_brings_the_proposal_back(screen: Screen) -> None:
    await ask_for_parcel(screen.served)
    page = await screen.page("/chats/c1")
    card = await begin_to_change(page)
    boxes, address = card.get_by_label("boxes"), card.get_by_label("address")
    for wrong in ("", "x", "1.5", "01"):
        await boxes.fill(wrong)
        await expect(card.get_by_text("This is not a whole number, such as 12.")).to_be_visible()
    await address.fill("{street")
    await expect(card.get_by_text("This is not JSON:")).to_be_visible()
    await expect(card.get_by_role("button", name="Approve with changed arguments")).to_be_disabled()
    await card.get_by_role("button", name="Reset").click()
    await expect(boxes).to_have_value("3")
    await expect(card.get_by_text("Nothing is changed yet.")).to_be_visible()
    await card.get_by_role("button", name="Back").click()
    await expect(card.get_by_role("button", name="Change arguments")).to_be_focused()
    await expect(card.get_by_role("button", name="Approve this call")).to_be_enabled()
    assert await approval_records(screen.served) == []


async def test_a_refusal_of_the_server_is_said_and_the_form_stays(screen: Screen) -> None:
    await ask_for_parcel(screen.served)
    page = await screen.page("/chats/c1")
    card = await begin_to_change(page)
    await card.get_by_label("address").fill('{"street": 7}')
    await show_end(card.get_by_role("group", name="Changed arguments"))
    await card.get_by_role("button", name="Approve with changed arguments").click()
    await expect(card.get_by_role("alert")).to_contain_text("schema of send_parcel: address.street: must be a string.")
    await expect(card.get_by_label("address")).to_have_value('{"street": 7}')
    assert await approval_records(screen.served) == []


async def test_check_11_hidden_characters_of_a_field_are_shown_by_number_below_it(screen: Screen) -> None:
    await ask_for_parcel(screen.served, json.dumps({**PARCEL, "city": "ab\u202ecd"}))
    page = await screen.page("/chats/c1")
    card = await begin_to_change(page)
    field = card.locator(".field", has=page.get_by_label("city"))
    await expect(field.locator(".field-verbatim")).to_have_text("This field holds hidden characters: abU+202Ecd")
    await expect(card.locator(".field-verbatim")).to_have_count(1)
    await card.get_by_label("city").fill("Rome")
    await expect(card.locator(".field-verbatim")).to_have_count(0)
    await card.get_by_label("note").locator("xpath=ancestor::*[@class='field']").get_by_role("checkbox").check()
    await card.get_by_label("note", exact=False).last.fill("soft\u200bly")
    await expect(card.locator(".field-verbatim")).to_contain_text("softU+200Bly")


async def test_check_10_changed_arguments_are_read_to_their_end_before_they_can_be_approved(screen: Screen) -> None:
    await ask_for_order(screen.served, part="word " * 20_000)
    page = await screen.page("/chats/c1")
    await expect(card_of(page).get_by_role("button", name="Change arguments")).to_be_disabled()
    card = await begin_to_change(page)
    await card.get_by_label("card").fill("4222")
    approve = card.get_by_role("button", name="Approve with changed arguments")
    await expect(card.get_by_text("Read the changed arguments to their end first.")).to_be_visible()
    await expect(approve).to_be_disabled()
    await show_end(card.get_by_role("group", name="Changed arguments"))
    await expect(approve).to_be_enabled()
    await card.get_by_label("card").fill("4333")
    await expect(approve).to_be_disabled()


async def test_a_number_that_a_browser_would_round_keeps_its_digits(screen: Screen) -> None:
    proposed = (
        json.dumps(PARCEL).replace('"Main 1"', '"Main 1", "zip": "\\u202e1"').replace("12.5", "12.50000000000000000001")
    )
    await ask_for_parcel(screen.served, proposed)
    page = await screen.page("/chats/c1")
    await expect(card_of(page).locator(".arguments-box")).to_contain_text("12.50000000000000000001")
    card = await begin_to_change(page)
    await expect(card.get_by_label("weight_kg")).to_have_value("12.50000000000000000001")
    await card.get_by_label("city").fill("Lviv")
    changed = card.get_by_role("group", name="Changed arguments")
    await expect(changed).to_contain_text("12.50000000000000000001")
    await expect(changed).to_contain_text("U+202E1")


async def test_check_05_somebody_who_changes_arguments_too_late_is_told_who_was_first(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/chats/c1", actor="user:ada")
    card = await begin_to_change(page)
    await card.get_by_label("part").fill("nut")
    await show_end(card.get_by_role("group", name="Changed arguments"))
    await page.route("**/api/approvals", lambda route: route.abort())
    await page.route("**/api/journal/stream**", lambda route: route.abort())
    user = await screen.served.client()
    [asked] = (await user.get("/api/approvals")).json()["approvals"]

    async def reject_first(route: Any) -> None:
        await user.post(f"/api/approvals/{asked['id']}", json={"decision": "reject", "reason": "too dear"})
        await route.continue_()

    await page.route(f"**/api/approvals/{asked['id']}", reject_first)
    await card.get_by_role("button", name="Approve with changed arguments").click()
    await expect(page.locator(".outcome")).to_contain_text("Rejected by user:user")
    await expect(page.locator(".outcome")).to_contain_text("too dear")
    assert [each["verdict"] for each in await approval_records(screen.served)] == ["reject"]


async def test_check_14_arguments_are_changed_with_the_keyboard_alone(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/approvals")
    await expect(card_of(page).get_by_role("button", name="Change arguments")).to_be_enabled()
    await page.keyboard.press("j")
    await page.keyboard.press("a")
    await page.keyboard.press("Tab")
    await expect(card_of(page).get_by_role("button", name="Change arguments")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(card_of(page).get_by_role("heading", name="Change the arguments")).to_be_focused()
    await expect(card_of(page).get_by_label("part")).to_be_visible()
    await page.keyboard.press("Tab")
    await page.keyboard.press("ControlOrMeta+a")
    await page.keyboard.type("jar")  # j, a and r are keys of the card, but not while somebody types
    await expect(card_of(page).get_by_label("part")).to_have_value("jar")
    await tab_to(page, card_of(page).get_by_role("group", name="Changed arguments"))
    approve = card_of(page).get_by_role("button", name="Approve with changed arguments")
    await expect(approve).to_be_enabled()
    await tab_to(page, approve)
    await page.keyboard.press("Enter")
    await expect(card_of(page).locator(".outcome")).to_contain_text("Approved with changed arguments by you")
    assert (await used_arguments(screen.served))["part"] == "jar"
