"""The journal in a browser: what its rows say, how it is searched, and how it holds up when there is much of it."""

from __future__ import annotations

import asyncio
from typing import Any

from playwright.async_api import Locator, Page, expect
from tests.server.conftest import Served
from tests.shell.conftest import Screen
from tests.shell.cut_connection import cuttable_connection
from tests.shell.steps import ask_for_order

UNIT = "demiurge/Demiurge@1/c1"


async def make_chats(served: Served, count: int, first: int = 0) -> None:
    """Appends at least twice as many records as `count`."""
    for start in range(first, first + count, 100):
        values = [
            {"$tag": "ChatCreated", "$value": {"chat_id": f"x{n}", "title": "t", "created_at_ms": 1}}
            for n in range(start, min(start + 100, first + count))
        ]
        await asyncio.gather(*(served.world.submit("demiurge/ChatEvent@1", value) for value in values))


async def length(served: Served) -> int:
    return int((await (await served.client()).get("/api/journal/head")).json()["length"])


def rows(page: Page) -> Locator:
    return page.locator(".rows").get_by_role("option")


def requests_for(page: Page, path: str) -> list[str]:
    """The requests that the page makes from now on whose address has `path` in it."""
    made: list[str] = []
    page.on("request", lambda request: made.append(request.url) if path in request.url else None)
    return made


async def test_check_18_a_link_to_record_4000_of_5000_focuses_it(screen: Screen) -> None:
    await make_chats(screen.served, 2500)
    assert await length(screen.served) > 5000
    page = await screen.page("/journal?at=4000")
    await expect(page.locator("[data-place='3999']")).to_be_focused()
    await expect(page.get_by_role("region", name="Record")).to_contain_text('"position": 4000')
    shown = (await (await screen.served.client()).get("/api/journal", params={"from": 4000, "limit": 1})).json()
    [record] = shown["records"]
    await page.goto(f"{screen.served.base}/journal?unit={record['unit']}&seq={record['seq']}")
    await expect(page.locator(f"[data-place='{record['seq']}']")).to_be_focused()
    await expect(page.get_by_role("region", name="Record")).to_contain_text('"position": 4000')


async def test_a_journal_of_5000_records_mounts_and_reads_only_what_is_in_view(screen: Screen) -> None:
    await make_chats(screen.served, 2500)
    page = await screen.page("/chats")
    whole = await length(screen.served)
    asked, bodies = requests_for(page, "/api/journal/rows"), requests_for(page, "/api/journal?")
    await page.get_by_role("link", name="Journal").click()
    await expect(page.locator(f"[data-place='{whole - 1}']")).to_contain_text(str(whole))
    assert await rows(page).count() < 60
    await page.locator(".rows").press("Home")
    await expect(page.locator("[data-place='0']")).to_be_focused()
    await expect(page.locator("[data-place='0']")).to_contain_text("manifest_replaced")
    await page.keyboard.press("End")
    await expect(page.locator(f"[data-place='{whole - 1}']")).to_be_focused()
    assert await page.locator("main *").count() < 800
    assert len(asked) <= 6, asked
    assert len(bodies) <= 2, bodies


async def test_rows_say_what_happened_and_keys_move_between_them(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page(f"/journal?unit={UNIT}&seq=6")
    chosen = page.locator("[role=option][aria-selected=true]")
    await expect(chosen).to_contain_text("llm.generate gpt-5-mini")
    await expect(chosen).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await expect(chosen).to_contain_text("receipt")
    await page.keyboard.press("End")
    await expect(chosen).to_contain_text("tool.call order_part")
    await expect(chosen).to_contain_text("waits for a person")
    assert "seq=12" in page.url
    await expect(page.get_by_role("region", name="Record")).to_contain_text('"approval"')
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Record")).to_be_focused()
    await page.get_by_role("link", name="Its cause").click()
    await expect(chosen).to_contain_text("demiurge/ToolCallRequested@1")


async def test_one_click_shows_what_failed_or_waits_and_the_filters_are_in_the_url(screen: Screen) -> None:
    await ask_for_order(screen.served)
    await make_chats(screen.served, 20)
    page = await screen.page("/journal")
    await page.get_by_role("button", name="Failed or waiting").click()
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("waits for a person")
    assert "attention=true" in page.url
    await page.get_by_role("button", name="Failed or waiting").click()
    await expect(rows(page).first).to_be_visible()
    await page.get_by_label("Text").fill("CHAT_PLAN")
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Text")).to_be_focused()
    await page.get_by_label("Kind").select_option("plan_ended")
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("demiurge/chat_plan@1")
    await page.reload()
    await expect(rows(page)).to_have_count(1)
    await rows(page).click()
    await expect(page.get_by_role("region", name="Record")).to_contain_text('"plan_ended"')
    await page.get_by_role("link", name="Clear").click()
    await expect(page.get_by_label("Kind")).to_have_value("")


async def test_a_search_says_how_far_it_looked_and_that_new_records_came(screen: Screen) -> None:
    await make_chats(screen.served, 2600)
    page = await screen.page("/journal?text=manifest_replaced")
    await expect(page.get_by_text("None of the newest")).to_be_visible()
    await page.get_by_role("button", name="Search older records").click()
    await expect(rows(page)).to_have_count(1)
    await expect(page.get_by_role("button", name="Search older records")).to_have_count(0)
    await make_chats(screen.served, 1, first=9000)
    await page.get_by_role("button", name="new; search again").click()
    await expect(page.get_by_role("button", name="new; search again")).to_have_count(0)


async def test_calls_are_rows_with_how_they_ended(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/journal")
    await page.get_by_role("link", name="Calls", exact=True).click()
    await expect(rows(page)).to_have_count(2)
    await expect(rows(page).first).to_contain_text("tool.call order_part")
    await expect(rows(page).first).to_contain_text("waits for a person")
    await expect(rows(page).last).to_contain_text("done")


async def test_json_is_read_record_by_record_with_keys(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/journal?view=json&at=5")
    record = page.get_by_role("group", name="The record as JSON")
    await expect(record).to_contain_text('"position": 5')
    await page.get_by_role("button", name="Newer").click()
    await expect(record).to_contain_text('"position": 6')
    await page.keyboard.press("h")
    await expect(record).to_contain_text('"position": 5')
    await page.keyboard.press("ArrowRight")
    await expect(record).to_contain_text('"position": 6')
    await page.get_by_role("slider").press("Home")
    await expect(record).to_contain_text('"position": 1,')
    await expect(page.get_by_role("button", name="Older")).to_be_disabled()


async def test_check_16_and_17_new_records_are_counted_and_do_not_move_a_view_that_looks_back(screen: Screen) -> None:
    await make_chats(screen.served, 50)
    page = await screen.page("/journal?at=1")
    await expect(page.locator("[data-place='0']")).to_be_focused()
    before = await page.locator(".rows").evaluate("each => each.scrollTop")
    await make_chats(screen.served, 4, first=1000)
    await expect(page.get_by_role("button", name="12 new")).to_be_visible()
    assert await page.locator(".rows").evaluate("each => each.scrollTop") == before
    await page.get_by_role("button", name="12 new").click()
    whole = await length(screen.served)
    await expect(page.locator(f"[data-place='{whole - 1}']")).to_be_in_viewport()
    await make_chats(screen.served, 1, first=2000)
    await expect(page.locator(f"[data-place='{whole + 2}']")).to_be_in_viewport()
    await expect(page.get_by_role("button", name="new")).to_have_count(0)


async def test_a_call_that_ends_changes_its_row(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page(f"/journal?unit={UNIT}")
    waiting = page.locator("[data-place='12']")
    await expect(waiting).to_contain_text("waits for a person")
    user = await screen.served.client()
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    await user.post(f"/api/approvals/{asked['id']}", json={"decision": "approve"})
    await expect(waiting).not_to_contain_text("waits for a person")
    await expect(waiting).to_contain_text("tool.call order_part")


async def test_check_15_a_stream_that_is_cut_is_said_and_no_record_is_lost_or_shown_twice(screen: Screen) -> None:
    async with cuttable_connection(screen.served.base) as connection:
        page = await screen.page("/journal", base=connection.base)
        await expect(rows(page).first).to_be_visible()
        await make_chats(screen.served, 1, first=8000)
        await expect(page.get_by_text(f"{await length(screen.served)} records.")).to_be_visible()  # the stream is open
        connection.cut_streams_after(b"x29")  # in the middle of the records of these chats
        await make_chats(screen.served, 60)
        banner = page.get_by_text("The connection to the server is cut.")
        await expect(banner).to_be_visible()
        await expect(rows(page).first).to_be_visible()
        await make_chats(screen.served, 60, first=500)
        connection.mend()
        await expect(banner).to_have_count(0)
        whole = await length(screen.served)
        await expect(page.get_by_text(f"{whole} records.")).to_be_visible()
        await make_chats(screen.served, 1, first=9000)
        whole = await length(screen.served)
        await expect(page.get_by_text(f"{whole} records.")).to_be_visible()
        await page.locator(".rows").press("Home")
        seen = dict[int, str]()
        while len(seen) < whole:
            await expect(page.get_by_text("…", exact=True)).to_have_count(0)
            shown: list[list[Any]] = await rows(page).evaluate_all(
                "each => each.map(row => [+row.dataset.place, row.querySelector('.number').textContent])"
            )
            assert all(seen.setdefault(place, position) == position for place, position in shown)
            await page.keyboard.press("PageDown")
        assert [seen[place] for place in range(whole)] == [str(n + 1) for n in range(whole)]


async def test_redacted_cut_and_erased_content_is_marked(screen: Screen) -> None:
    served = screen.served
    await ask_for_order(served)
    viewer = await screen.page(f"/journal?unit={UNIT}&seq=6", role="viewer")
    await expect(viewer.locator(".mark")).to_contain_text("Redacted: your role does not see params.api_key")
    await expect(viewer.locator(".redacted-value").first).to_be_visible()
    await expect(viewer.get_by_role("group", name="The record as JSON")).not_to_contain_text("$withheld")

    user = await served.client()
    answer = await user.post("/api/chats/c2/messages", json={"text": "word " * 4000, "wait": False})
    assert answer.status_code == 202, answer.text
    records = (await user.get("/api/journal", params={"unit": "demiurge/Demiurge@1/c2"})).json()["records"]
    [message] = [each for each in records if "message_ref" in each["body"].get("value", {}).get("$value", {})]
    ref = message["body"]["value"]["$value"]["message_ref"]
    page = await screen.page(f"/journal?unit=demiurge/Demiurge@1/c2&seq={message['seq']}")
    await page.get_by_text("that the record names").click()
    blob = page.locator(".blob", has_text=ref)
    await blob.get_by_role("button", name="Show the beginning").click()
    await expect(blob.locator(".mark")).to_contain_text("Cut: the first 4,096 of 20,0")
    await expect(blob.get_by_role("link", name="Download")).to_be_visible()

    await served.world.settle()
    await served.world.erase(ref, "they asked for it")
    await page.reload()
    await page.get_by_text("that the record names").click()
    await blob.get_by_role("button", name="Show the beginning").click()
    await expect(blob.locator(".mark")).to_contain_text("Erased by user")
    await expect(blob.locator(".mark")).to_contain_text("they asked for it")


async def test_check_21_of_a_blob_of_20_mb_the_head_is_shown_and_the_page_stays_alive(screen: Screen) -> None:
    provider, user = screen.served.provider, await screen.served.client()
    provider.say(provider.answer(provider.call("long_report", {})), provider.answer(provider.text("Reported.")))
    await user.post("/api/chats/c1/messages", json={"text": "Report", "wait": True})
    receipts = (await user.get("/api/journal", params={"unit": UNIT, "kind": "receipt"})).json()["records"]
    [report] = [each for each in receipts if each["body"]["payload"].get("view_ref")]
    page = await screen.page("/chats")
    sizes: list[int] = []
    page.on("response", lambda response: sizes.append(int(response.headers.get("content-length", 0))))
    await page.goto(f"{screen.served.base}/journal?unit={UNIT}&seq={report['seq']}")
    await page.get_by_text("that the record names").click()
    blob = page.locator(".blob", has_text=report["body"]["payload"]["view_ref"]).first
    await blob.get_by_role("button", name="Show the beginning").click()
    await expect(blob.locator(".mark")).to_contain_text("Cut: the first 4,096 of 20,000,0")
    assert max(sizes) < 1_000_000
    async with page.expect_download() as coming:
        await blob.get_by_role("link", name="Download").click()
    assert (await (await coming.value).path()).stat().st_size > 20_000_000
    await page.locator("[role=option][aria-selected=true]").press("Home")
    await expect(page.locator("[data-place='0']")).to_be_focused()


async def test_the_journal_is_verified_against_a_seal_that_was_kept(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/journal")
    await page.get_by_text("Verify", exact=True).click()
    await page.get_by_role("button", name="Verify every record").click()
    await expect(page.get_by_text("Sound:")).to_be_visible()
    seal = await page.locator(".verify code").inner_text()
    await make_chats(screen.served, 3)
    await page.get_by_label("A seal that you kept").fill(seal)
    await page.get_by_role("button", name="Verify every record").click()
    await expect(page.get_by_text("Sound:")).to_be_visible()
    await page.get_by_label("A seal that you kept").fill(seal[:-1] + ("0" if seal[-1] != "0" else "1"))
    await page.get_by_role("button", name="Verify every record").click()
    await expect(page.locator(".verify")).to_contain_text("seal")
    await expect(page.get_by_text("Sound:")).to_have_count(0)
