"""Pages say in words how calls and turns ended, and everywhere the same."""

from __future__ import annotations

import json

from playwright.async_api import expect
from tests.shell.conftest import Screen
from tests.shell.steps import ask_for_order

CHANGED = {"decision": "approve", "arguments_json": json.dumps({"part": "nut", "card": "4111"})}
REJECTED = {"decision": "reject", "reason": "too dear"}


async def test_cards_calls_and_traces_say_who_changed_or_rejected_a_call(screen: Screen) -> None:
    user = await screen.served.client()
    screen.served.provider.title = "Orders"
    for chat, decision in (("c1", CHANGED), ("c2", REJECTED)):
        await ask_for_order(screen.served, chat)
        [asked] = (await user.get("/api/approvals")).json()["approvals"]
        await user.post(f"/api/approvals/{asked['id']}", json=decision)
        await screen.served.world.settle()
    page = await screen.page("/chats/c2")
    head = page.get_by_label("Call of order_part").locator("header")
    await expect(head.locator(".state")).to_have_text("rejected by user:user")
    await expect(head).not_to_contain_text("failed")
    await expect(head).not_to_contain_text(" ms")
    await page.goto(screen.served.base + "/chats/c1")
    await expect(head).to_contain_text("done")
    await expect(head).to_contain_text("changed by user:user")
    await page.goto(screen.served.base + "/journal?view=calls&text=order_part")
    states = page.get_by_role("option").locator(".state")
    await expect(states).to_contain_text(["rejected by user:user", "done", "changed by user:user"])
    await expect(states.first).not_to_contain_text(" ms")
    await page.goto(screen.served.base + "/trace?chat=c1")
    await expect(page.get_by_role("row").filter(has_text="changed by user:user")).to_have_count(1)
    await expect(page.get_by_role("treegrid").get_by_text("denied")).to_have_count(0)
    await expect(page.locator(".state.denied, .state.failed")).to_have_count(0)


async def test_a_question_waits_for_a_person_and_an_earlier_turn_shows_its_failure(screen: Screen) -> None:
    provider, user = screen.served.provider, await screen.served.client()
    question = provider.call("core__ask_user", {"question": "Which?", "choices": ["red", "blue"]})
    provider.say(provider.answer(provider.text("")), provider.answer(question), provider.answer(provider.text("Red.")))
    for text in ("One", "Two"):
        await user.post("/api/chats/c1/messages", json={"text": text, "wait": True})
    page = await screen.page("/chats/c1")
    await expect(page.get_by_label("Chats").get_by_text("waits for a person")).to_be_visible()
    await expect(page.get_by_text("waits for approval")).to_have_count(0)
    await expect(page.locator("#answered-1").get_by_text("This turn failed.")).to_be_visible()
    await page.get_by_role("button", name="red").click()
    await expect(page.get_by_label("Question of the model").locator(".state")).to_have_text("answered by user:user")
