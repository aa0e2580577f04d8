"""The panels for tools, workspaces, the manifest and costs in a browser."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect
from tests.server.conftest import Served
from tests.shell.conftest import Screen
from tests.shell.steps import ask_for_order, card_of

NARROW = {"width": 360, "height": 800}


async def write(served: Served, workspace: str, path: str, *contents: bytes) -> None:
    """Writes a file, each content as a version."""
    user = await served.client()
    for content in contents:
        answer = await user.put(f"/api/workspace/{workspace}/file", params={"path": path}, content=content)
        assert answer.status_code == 200, answer.text


async def test_a_tool_says_its_effect_source_decision_uses_and_tokens(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/tools")
    line = page.locator("summary", has_text="order_part")
    for said in ("state_change", "yours", "a person decides", "1 call,", "tokens"):
        await expect(line).to_contain_text(said)
    await show_shipped(page)
    await expect(page.locator("summary", has_text="workspace__list")).to_contain_text("denied")
    await line.click()
    opened = page.locator("details[open]")
    await expect(opened).to_contain_text("its effect is among require_approval_for_effects")
    assert "tool=order_part" in page.url
    await opened.get_by_role("link", name="Show them in the journal").click()
    await expect(page.locator(".rows").get_by_role("option")).to_have_count(1)
    await expect(page.locator(".rows").get_by_role("option")).to_contain_text("waits for a person")


async def show_shipped(page: Page) -> None:
    await page.get_by_role("button", name=re.compile(r"Show the \d+ tools that come with Demiurge")).click()


async def test_the_tools_that_every_world_has_are_folded_and_come_after_all_others(screen: Screen) -> None:
    page = await screen.page("/tools")
    items = page.locator("summary[data-item]")
    await expect(items.first).to_contain_text("yours")
    await expect(items.last).to_contain_text("yours")
    await show_shipped(page)
    await expect(items.first).to_contain_text("yours")
    await expect(items.last).to_contain_text("shipped")


async def test_tools_are_found_by_text_and_reached_by_keys(screen: Screen) -> None:
    page = await screen.page("/tools")
    await show_shipped(page)
    items = page.locator("summary[data-item]")
    await items.first.focus()
    await page.keyboard.press("ArrowDown")
    await expect(items.nth(1)).to_be_focused()
    await page.keyboard.press("End")
    await expect(items.last).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("details[open] > summary[data-item]")).to_contain_text("workspace__write")
    await page.keyboard.press("Home")
    await expect(items.first).to_be_focused()
    await page.get_by_label("Find").fill("ORDER")
    await expect(items).to_have_count(1)


async def test_a_person_calls_a_tool_and_the_policy_decides_the_call(screen: Screen) -> None:
    page = await screen.page("/tools?tool=order_part")
    opened = page.locator("details.card[open]")
    await expect(opened).to_contain_text("Order a part.")
    await expect(opened.locator("p.plain")).to_have_text("The shop sends it the next day.")
    await opened.get_by_text("Call this tool").click()
    await opened.get_by_label("part text").fill("bolt \u201cM8\u201d")
    await opened.get_by_label("card text").fill("4111")
    await opened.get_by_role("button", name="Call order_part").click()
    outcome = page.get_by_role("region", name="Outcome of the call")
    await expect(outcome).to_contain_text("waits for a person")
    await outcome.get_by_role("link", name="decide it").click()
    await expect(card_of(page)).to_contain_text("bolt \u201cM8\u201d")
    await card_of(page).get_by_role("button", name="Approve this call").click()
    await expect(card_of(page).locator(".outcome")).to_contain_text("Approved by you")
    await page.goto(screen.served.base + "/tools?tool=core__get_current_time")
    await opened.get_by_text("Call this tool").click()
    await opened.get_by_role("button", name="Call core__get_current_time").click()
    await expect(outcome).to_contain_text("done")
    await outcome.get_by_role("button", name="Show the beginning").first.click()
    await expect(outcome.locator("pre")).to_contain_text("20")
    viewer = await screen.page("/tools?tool=core__get_current_time", role="viewer")
    await expect(viewer.locator("details.card[open] .json")).to_be_visible()
    await expect(viewer.get_by_text("Call this tool")).to_have_count(0)


async def test_standing_rules_are_listed_with_the_manifest_and_ended_there(screen: Screen) -> None:
    await ask_for_order(screen.served)
    user = await screen.served.client()
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    allowed = await user.post(f"/api/approvals/{asked['id']}/rule", json={"count": 3})
    assert allowed.status_code == 200, allowed.text
    page = await screen.page("/manifest?explain=order_part")
    await expect(page.get_by_text("1 standing rule, below.")).to_be_visible()
    rule = page.locator(".rule-list li").first
    await expect(rule).to_contain_text("order_part")
    await rule.get_by_role("button", name="End this rule").click()
    await expect(page.get_by_text("No standing rule holds.")).to_be_visible()
    await expect(page.get_by_text("1 standing rule, below.")).to_have_count(0)


async def test_any_two_versions_are_compared_side_by_side(screen: Screen) -> None:
    lines = [f"line {n}" for n in range(40)]
    changed = [*lines[:20], "a new line", *lines[20:30], "LINE 30", *lines[31:]]
    await write(screen.served, "shop", "a.txt", b"other")
    await write(screen.served, "shop", "notes.txt", "\n".join(lines).encode(), "\n".join(changed).encode())
    page = await screen.page("/workspaces?name=shop")
    await page.get_by_label("From @").fill("1")
    await page.get_by_role("button", name="Compare").click()
    await expect(page.get_by_role("heading", name="notes.txt (new)")).to_be_visible()
    await page.get_by_role("link", name="what changed").first.click()
    table = page.locator(".side-by-side")
    await expect(table.locator("td.added")).to_have_text(["added: a new line", "added: LINE 30"])
    await expect(table.locator("td.removed")).to_have_text(["removed: line 30"])
    await expect(table).to_contain_text("17 lines are the same")
    assert "old=2" in page.url


async def test_a_narrow_screen_shows_a_difference_as_one_column(screen: Screen) -> None:
    await write(screen.served, "shop", "notes.txt", b"one\ntwo\nthree\n", b"one\n2\nthree\n")
    page = await screen.page("/workspaces?name=shop&version=2&old=1", viewport=NARROW)
    rows = page.locator(".unified tr")
    await expect(rows).to_have_text(["1  one", "2- removed: two", "2+ added: 2", "3  three"])
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360


async def test_a_file_is_shown_by_its_head_and_bytes_are_named(screen: Screen) -> None:
    await write(screen.served, "shop", "data/big.txt", b"line of text\n" * 100_000)
    await write(screen.served, "shop", "data/raw.bin", b"\xff\xfe\x00\x01" * 100)
    page = await screen.page("/workspaces?name=shop")
    await page.get_by_text("data/", exact=True).click()
    await page.get_by_role("link", name="big.txt").click()
    file = page.get_by_role("region", name="File data/big.txt")
    await expect(file.locator(".mark")).to_contain_text("Cut: the first 200,000 of 1,300,000 bytes.")
    await expect(file.locator("code")).to_contain_text("sha256:")
    async with page.expect_download() as coming:
        await file.get_by_role("link", name="Download").click()
    assert (await (await coming.value).path()).stat().st_size == 1_300_000
    await page.get_by_role("link", name="raw.bin").click()
    await expect(page.get_by_role("region", name="File data/raw.bin")).to_contain_text("not shown as text")


async def test_files_and_versions_are_reached_by_keys(screen: Screen) -> None:
    await write(screen.served, "shop", "a/one.txt", b"1")
    await write(screen.served, "shop", "b.txt", b"2")
    page = await screen.page("/workspaces?name=shop")
    await page.locator(".tree summary").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("link", name="one.txt")).to_be_visible()
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("link", name="one.txt")).to_be_focused()
    await page.keyboard.press("End")
    await expect(page.get_by_role("link", name="b.txt")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="File b.txt")).to_be_visible()


async def test_the_manifest_lists_grants_policies_and_definitions_and_explains_decisions(screen: Screen) -> None:
    page = await screen.page("/manifest?explain=order_part")
    explained = page.get_by_role("region", name="Explain a decision")
    await expect(explained).to_contain_text("a person decides; its effect is among require_approval_for_effects")
    await page.get_by_label("Tool, or kind of effect").fill("llm.generate")
    await page.get_by_role("button", name="Explain").click()
    await expect(explained).to_contain_text("demiurge/chat_plan@1 under cap_llm: allowed")
    await page.reload()
    await expect(explained).to_contain_text("under cap_llm")
    await expect(page.get_by_role("group", name="Grants")).to_contain_text("cap_workspace")
    await expect(page.locator("main")).to_contain_text("require_approval_for_effects")
    await page.get_by_label("Find a definition").fill("demiurge/chat_plan")
    await expect(page.locator("details.card")).to_have_count(1)
    await page.locator("details.card summary").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("group", name="Definition demiurge/chat_plan@1")).to_contain_text('"defplan"')


async def test_the_manifest_shows_the_system_prompt_and_who_set_it(screen: Screen) -> None:
    await screen.served.world.set_chat_settings(system_prompt="Speak like a pirate.")
    page = await screen.page("/manifest")
    await expect(page.get_by_role("heading", name="System prompt")).to_be_visible()
    await expect(page.get_by_text("Speak like a pirate.")).to_be_visible()
    await expect(page.get_by_text("Set by user,")).to_be_visible()


async def test_the_manifest_shows_allowed_hosts_as_a_grant_with_its_rule(screen: Screen) -> None:
    page = await screen.page("/tools")

    async def fulfill(route: Route) -> None:
        manifest = await (await route.fetch()).json()
        await route.fulfill(
            json={**manifest, "allowed_hosts": ["api.example.com"], "extension": {"root": {"extends": "demiurge"}}}
        )

    await page.route("**/api/manifest", fulfill)
    await page.goto(f"{screen.served.base}/manifest")
    await expect(page.get_by_role("group", name="Grants")).to_contain_text("origins: https://api.example.com")
    await expect(page.locator("main")).to_contain_text("It extends the app demiurge")
    await expect(page.locator("ol.terms li:nth-last-child(2)")).to_have_text(
        "allow: effect_kind: http.request; origin_kind: tool; cap_name: allowed_hosts"
    )
    await expect(page.locator("ol.terms li").last).to_contain_text("deny")


BUDGET = {"account": "unit", "dimension": "llm_requests", "used": 9, "limit": 10, "unpriced": 0, "says": "Nine of ten."}


def report(unpriced: int) -> dict[str, Any]:
    """A report of two days, of which the second has `unpriced` answers of unknown cost."""
    sums = {"answers": 2, "prompt_tokens": 1200, "completion_tokens": 30, "unpriced": 0}
    known = {**sums, "cost_usd": "0.25", "known_usd": "0.25"}
    second = {**sums, "unpriced": unpriced, "cost_usd": None, "known_usd": "0" if unpriced == 2 else "0.05"}
    total = {**second, "answers": 4, "known_usd": "0.30" if unpriced < 2 else "0.25"}
    return {
        "since": "2026-11-22",
        "until": "2026-11-23",
        "total": total,
        "by_chat": [
            {**known, "chat": "one", "unit": "u", "name": "One"},
            {**second, "chat": None, "unit": "o/U@1", "name": "o/U@1"},
        ],
        "by_day": [{**known, "day": "2026-11-22"}, {**second, "day": "2026-11-23"}],
        "by_model": [{**known, "model": "p/a"}, {**second, "model": "p/b"}],
        "by_tool": [
            {**second, "tool": "find", "shared": 1, "calls": 3},
            {**known, "tool": None, "shared": 0, "calls": 0},
        ],
        "budgets": [{**BUDGET, "chat": "one", "unit": "u", "name": "One"}],
    }


@pytest.mark.parametrize(("unpriced", "said"), [(1, "at least $0.05 (1 unknown)"), (2, "unknown")])
async def test_check_22_a_cost_that_is_not_known_is_never_0(screen: Screen, unpriced: int, said: str) -> None:
    page = await screen.page("/chats")

    async def fulfill(route: Route) -> None:
        await route.fulfill(body=json.dumps(report(unpriced)), content_type="application/json")

    await page.route("**/api/cost?*", fulfill)
    await page.goto(f"{screen.served.base}/cost")
    cell = page.get_by_role("group", name="Cost by day").locator("tr").last.locator("td").first
    await expect(cell).to_have_text(said)
    await expect(page.locator("main")).to_contain_text(f"The cost of {unpriced} of them is not known.")
    await expect(page.get_by_role("group", name="Cost by chat").get_by_role("link", name="One")).to_be_visible()
    tools = page.get_by_role("group", name="Cost by tool").locator("tbody tr")
    await expect(tools.locator("th")).to_have_text(["find", "(no tool)"])
    await expect(page.locator("main")).to_contain_text("is in the row of each")
    await expect(page.get_by_label("Budgets that near their end")).to_have_text("One: Nine of ten.")
    bars = page.locator(".chart svg > rect")
    await expect(bars).to_have_count(2)
    assert await bars.last.get_attribute("fill") == "url(#hatched)"
    assert "$0 " not in await page.locator("main").inner_text()
    assert "$0\n" not in await page.locator("main").inner_text()


async def test_costs_of_a_served_world_say_unknown_without_a_price(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/cost")
    await expect(page.get_by_role("strong")).to_have_text("unknown")
    assert "$0" not in await page.locator("main").inner_text()
