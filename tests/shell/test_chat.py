"""Chats in a browser. Numbers are those of the acceptance checks in docs/shell.md."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.async_api import Browser, FilePayload, Page, Route, expect
from tests.provider import Provider
from tests.server.conftest import POLICY, serving_world
from tests.shell.conftest import Screen
from tests.shell.steps import ask_for_order, card_of, read_to_end, say
from tests.wire.test_attachments import PNG

from demiurge import Budgets
from demiurge.tools import Allowance

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")


async def test_check_21_of_a_result_of_20_mb_the_head_is_shown_and_the_whole_can_be_downloaded(screen: Screen) -> None:
    provider = screen.served.provider
    provider.say(provider.answer(provider.call("long_report", {})), provider.answer(provider.text("Reported.")))
    user = await screen.served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Report", "wait": True})
    page = await screen.page("/chats/c1")
    sizes: list[int] = []
    page.on("response", lambda response: sizes.append(int(response.headers.get("content-length", 0))))
    await page.reload()
    await expect(page.locator(".markdown")).to_have_text("Reported.")
    await page.get_by_text("Redacted result").click()
    await expect(page.locator(".card.tool")).to_contain_text("of 20000011 bytes")
    await expect(page.locator(".card.tool")).to_contain_text("The value has 20000011 bytes and is not shown here.")
    assert max(sizes) < 1_000_000
    async with page.expect_download() as coming:
        await page.get_by_role("link", name="Download all").click()
    download = await coming.value
    assert Path(await download.path()).stat().st_size > 20_000_000
    await expect(page.get_by_label("Message", exact=True)).to_be_editable()


async def test_the_owner_sees_what_the_model_was_told_and_a_viewer_the_redacted_result(screen: Screen) -> None:
    world, provider = screen.served.world, screen.served.provider
    call = provider.call("order_part", {"part": "bolt", "card": "4111-secret"})
    provider.say(provider.answer(call), provider.answer(provider.text("Ordered.")))
    reply = await world.chat("c1").send("Order")
    await world.decide(reply.approvals[0], approve=True)
    await world.settle()
    page = await screen.page("/chats/c1")
    card = page.locator(".card.tool")
    await card.get_by_text("Result ordered bolt").click()
    await expect(card.locator("details[open] pre")).to_have_text('ordered bolt\n\n{"order":7,"card":"4111-secret"}')
    await card.get_by_text("Redacted result").click()
    await expect(card.locator("details[open] pre").last).to_contain_text('"order": 7')
    viewing = await screen.page("/chats/c1", role="viewer")
    card = viewing.locator(".card.tool")
    await card.get_by_text("Redacted result").click()
    await expect(card.locator("details[open] pre")).to_contain_text('"order": 7')
    await expect(viewing.locator("main")).not_to_contain_text("4111-secret")


async def test_check_22_a_whole_chat_whose_unknown_cost_is_not_0(screen: Screen) -> None:
    provider = screen.served.provider
    call = provider.call("order_part", {"part": "bolt", "card": "4111-secret"})
    provider.say(provider.answer(call), provider.answer(provider.text("**Ordered** it.")))
    page = await screen.page()
    await page.get_by_label("Title of a new chat").fill("Shop")
    await page.get_by_role("button", name="New chat").click()
    await say(page, "Order a bolt")
    card = card_of(page)
    await expect(card).to_contain_text("4111-secret")
    await card.get_by_role("button", name="Approve this call").click()
    await expect(page.locator(".markdown strong")).to_have_text("Ordered")
    await expect(page.locator(".tool .state")).to_have_text("done")
    await expect(page.locator(".tokens")).to_have_text("20 tokens in, 10 out, cost unknown")


async def test_a_budget_that_nears_its_end_is_said_below_the_last_answer(screen: Screen) -> None:
    world, provider = screen.served.world, screen.served.provider
    await world.set_policy(replace(POLICY, budgets=Budgets(unit=Allowance(max_llm_requests=2))))
    provider.say(provider.answer(provider.text("Hello.")))
    for _ in range(2):
        await world.chat("c1").send("Hello.")
    page = await screen.page("/chats/c1")
    await expect(page.locator(".budget")).to_contain_text("This chat has used up the budget: 2 of 2 model requests.")
    await page.goto(f"{screen.served.base}/cost")
    told = page.get_by_label("Budgets that near their end")
    await expect(told).to_contain_text("This chat has used up the budget")


async def test_text_streams_while_the_model_writes_it_and_survives_a_reload(screen: Screen) -> None:
    provider = screen.served.provider
    provider.say(provider.answer(provider.text("one two three"), held=True))
    page = await screen.page("/chats")
    await page.get_by_role("button", name="New chat").click()
    await say(page, "Count")
    await expect(page.locator(".turn-status")).to_have_text("Answering …")
    await page.reload()
    await expect(page.locator(".turn-status")).to_have_text("Answering …")
    provider.let_go.set()
    await expect(page.locator(".markdown")).to_have_text("one two three")
    await expect(page.get_by_role("button", name="Send")).to_be_visible()


async def test_stop_ends_a_turn_and_the_message_can_be_said_again(screen: Screen) -> None:
    provider = screen.served.provider
    provider.say(provider.answer(provider.text("never"), held=True))
    page = await screen.page("/chats")
    await page.get_by_role("button", name="New chat").click()
    await say(page, "Count")
    await page.get_by_role("button", name="Stop").click()
    await expect(page.locator(".message .problem")).to_contain_text("This turn")
    await expect(page.locator(".turn-status")).to_have_text("Stopped")
    await expect(page.locator(".tokens")).to_have_text("Tokens and cost unknown")
    provider.let_go.set()
    provider.say(provider.answer(provider.text("now")))
    await page.get_by_role("button", name="Say it again").click()
    await expect(page.locator(".markdown")).to_have_text("now")


async def test_chats_are_found_by_their_title(screen: Screen) -> None:
    user = await screen.served.client()
    for title in ("Shop", "Garden"):
        await user.post("/api/chats", json={"title": title})
    page = await screen.page("/chats")
    await expect(page.locator(".chat-list li")).to_have_count(2)
    await page.get_by_label("Search chats").fill("gard")
    await expect(page.locator(".chat-list li")).to_have_text(["Garden"])


async def test_check_02_and_15_a_server_that_restarts_is_said_and_nothing_is_lost(
    tmp_path: Path, provider: Provider, browser: Browser, port: int
) -> None:
    async with serving_world(tmp_path / "w", provider, port) as first:
        screen = Screen(first, browser)
        await ask_for_order(first)
        page = await screen.page("/chats/c1")
        await expect(card_of(page).get_by_role("button", name="Approve this call")).to_be_enabled()
    await expect(page.get_by_text("The connection to the server is cut.")).to_be_visible()
    await expect(card_of(page)).to_contain_text("bolt")
    async with serving_world(tmp_path / "w", provider, port) as second:
        await expect(page.get_by_text("The connection to the server is cut.")).to_have_count(0, timeout=15_000)
        await expect(card_of(page).locator("[data-countdown]")).to_contain_text("6 d 23 h")
        user = await second.client()
        [asked] = (await user.get("/api/approvals")).json()["approvals"]
        await user.post(f"/api/approvals/{asked['id']}", json={"decision": "approve"})
        await expect(page.locator(".markdown")).to_have_text(["Ordered."])
        await expect(page.locator(".card.tool")).to_have_count(1)
        await page.context.close()
    assert screen.problems == []


@asynccontextmanager
async def suspended(page: Page) -> AsyncIterator[None]:
    """Lets no script of a page run, as a browser does with a window in the background."""
    session = await page.context.new_cdp_session(page)
    stopped = asyncio.Event()
    session.on("Debugger.paused", lambda _: stopped.set())
    await session.send("Debugger.enable")
    await session.send("Debugger.pause")
    await stopped.wait()
    yield
    await session.send("Debugger.resume")
    await session.detach()


async def test_check_16_a_window_in_the_background_catches_up(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/chats/c1")
    await expect(card_of(page)).to_contain_text("bolt")
    front = await page.context.new_page()
    await front.bring_to_front()
    user, provider = await screen.served.client(), screen.served.provider
    async with suspended(page):
        [asked] = (await user.get("/api/approvals")).json()["approvals"]
        await user.post(f"/api/approvals/{asked['id']}", json={"decision": "approve"})
        await screen.served.world.settle()
        provider.say(provider.answer(provider.text("One more.")))
        await user.post("/api/chats/c1/messages", json={"text": "And now?", "wait": True})
        await user.post("/api/chats", json={"chat_id": "c2", "title": "Another chat"})
    await page.bring_to_front()
    await expect(page.locator(".markdown")).to_have_text(["Ordered.", "One more."])
    await expect(page.locator(".message.user .plain")).to_have_text(["Order a bolt", "And now?"])
    await expect(page.locator(".tool .outcome")).to_contain_text("Approved by you")
    await expect(page.locator(".chat-list li")).to_have_text(["Another chat", re.compile("^Untitled, ")])
    await expect(page.locator(".count")).to_have_count(0)


async def many_lines(screen: Screen) -> Page:
    """A page with an answer that is higher than the view, scrolled to its middle."""
    provider = screen.served.provider
    provider.say(provider.answer(provider.text("line\n\n" * 80)))
    user = await screen.served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Many lines", "wait": True})
    page = await screen.page("/chats/c1")
    await expect(page.locator(".tokens")).to_be_in_viewport()
    resting = """() => {
        const { scrollTop } = document.querySelector(".viewport");
        const rests = scrollTop === window.lastTop;
        window.lastTop = scrollTop;
        return rests;
    }"""
    await page.locator(".viewport").hover()
    while not await page.get_by_role("button", name="To the newest").is_visible():
        await page.mouse.wheel(0, -900)
        await page.wait_for_function(resting, polling=200)
    await expect(page.locator(".tokens")).not_to_be_in_viewport()
    await expect(page.get_by_role("button", name="To the newest")).to_be_visible()
    return page


@pytest.mark.parametrize("comes", ["text that streams", "a card"])
async def test_check_17_a_view_that_was_scrolled_up_stays(screen: Screen, comes: str) -> None:
    page = await many_lines(screen)
    view, provider = page.locator(".viewport"), screen.served.provider
    before = await view.evaluate("(box) => box.scrollTop")
    call = provider.call("order_part", {"part": "bolt", "card": "4111"})
    items = provider.text("word " * 200 + "The last answer.") if comes == "text that streams" else call
    provider.say(provider.answer(items, held=True))
    user = await screen.served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Again"})
    await expect(page.locator(".turn-status")).to_have_text("Answering …")
    assert await view.evaluate("(box) => box.scrollTop") == before
    provider.let_go.set()
    coming = page.get_by_text("The last answer.") if comes == "text that streams" else card_of(page)
    await expect(coming).to_have_count(1)
    await screen.served.world.settle()
    assert await view.evaluate("(box) => box.scrollTop") == before
    await expect(coming).not_to_be_in_viewport()
    await page.get_by_role("button", name="To the newest").click()
    await expect(page.locator(".viewport-end")).to_be_in_viewport()


async def test_text_that_is_typed_while_a_message_is_being_sent_stays(screen: Screen) -> None:
    screen.served.provider.say(screen.served.provider.answer(screen.served.provider.text("Yes.")))
    page = await screen.page("/chats")
    await page.get_by_role("button", name="New chat").click()
    sent, let_go = asyncio.Event(), asyncio.Event()

    async def hold(route: Route) -> None:
        sent.set()
        await let_go.wait()
        await route.continue_()

    await page.route(lambda url: url.endswith("/messages"), hold, times=1)
    await say(page, "First")
    await sent.wait()
    await page.get_by_label("Message", exact=True).press_sequentially(" second")
    let_go.set()
    await expect(page.locator(".markdown")).to_have_text("Yes.")
    await expect(page.locator(".message.user .plain")).to_have_text(["First"])
    await expect(page.get_by_label("Message", exact=True)).to_have_value(" second")


async def test_check_13_a_card_that_comes_while_somebody_writes_in_the_chat_takes_neither_focus_nor_keys(
    screen: Screen,
) -> None:
    provider = screen.served.provider
    provider.say(provider.answer(provider.call("order_part", {"part": "bolt", "card": "4111"}), held=True))
    page = await screen.page("/chats")
    await page.get_by_role("button", name="New chat").click()
    await say(page, "Order a bolt")
    await expect(page.get_by_label("Message", exact=True)).to_have_value("")
    await page.get_by_label("Message", exact=True).press_sequentially("j a")
    provider.let_go.set()
    await expect(card_of(page).get_by_role("button", name="Approve this call")).to_be_visible()
    await expect(page.get_by_label("Message", exact=True)).to_be_focused()
    await page.keyboard.type(" r")
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Message", exact=True)).to_have_value("j a r")
    await expect(card_of(page).get_by_role("button", name="Reject")).to_be_visible()
    user = await screen.served.client()
    assert len((await user.get("/api/approvals")).json()["approvals"]) == 1


@pytest.mark.parametrize(("path", "panels"), [("/chats", 1), ("/chats/c1", 2), ("/approvals", 1)])
async def test_check_23_each_panel_says_that_it_is_empty_or_failed(screen: Screen, path: str, panels: int) -> None:
    """Each panel is seen to fail before the server answers again: so one press of each button is enough."""
    page = await screen.page("/chats")
    await expect(page.get_by_text("There is no chat yet.")).to_be_visible()
    await page.goto(screen.served.base + "/approvals")
    await expect(page.get_by_text("Nothing is waiting for you.")).to_be_visible()
    await (await screen.served.client()).post("/api/chats", json={"chat_id": "c1"})
    problem = '{"code": "unavailable", "message": "The world cannot do this now."}'
    for paths in ("**/api/chats**", "**/api/chats/**", "**/api/approvals"):
        await page.route(paths, lambda route: route.fulfill(status=503, body=problem))
    await page.goto(screen.served.base + path)
    failed = page.get_by_role("alert").filter(has_text="The world cannot do this now.")
    await expect(failed).to_have_count(panels)
    await page.unroute_all()
    # a button goes by itself when the stream begins anew, so it is pressed only if it is there
    await page.evaluate("document.querySelectorAll('.problem button').forEach((button) => button.click())")
    await expect(failed).to_have_count(0)


async def test_check_24_no_breach_of_the_content_security_policy_and_no_foreign_request(screen: Screen) -> None:
    provider = screen.served.provider
    text = "![x](https://example.com/x.png) <script>alert(1)</script> <b style='color:red'>b</b> [a](https://a.example)"
    provider.say(provider.answer(provider.text(text)))
    user = await screen.served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Show", "wait": True})
    page = await screen.page("/chats/c1")
    await expect(page.locator(".markdown")).to_contain_text("<script>alert(1)</script>")
    await expect(page.locator(".markdown img, .markdown script, .markdown b")).to_have_count(0)
    assert screen.problems == []


async def _violations(page: Page) -> list[str]:
    await page.evaluate(AXE)
    found = await page.evaluate("axe.run()")
    return [f"{each['id']}: {[node['html'][:120] for node in each['nodes']]}" for each in found["violations"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
async def test_check_25_axe_finds_nothing(screen: Screen, width: int, scheme: str) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/chats/c1", viewport={"width": width, "height": 800}, color_scheme=scheme)
    await expect(card_of(page).get_by_role("button", name="Approve this call")).to_be_enabled()
    assert await _violations(page) == []
    await page.goto(screen.served.base + "/approvals")
    await expect(card_of(page).get_by_role("button", name="Approve this call")).to_be_enabled()
    assert await _violations(page) == []
    wide = await page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
async def test_check_25_axe_finds_nothing_in_second_steps_titles_and_attached_files(
    screen: Screen, width: int, scheme: str
) -> None:
    await ask_for_order(screen.served, part="bolts/m4")
    page = await screen.page("/chats/c1", viewport={"width": width, "height": 800}, color_scheme=scheme)
    card = card_of(page)

    async def check() -> None:
        assert await _violations(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= width

    await card.get_by_role("button", name="Change arguments").click()
    await card.get_by_label("part").fill("nut")
    await expect(card.get_by_role("group", name="Changed arguments")).to_be_visible()
    await check()
    await card.get_by_role("button", name="Back").press("Enter")  # a key meets the button wherever the page scrolls
    begin = card.get_by_role("button", name="Allow in this chat")
    await read_to_end(card.get_by_role("group", name="Arguments", exact=True), begin)
    await begin.click()
    await card.get_by_label("part", exact=True).select_option(label="like a pattern")
    await card.get_by_label("Pattern of part").fill("nuts/*")
    await expect(card.get_by_text("This call does not match the pattern.")).to_be_visible()
    await check()
    await card.get_by_label("Pattern of part").fill("bolts/*")
    allow = card.get_by_role("button", name="Allow these calls")
    await read_to_end(card.get_by_role("group", name="The rule"), allow)
    await allow.click()
    await page.get_by_text("1 standing rule").click()
    await page.get_by_role("button", name="Rename").click()
    files: list[FilePayload] = [
        {"name": "dot.png", "mimeType": "image/png", "buffer": PNG},
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"x"},
    ]
    await page.locator("input[type=file][multiple]").set_input_files(files)
    await expect(page.get_by_role("alert")).to_be_visible()
    await check()


async def test_without_a_session_the_page_says_how_to_log_in(screen: Screen) -> None:
    context = await screen.browser.new_context()
    screen.contexts.append(context)
    page = await context.new_page()
    await page.goto(screen.served.base + "/chats/c1")
    await expect(page.get_by_role("heading", name="Log in to Demiurge")).to_be_visible()
    await page.get_by_label("Token").fill("wrong")
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("alert")).to_contain_text("not valid")
    made = await screen.served.world.tokens.add("user:ada", ["user"])
    await page.get_by_label("Token").fill(made.secret)
    await page.get_by_role("button", name="Log in").click()
    await expect(page.get_by_role("button", name="Log out")).to_be_visible()
    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_role("heading", name="Log in to Demiurge")).to_be_visible()
