"""The second step of an approval card that allows further calls of a chat, and the list of such rules."""

from __future__ import annotations

import json
from typing import Any

from playwright.async_api import Locator, Page, expect
from tests.server.conftest import Served
from tests.shell.conftest import Screen
from tests.shell.steps import ask_for_order, card_of, show_end


async def begin_to_allow(page: Page) -> Locator:
    """Opens the second step of the card that waits."""
    card = card_of(page)
    await card.get_by_role("button", name="Allow in this chat").click()
    await expect(card.get_by_role("heading", name="Allow further calls in this chat")).to_be_focused()
    return card


async def rules(served: Served) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await (await served.client()).get("/api/approvals/rules")).json()["rules"]
    return found


async def order_again(served: Served, part: str, call_id: str) -> str:
    """Lets the model order something else in the same chat. Returns how the turn stands."""
    await served.world.settle()
    provider = served.provider
    call = provider.call("order_part", {"part": part, "card": "4111"}, call_id)
    provider.say(provider.answer(call), provider.answer(provider.text(f"Ordered {part}.")))
    user = await served.client()
    sent = await user.post("/api/chats/c1/messages", json={"text": f"Order {part}", "wait": True})
    return str(sent.json()["status"])


async def test_further_calls_that_match_the_rule_run_without_a_question(screen: Screen) -> None:
    await ask_for_order(screen.served, part="bolts/m4")
    page = await screen.page("/chats/c1")
    card = await begin_to_allow(page)
    await card.get_by_label("part", exact=True).select_option(label="like a pattern")
    await card.get_by_label("Pattern of part").fill("bolts/*")
    await card.get_by_label("Number of calls, with this one").fill("3")
    await card.get_by_label("Ends after").select_option(label="1 day")
    rule = card.get_by_role("group", name="The rule")
    await expect(rule).to_contain_text("Calls of order_part for user:user in this chat run without a question, if")
    await expect(rule).to_contain_text("part is like bolts/*")
    await expect(rule).to_contain_text("card is exactly 4111")
    await expect(rule).to_contain_text("no other argument is given")
    await expect(rule).to_contain_text("or after 3 calls, this one included")
    assert await rules(screen.served) == []
    await card.get_by_role("button", name="Allow these calls").click()
    await expect(page.locator(".tool .outcome")).to_contain_text("Allowed by a standing rule, made by you")
    [made] = await rules(screen.served)
    assert json.loads(made["pattern_json"]) == {"part": {"like": "bolts/*"}, "card": {"equals": "4111"}}
    assert made["left"] == 2
    assert await order_again(screen.served, "bolts/m5", "call_2") == "done"
    await expect(page.locator(".tool .outcome").last).to_contain_text("Allowed by a standing rule, made by you")
    assert await order_again(screen.served, "nuts/m5", "call_3") == "awaiting_approval"
    await expect(card_of(page)).to_contain_text("nuts/m5")


async def test_a_rule_is_listed_in_its_chat_and_can_be_ended_there(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page, other = await screen.page("/chats/c1"), await screen.page("/chats/c1", actor="user:ada")
    card = await begin_to_allow(page)
    await card.get_by_role("button", name="Allow these calls").click()
    for each in (page, other):
        await each.get_by_text("1 standing rule").click()
        await expect(each.locator(".rules")).to_contain_text("part is exactly bolt")
        await expect(each.locator(".rules")).to_contain_text("9 calls are left.")
    await other.get_by_role("button", name="End this rule").click()
    for each in (page, other):
        await expect(each.locator(".rules")).to_have_count(0)
    assert await rules(screen.served) == []
    assert await order_again(screen.served, "bolt", "call_2") == "awaiting_approval"


async def test_a_rule_that_does_not_allow_the_call_itself_cannot_be_made(screen: Screen) -> None:
    await ask_for_order(screen.served, part="bolts/m4")
    page = await screen.page("/chats/c1")
    card = await begin_to_allow(page)
    allow = card.get_by_role("button", name="Allow these calls")
    await card.get_by_label("part", exact=True).select_option(label="like a pattern")
    for pattern in ("nuts/*", "*", "bolts/m", "bolts/m4/*"):
        await card.get_by_label("Pattern of part").fill(pattern)
        await expect(card.get_by_text("This call does not match the pattern.")).to_be_visible()
        await expect(allow).to_be_disabled()
    await card.get_by_label("Pattern of part").fill("*/m4")
    await expect(allow).to_be_enabled()
    for count in ("0", "1001", "", "x", "1.5"):
        await card.get_by_label("Number of calls, with this one").fill(count)
        await expect(card.get_by_text("The number of calls is 1 to 1000.")).to_be_visible()
        await expect(allow).to_be_disabled()
    await card.get_by_role("button", name="Back").click()
    await expect(card.get_by_role("button", name="Allow in this chat")).to_be_focused()
    assert await rules(screen.served) == []


async def test_a_rule_with_a_long_value_is_read_to_its_end_before_it_can_be_made(screen: Screen) -> None:
    await ask_for_order(screen.served, part="word " * 2_000 + "THE END")
    page = await screen.page("/chats/c1")
    await expect(card_of(page).get_by_role("button", name="Allow in this chat")).to_be_disabled()
    await show_end(card_of(page).get_by_role("group", name="Arguments", exact=True))
    card = await begin_to_allow(page)
    await expect(card.get_by_role("group", name="The rule")).to_contain_text("THE END")
    await expect(card.get_by_text("Read the rule to its end first.")).to_be_visible()
    await expect(card.get_by_role("button", name="Allow these calls")).to_be_disabled()
    await show_end(card.get_by_role("group", name="The rule"))
    await expect(card.get_by_role("button", name="Allow these calls")).to_be_enabled()


async def test_a_call_that_was_decided_cannot_be_allowed_and_the_page_says_by_whom(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/chats/c1", actor="user:ada")
    card = await begin_to_allow(page)
    await page.route("**/api/approvals", lambda route: route.abort())
    user = await screen.served.client()
    [asked] = (await user.get("/api/approvals")).json()["approvals"]

    async def reject_first(route: Any) -> None:
        await user.post(f"/api/approvals/{asked['id']}", json={"decision": "reject", "reason": "too dear"})
        await route.continue_()

    await page.route(f"**/api/approvals/{asked['id']}/rule", reject_first)
    await card.get_by_role("button", name="Allow these calls").click()
    await expect(page.locator(".outcome")).to_contain_text("Rejected by user:user")
    assert await rules(screen.served) == []


async def test_an_approver_sees_no_pattern_of_another_person(screen: Screen) -> None:
    await ask_for_order(screen.served, card="4111-secret")
    page = await screen.page("/chats/c1")
    await (await begin_to_allow(page)).get_by_role("button", name="Allow these calls").click()
    await expect(page.get_by_text("1 standing rule")).to_be_visible()
    approver = await screen.page("/chats/c1", role="approver")
    await approver.get_by_text("1 standing rule").click()
    await expect(approver.locator(".rules")).to_contain_text("your role does not see for which arguments")
    await expect(approver.get_by_role("button", name="End this rule")).to_be_visible()
    assert "4111-secret" not in await approver.content()
