"""The approval card in the chat and in the inbox. Numbers are those of the acceptance checks in docs/shell.md."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from playwright.async_api import Browser, Route, expect
from tests.provider import Provider
from tests.server.conftest import ENVIRONMENT, order_part, served_on
from tests.shell.conftest import LONGEST_MS, Screen
from tests.shell.steps import approval_records, ask_for_order, card_of, reject, say

from demiurge import World
from demiurge.bootstrap.workspace import Workspace


async def test_check_01_a_waiting_card_and_its_countdown_are_there_after_a_reload(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/chats/c1")
    for _ in range(2):
        await expect(card_of(page).get_by_role("button", name="Approve this call")).to_be_enabled()
        await expect(card_of(page).locator("[data-countdown]")).to_contain_text("6 d 23 h")
        await page.reload()


async def test_a_card_says_in_words_which_line_of_the_policy_asks(
    tmp_path: Path, provider: Provider, browser: Browser
) -> None:
    opening = World.open(
        tmp_path / "w",
        [order_part],
        provider="openai-responses",
        base_url=provider.url,
        environment=ENVIRONMENT,
    )
    async with opening as world, served_on(world, provider) as served:
        await ask_for_order(served)
        page = await Screen(served, browser).page("/chats/c1")
        await expect(card_of(page)).to_contain_text("every call of order_part is asked for")
        line = '[{"rule":"require_approval_for_tools","tool":"order_part"}]'
        await expect(card_of(page).get_by_title(line)).to_have_text("every call of order_part is asked for")
        await page.context.close()


async def test_check_03_a_decided_card_has_no_buttons_after_a_reload(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/chats/c1")
    await card_of(page).get_by_role("button", name="Approve this call").click()
    await expect(page.locator(".markdown")).to_have_text("Ordered.")
    await page.reload()
    await expect(page.locator(".tool .outcome")).to_contain_text("Approved by you")
    await expect(page.get_by_role("button", name="Approve this call")).to_have_count(0)
    await expect(page.get_by_role("button", name="Reject")).to_have_count(0)


async def test_check_04_another_window_says_within_2_seconds_who_decided(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page, other = await screen.page("/approvals"), await screen.page("/approvals", actor="user:ada")
    await expect(card_of(other)).to_contain_text("bolt")
    await other.clock.install()
    await other.clock.pause_at(await other.evaluate("Date.now() + 1000"))
    await reject(card_of(page), "too dear")
    outcome = card_of(other).locator(".outcome")
    for _ in range(20):  # 2 seconds of that window's own clock, however long this machine takes over them
        await other.clock.run_for(100)
        if await outcome.count():
            break
        await asyncio.sleep(LONGEST_MS / 1000 / 20)
    await expect(outcome).to_contain_text("Rejected by user:user")
    await expect(outcome).to_contain_text("too dear")
    await expect(card_of(other).get_by_role("button", name="Approve this call")).to_have_count(0)


async def test_an_approver_is_told_who_approved_and_that_the_reason_is_withheld(screen: Screen) -> None:
    await ask_for_order(screen.served)
    other = await screen.page("/approvals", role="approver")
    await expect(card_of(other)).to_contain_text("bolt")
    user = await screen.served.client()
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    given = {"decision": "approve", "reason": "the card is 4111"}
    await user.post(f"/api/approvals/{asked['id']}", json=given)
    await expect(card_of(other).locator(".outcome")).to_contain_text("Approved by user:user")
    await expect(card_of(other).locator(".outcome")).to_contain_text("your role does not see the reason")


async def test_check_05_of_two_people_who_decide_one_wins_and_the_other_is_told(screen: Screen) -> None:
    await ask_for_order(screen.served)
    late = await screen.page("/approvals", actor="user:ada")
    await expect(card_of(late)).to_contain_text("bolt")
    await late.route("**/api/approvals", lambda route: route.abort())
    user = await screen.served.client()
    [asked] = (await user.get("/api/approvals")).json()["approvals"]

    async def decide_first(route: Route) -> None:
        await user.post(f"/api/approvals/{asked['id']}", json={"decision": "approve"})
        await route.continue_()

    await late.route(f"**/api/approvals/{asked['id']}", decide_first)
    await reject(card_of(late))
    await expect(card_of(late).locator(".outcome")).to_contain_text("Approved by user:user")
    assert [each["verdict"] for each in await approval_records(screen.served)] == ["approve"]


async def test_check_06_and_07_expiry_goes_by_the_servers_clock_and_takes_the_buttons_away(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/login-is-done")

    async def soon(route: Route) -> None:
        answer = await (await route.fetch()).json()
        for each in answer["approvals"]:
            each["expires_ns"] = answer["now_ns"] + 4_000_000_000
        await route.fulfill(body=json.dumps(answer), content_type="application/json")

    await page.add_init_script("const real = Date.now; Date.now = () => real() + 9e8;")
    await page.goto(screen.served.base + "/approvals")
    await expect(card_of(page).locator("[data-countdown]")).to_contain_text("6 d 23 h")
    await page.route("**/api/approvals", soon)
    await page.reload()
    await expect(card_of(page).get_by_role("button", name="Approve this call")).to_be_visible()
    await expect(card_of(page).locator(".outcome")).to_contain_text("Expired at", timeout=10_000)
    await expect(card_of(page).get_by_role("button", name="Approve this call")).to_have_count(0)


async def test_check_08_a_double_click_is_one_decision(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/chats/c1")
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    await card_of(page).get_by_role("button", name="Approve this call").dblclick()
    await expect(page.locator(".markdown")).to_have_text("Ordered.")
    assert len(posts) == 1
    assert len(await approval_records(screen.served)) == 1


async def test_check_09_the_reason_of_a_rejection_reaches_the_model_and_the_journal(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/chats/c1")
    await reject(card_of(page), "Buy the cheaper one")
    await expect(page.locator(".tool .outcome")).to_contain_text("Buy the cheaper one")
    await expect(page.locator(".markdown")).to_have_text("Ordered.")
    assert "Buy the cheaper one" in str(screen.served.provider.seen[-1])
    assert [each["reason"] for each in await approval_records(screen.served)] == ["Buy the cheaper one"]


async def test_check_10_a_long_argument_is_read_to_its_end_before_it_can_be_approved(screen: Screen) -> None:
    await ask_for_order(screen.served, part="word " * 20_000 + "THE END")
    page = await screen.page("/approvals")
    approve = card_of(page).get_by_role("button", name="Approve this call")
    await expect(card_of(page)).to_contain_text("THE END")
    await expect(approve).to_be_disabled()
    await expect(card_of(page).get_by_role("button", name="Reject")).to_be_enabled()
    await card_of(page).locator(".arguments-box").evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
    await expect(approve).to_be_enabled()


async def test_check_11_arguments_are_shown_verbatim(screen: Screen) -> None:
    await ask_for_order(screen.served, part="**a** <img src=x onerror=alert(1)>\u202etxt.exe\u200b")
    page = await screen.page("/approvals")
    box = card_of(page).locator(".arguments-box")
    await expect(box).to_contain_text("**a** <img src=x onerror=alert(1)>U+202Etxt.exeU+200B")
    await expect(box.locator("img, strong")).to_have_count(0)


async def test_check_13_a_card_that_comes_while_somebody_types_takes_neither_focus_nor_keys(screen: Screen) -> None:
    page = await screen.page("/approvals")
    await expect(page.get_by_text("Nothing is waiting for you.")).to_be_visible()
    await page.goto(screen.served.base + "/chats")
    await page.get_by_label("Search chats").focus()
    await ask_for_order(screen.served)
    await expect(page.locator(".count")).to_contain_text("1")
    await page.keyboard.type("ara")
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Search chats")).to_have_value("ara")
    assert await approval_records(screen.served) == []


async def test_check_14_the_keyboard_alone_decides(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/approvals")
    await expect(card_of(page).get_by_role("button", name="Approve this call")).to_be_enabled()
    await page.keyboard.press("j")
    await expect(card_of(page)).to_be_focused()
    await page.keyboard.press("a")
    await expect(card_of(page).get_by_role("button", name="Approve this call")).to_be_focused()
    assert await approval_records(screen.served) == []
    await page.keyboard.press("Enter")
    await expect(card_of(page).locator(".outcome")).to_contain_text("Approved by you")
    assert [each["verdict"] for each in await approval_records(screen.served)] == ["approve"]


async def test_a_file_that_is_written_is_shown_as_a_difference(screen: Screen) -> None:
    provider = screen.served.provider
    await Workspace(screen.served.world, "main").write("notes.txt", b"one\ntwo\nthree\n")
    write = {"path": "notes.txt", "text": "one\n2\nthree\n"}
    provider.say(provider.answer(provider.call("workspace__write", write)), provider.answer(provider.text("Written.")))
    page = await screen.page("/chats")
    await page.get_by_role("button", name="New chat").click()
    await say(page, "Write it")
    await expect(card_of(page).locator(".removed")).to_have_text("- two")
    await expect(card_of(page).locator(".added")).to_have_text("+ 2")
    await card_of(page).get_by_role("button", name="Approve this call").click()
    await expect(page.locator(".markdown")).to_have_text("Written.")
