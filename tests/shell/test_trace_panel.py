"""The trace in a browser: rows, groups, keys, search, the critical path, and how it holds up with much to show."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from playwright.async_api import Locator, Page, Route, expect
from tests.shell.conftest import Screen
from tests.shell.steps import ask_for_order

START = 1_795_000_000_000_000_000
SECOND = 1_000_000_000
DAY = 24 * 3600 * SECOND


def node(seq: int, says: str, depth: int = 1, at: float = 0, **more: Any) -> dict[str, Any]:
    """A node of a trace; `at` in seconds. An intent unless `more` says otherwise, with one phase of a second."""
    begin = START + int(at * SECOND)
    phases = [{"phase": "running", "from_ns": begin, "to_ns": begin + SECOND}]
    made = {"unit": "u", "seq": seq, "kind": "intent", "cause": 0, "depth": depth, "time_ns": begin, "says": says}
    return {**made, "state": None, "why": None, "phases": phases, **more}


def answer_of(nodes: list[dict[str, Any]], state: str = "done") -> dict[str, Any]:
    event = {**node(0, "begin", 0), "kind": "event"}
    del event["phases"]
    tree = {"unit": "u", "seq": 0, "event_hash": None, "state": state, "why": None, "nodes": [event, *nodes]}
    ends = [phase["to_ns"] or 0 for each in nodes for phase in each.get("phases", [])]
    return {"trees": [tree], "now_ns": max(START, *ends)}


async def trace_of(screen: Screen, answer: dict[str, Any], query: str = "chat=c1", **options: Any) -> Page:
    """A page that shows this trace."""
    page = await screen.page("/chats", **options)

    async def fulfill(route: Route) -> None:
        await route.fulfill(body=json.dumps(answer), content_type="application/json")

    await page.route("**/api/trace?*", fulfill)
    await page.goto(f"{screen.served.base}/trace?{query}")
    await expect(rows(page).first).to_be_visible()
    return page


def rows(page: Page) -> Locator:
    return page.get_by_role("row")


async def test_the_trace_of_a_call_shows_what_waits_and_a_viewer_sees_no_arguments(screen: Screen) -> None:
    await ask_for_order(screen.served, card="4111-secret")
    page = await screen.page("/trace?chat=c1")
    await expect(page.locator(".waterfall").first).to_contain_text("waits for a person")
    await expect(page.locator("[data-phase=person]")).to_be_visible()
    await rows(page).filter(has_text="tool.call order_part").click()
    await expect(page.locator(".waterfall .arguments")).to_contain_text("4111-secret")
    viewer = await screen.page("/trace?chat=c1", role="viewer")
    await rows(viewer).filter(has_text="tool.call order_part").click()
    await expect(viewer.locator(".waterfall .mark")).to_contain_text("Redacted")
    assert "4111-secret" not in await viewer.content()


async def test_a_step_shows_its_result_whole_to_a_user_and_redacted_to_a_viewer(screen: Screen) -> None:
    await ask_for_order(screen.served, card="4111-secret")
    [asked] = await screen.served.world.approvals()
    await screen.served.world.decide(asked["id"], approve=True)
    await screen.served.world.settle()
    for role in ("user", "viewer", "approver"):
        page = await screen.page("/trace?chat=c1", role=role)
        await rows(page).filter(has_text="tool.call order_part").click()
        step = page.get_by_role("region", name="Step")
        await expect(step).to_contain_text("Redacted result")
        if role == "user":
            await expect(step.locator("details", has_text="Result")).to_contain_text("ordered bolt")
            await expect(step.locator("details", has_text="Value")).to_contain_text('"card": "4111-secret"')
        else:
            await expect(step.locator("details", has_text="Value")).to_have_count(0)
            await expect(step).not_to_contain_text("ordered bolt")
        if role == "user":  # the others are shown it at once, since they see nothing else
            await step.get_by_role("button", name="Show the beginning").click()
        await expect(step.get_by_label("Beginning of Redacted result")).to_have_text('{"order":7}')
        assert ("4111-secret" in await page.content()) == (role == "user")


async def test_a_long_result_is_cut_and_is_a_download(screen: Screen) -> None:
    message, value = "sha256:" + "a" * 64, "sha256:" + "b" * 64
    told: dict[str, Any] = {
        "content": "x" * 4000,
        "content_cut": 5000,
        "message_ref": message,
        "value_ref": value,
        "view_ref": None,
    }
    page = await trace_of(screen, answer_of([node(1, "tool.call long", **told, value=None, value_cut=70_000)]))
    await rows(page).filter(has_text="tool.call long").click()
    step = page.get_by_role("region", name="Step")
    await expect(step).to_contain_text("The first 4,000 of 5,000 characters.")
    await expect(step).to_contain_text("The value has 70,000 bytes.")
    whole = step.get_by_role("link", name="Download all")
    assert [await whole.nth(at).get_attribute("href") for at in (0, 1)] == [
        f"/api/blob/{message}",
        f"/api/blob/{value}",
    ]


async def test_a_link_to_a_record_opens_and_focuses_its_step(screen: Screen) -> None:
    await ask_for_order(screen.served)
    unit = "demiurge/Demiurge@1/c1"
    page = await screen.page(f"/trace?chat=c1&open={unit}+12")
    await expect(rows(page).filter(has_text="tool.call order_part")).to_be_focused()
    await expect(page.get_by_role("region", name="Step")).to_contain_text("tool.call order_part")
    await page.goto(f"{screen.served.base}/trace?chat=c1&open={unit}+7")  # a receipt: only with all records
    await expect(page.get_by_label("All records").first).to_be_checked()
    await expect(rows(page).filter(has_text="with llm/api@1")).to_be_focused()
    await page.get_by_role("link", name="Open the record").click()
    await expect(page.get_by_role("region", name="Record")).to_contain_text('"receipt"')


async def test_check_19_a_tree_of_5000_steps_is_windowed_and_is_searched_whole(screen: Screen) -> None:
    steps = [node(n, f"call {n}", at=n * 0.4) for n in range(1, 5000)]
    steps[4567] |= {"state": "failed", "why": "no such part"}
    page = await trace_of(screen, answer_of(steps))
    assert await page.locator(".waterfall *").count() < 500
    assert await page.locator(".waterfall").get_by_role("treegrid").get_attribute("aria-rowcount") == "5000"
    await rows(page).first.focus()
    await page.keyboard.press("End")
    await expect(rows(page).filter(has_text="call 4999")).to_be_focused()
    assert await rows(page).filter(has_text="call 4999").get_attribute("aria-rowindex") == "5000"
    await page.get_by_role("button", name="Next error (1)").click()
    await expect(rows(page).filter(has_text="call 4568")).to_be_focused()
    await expect(page.get_by_role("region", name="Step")).to_contain_text("no such part")
    await page.get_by_label("Find").fill("call 1234")
    await expect(page.get_by_text("1 found")).to_be_visible()
    await page.get_by_label("Find").press("Enter")
    await expect(rows(page).filter(has_text="call 1234")).to_be_focused()
    assert await page.locator(".waterfall *").count() < 500


async def test_check_20_a_wait_of_three_days_leaves_the_bars_readable(screen: Screen) -> None:
    decided = START + SECOND + 3 * DAY
    wait = {"phase": "person", "from_ns": START + SECOND, "to_ns": decided}
    ran = {"phase": "running", "from_ns": decided, "to_ns": decided + SECOND}
    asked = node(2, "call 2", at=1, phases=[wait, ran])
    later = [node(n, f"call {n}", at=3 * 86400 + n) for n in range(3, 5)]
    page = await trace_of(screen, answer_of([node(1, "call 1"), asked, *later]))
    await expect(page.get_by_text("waited 3 d 0 h").first).to_be_visible()
    await expect(page.get_by_label("Hide idle time")).to_be_checked()
    bars = page.locator(".spans [data-phase=running]")
    widths = "bars => bars.map(bar => bar.getBoundingClientRect().width)"
    assert min(await bars.evaluate_all(widths)) > 40
    await expect(page.locator(".gap").first).to_contain_text("3 d 0 h")
    hatched = await page.locator(".spans [data-phase=person]").evaluate("bar => getComputedStyle(bar).backgroundImage")
    assert "repeating-linear-gradient" in hatched
    await page.get_by_label("Hide idle time").uncheck()
    await expect(page.locator(".gap")).to_have_count(0)
    assert max(await bars.evaluate_all(widths)) < 5


async def test_equal_siblings_are_one_row_until_it_is_opened(screen: Screen) -> None:
    steps = [node(n, "tool.call look", at=n) for n in range(1, 7)]
    steps += [node(7, "tool.call look", at=7, state="failed", why="no"), node(8, "tool.call other", at=8)]
    page = await trace_of(screen, answer_of(steps))
    await expect(rows(page)).to_have_count(4)
    group = rows(page).nth(1)
    await expect(group).to_contain_text("tool.call look \u00d76")
    await expect(group.locator("[data-phase=running]")).to_have_count(6)
    await group.focus()
    await page.keyboard.press("ArrowRight")
    await expect(rows(page)).to_have_count(10)
    assert await group.get_attribute("aria-expanded") == "true"
    assert [await rows(page).nth(n).get_attribute("aria-level") for n in (1, 2, 8)] == ["2", "3", "2"]
    await page.keyboard.press("ArrowLeft")
    await expect(rows(page)).to_have_count(4)
    await page.goto(f"{screen.served.base}/trace?chat=c1&open=u+3")
    await expect(rows(page).nth(4)).to_be_focused()


async def test_keys_move_fold_and_open(screen: Screen) -> None:
    steps = [node(1, "one"), node(2, "one below", 2, 1), node(3, "two", at=2)]
    page = await trace_of(screen, answer_of(steps))
    await rows(page).first.focus()
    await page.keyboard.press("ArrowDown")
    await expect(rows(page).nth(1)).to_be_focused()
    await page.keyboard.press("ArrowLeft")
    await expect(rows(page)).to_have_count(3)
    await expect(rows(page).nth(1)).to_contain_text("+1")
    await page.keyboard.press("ArrowRight")
    await expect(rows(page)).to_have_count(4)
    await page.keyboard.press("End")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("region", name="Step")).to_contain_text("two")
    assert "open=u+3" in page.url
    await page.keyboard.press("Home")
    await expect(rows(page).first).to_be_focused()


async def test_a_long_tree_begins_with_its_good_branches_folded(screen: Screen) -> None:
    steps = []
    for n in range(40):
        steps += [node(2 * n + 1, f"call {n}", 1, n), node(2 * n + 2, f"below {n}", 2, n + 0.5)]
    steps[21] |= {"state": "awaiting_approval"}
    page = await trace_of(screen, answer_of(steps, "waiting"))
    await expect(rows(page).filter(has_text="below")).to_have_text(["below 10 waits for a person1 sran 1 s"])
    await expect(rows(page)).to_have_count(42)


async def test_the_critical_path_is_shown_on_demand_and_says_what_counts(screen: Screen) -> None:
    steps = [node(1, "short"), node(2, "long", at=1), node(3, "last", 2, 5), node(4, "aside", at=2)]
    page = await trace_of(screen, answer_of(steps))
    await expect(page.locator(".span.dim")).to_have_count(0)
    await page.get_by_label("Critical path").check()
    await expect(page.get_by_text("Time in which a person was waited for counts.")).to_be_visible()
    await expect(page.locator(".span.dim")).to_have_count(2)
    await rows(page).filter(has_text="aside").click()
    await expect(page.locator(".span.dim")).to_have_count(1)  # what is chosen is not dimmed


async def test_on_a_narrow_screen_the_name_is_above_the_bar_also_where_rows_are_windowed(screen: Screen) -> None:
    steps = [node(n, f"call {n}", at=n * 0.4) for n in range(1, 1000)]
    page = await trace_of(screen, answer_of(steps), viewport={"width": 360, "height": 800})
    tops = await rows(page).evaluate_all("each => each.map(row => row.getBoundingClientRect().top)")
    assert all(later - sooner >= 44 for sooner, later in pairwise(tops))
    name = await rows(page).nth(1).locator(".name").bounding_box()
    bar = await rows(page).nth(1).locator(".bar-cell").bounding_box()
    assert name is not None
    assert bar is not None
    assert name["y"] + name["height"] <= bar["y"] + 1
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360
