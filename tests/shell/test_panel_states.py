"""Every panel: loading, empty, failed with old data; axe; narrow screens; text from right to left."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect
from tests.server.conftest import Served
from tests.server.review_steps import approve
from tests.shell.conftest import Screen
from tests.shell.steps import ask_for_order

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
ARABIC = "متجر"

PANELS = {
    "approvals": ("/api/approvals", "Loading the calls that wait"),
    "journal": ("/api/journal/head", "Loading the journal"),
    "journal?attention=true": ("/api/journal/search", "Searching the journal"),
    "trace?chat=c1": ("/api/trace", "Loading the trace"),
    "tools": ("/api/tools", "Loading the tools"),
    "mcp-servers": ("/api/mcp", "Loading the MCP servers"),
    "workspaces": ("/api/workspace", "Loading the workspaces"),
    "manifest": ("/api/manifest", "Loading the manifest"),
    "cost": ("/api/cost", "Loading the cost"),
    "prompt-tools": ("/api/prompt-tools", "Loading the prompt tools"),
    "prompt-tools/tools/line_editor": ("/api/prompt-tools/line_editor", "Loading the prompt tool"),
    "prompt-tools/propose/copy/line_editor": ("/api/prompt-tools", "Loading the form"),
    "prompt-tools/proposals": ("/api/proposals", "Loading the proposals"),
    "prompt-tools/proposals/p0": ("/api/proposals/p0", "Loading the proposal"),
    "prompt-tools/issues": ("/api/issues", "Loading the issues"),
    "prompt-tools/issues/i0": ("/api/issues/i0", "Loading the issue"),
}
"""By the panel's address: the path that it reads, and what it says meanwhile."""

SUMS = {"answers": 0, "unpriced": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": "0", "known_usd": "0"}
EMPTY: dict[str, tuple[str, Any, str]] = {
    "approvals": ("/api/approvals", {"approvals": [], "now_ns": 0}, "Nothing is waiting for you."),
    "journal": ("/api/journal/head", {"length": 0, "units": []}, "There is no record yet."),
    "journal?text=x": (
        "/api/journal/search",
        {"rows": [], "before": None, "looked_at": 0},
        "There are no such records.",
    ),
    "trace?chat=c1": ("/api/trace", {"trees": [], "now_ns": 0}, "There is no event."),
    "tools": ("/api/tools", {"tools": [], "tools_ref": None}, "This world has no tools."),
    "mcp-servers": ("/api/mcp", {"servers": []}, "There is no MCP server."),
    "workspaces": ("/api/workspace", {"workspaces": []}, "There is no workspace yet"),
    "manifest": ("/api/defs", {"definitions": []}, "This world has no definitions."),
    "cost": (
        "/api/cost",
        {
            "since": "",
            "until": "",
            "total": SUMS,
            "by_chat": [],
            "by_day": [],
            "by_model": [],
            "by_tool": [],
            "budgets": [],
        },
        "No model answered in these days.",
    ),
    "prompt-tools": ("/api/prompt-tools", {"tools": []}, "This world has no prompt tools."),
    "prompt-tools/proposals": ("/api/proposals", {"proposals": [], "next": None}, "Nothing is proposed."),
    "prompt-tools/proposals?state=stale": (
        "/api/proposals",
        {"proposals": [], "next": None},
        "There are no such proposals.",
    ),
    "prompt-tools/issues": ("/api/issues", {"issues": [], "next": None}, "There is no issue."),
    "prompt-tools/issues?tag=x": ("/api/issues", {"issues": [], "next": None}, "There are no such issues."),
}

FULL = {
    "approvals": "[data-approval]",
    "journal?at=8": "[data-record-card]",
    "journal?attention=true": ".rows [role=option]",
    "journal?view=json&at=12": "[data-record-card]",
    f"trace?chat={ARABIC}": "[data-phase=person]",
    "tools?tool=order_part": "details[open] .json",
    "workspaces?name=shop&version=2&old=1": ".added",
    "workspaces?name=shop&path=notes.txt": "pre.head",
    "manifest?explain=order_part": "section strong",
    "cost": "table",
    "prompt-tools": ".tool-row",
    "prompt-tools/tools/line_editor": ".tool-text",
    "prompt-tools/tools/scene_pacer?layer=user&version=2&old=1": ".added",
    "prompt-tools/tools/scene_pacer?layer=user&version=1": ".tool-text",
    "prompt-tools/tools/scene_pacer?layer=user&back=1": ".second-step",
    "prompt-tools/propose": "form.propose",
    "prompt-tools/propose/change/scene_pacer": "form.propose",
}
"""By the address of a panel with data: what is there once they are shown."""


async def fill(served: Served) -> None:
    """Makes a chat whose call waits, a workspace and a prompt tool with two versions, all with text from right to
    left."""
    await ask_for_order(served, ARABIC, part="برغي طويل")
    user = await served.client()
    for text in (f"one\n{ARABIC}\n", "one\n2\n"):
        params = {"path": "notes.txt"}
        assert (await user.put("/api/workspace/shop/file", params=params, content=text.encode())).status_code == 200
    await approve(user, name=f"{ARABIC} (1)")
    await approve(user, proposalType="modify", name=ARABIC, prompt=f"{ARABIC}\nQuote two slow paragraphs.")


async def violations(page: Page) -> list[str]:
    await page.evaluate(AXE)
    found = await page.evaluate("axe.run()")
    return [f"{each['id']}: {[node['html'][:120] for node in each['nodes']]}" for each in found["violations"]]


@pytest.mark.sampled
@pytest.mark.parametrize("path", PANELS)
async def test_check_23_a_panel_says_that_it_loads_and_what_failed(screen: Screen, path: str) -> None:
    page = await screen.page("/tools" if path != "tools" else "/cost")
    address, loading = PANELS[path]
    waiting = asyncio.Event()

    async def fail_late(route: Route) -> None:
        await waiting.wait()
        await route.fulfill(status=503, json={"code": "unavailable", "message": "The world is being moved."})

    def matches(url: str) -> bool:
        return address in url

    await page.route(matches, fail_late)
    await page.goto(f"{screen.served.base}/{path}")
    await expect(page.get_by_text(loading)).to_be_visible()
    waiting.set()
    problem = page.get_by_role("alert").first
    await expect(problem).to_contain_text("The world is being moved.")
    await expect(problem).to_contain_text("unavailable")
    assert await violations(page) == []
    await expect(page.get_by_role("button", name="Try again").first).to_be_visible()
    await page.unroute(matches)
    await page.evaluate("[...document.querySelectorAll('.problem button')].forEach(button => button.click())")
    await expect(page.get_by_text("The world is being moved.")).to_have_count(0)


@pytest.mark.sampled
@pytest.mark.parametrize("path", EMPTY)
async def test_check_23_a_panel_without_data_says_so(screen: Screen, path: str) -> None:
    page = await screen.page("/chats")
    address, nothing, said = EMPTY[path]

    async def answer(route: Route) -> None:
        await route.fulfill(json=nothing)

    await page.route(lambda url: address in url, answer)
    await page.goto(f"{screen.served.base}/{path}")
    await expect(page.locator(".empty")).to_contain_text(said)
    assert await violations(page) == []


async def test_check_23_old_data_stay_with_their_date_after_a_failure(screen: Screen) -> None:
    await fill(screen.served)
    page = await screen.page("/workspaces?name=shop")
    await expect(page.locator(".tree")).to_contain_text("notes.txt")

    async def fail(route: Route) -> None:
        await route.fulfill(status=503, json={"code": "unavailable", "message": "The world is being moved."})

    await page.route("**/api/workspace", fail)
    user = await screen.served.client()
    await user.put("/api/workspace/shop/file", params={"path": "b.txt"}, content=b"x")
    problem = page.get_by_role("alert").first
    await expect(problem).to_contain_text("The world is being moved.")
    await expect(problem).to_contain_text("What is shown was read at")
    await expect(page.locator(".tree")).to_contain_text("notes.txt")
    await page.unroute_all()
    await problem.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("link", name="shop @3")).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_an_error_says_its_code_and_what_to_do(screen: Screen) -> None:
    page = await screen.page("/cost", role="viewer")
    problem = page.get_by_role("alert").first
    await expect(problem.locator("code.code")).to_have_text("role_missing")
    await expect(problem).to_contain_text("Ask for a token with another role")


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (360, "light"),
        (1280, "dark"),
        pytest.param(360, "dark", marks=pytest.mark.full),
        pytest.param(1280, "light", marks=pytest.mark.full),
    ],
)
async def test_check_24_and_25_axe_finds_nothing_in_any_panel(screen: Screen, width: int, scheme: str) -> None:
    await fill(screen.served)
    page = await screen.page("/chats", viewport={"width": width, "height": 800}, color_scheme=scheme)
    for path, shown in FULL.items():
        await page.goto(f"{screen.served.base}/{path}")
        await expect(page.locator(shown).first).to_be_visible()
        assert await violations(page) == [], path
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert await page.evaluate("document.querySelector('.panel').scrollWidth") <= width, path
        current = page.get_by_label("Panels").locator("[aria-current=page]")
        await expect(current).to_be_in_viewport()


async def test_text_from_right_to_left_keeps_its_order_beside_numbers(screen: Screen) -> None:
    await fill(screen.served)
    page = await screen.page(f"/journal?unit=demiurge/Demiurge@1/{ARABIC}&seq=12")
    unit = page.locator("[role=option][aria-selected=true] .unit")
    await expect(unit.locator("bdi")).to_have_text(f"demiurge/Demiurge@1/{ARABIC}")
    name, number = await unit.evaluate(
        """each => {
            const range = document.createRange();
            range.selectNodeContents(each.lastChild);
            return [each.querySelector('bdi').getBoundingClientRect().left, range.getBoundingClientRect().left];
        }"""
    )
    assert name < number  # the number of the record stands behind the name, not inside it
    await page.evaluate("document.documentElement.dir = 'rtl'")
    tools = ("prompt-tools", "prompt-tools/tools/scene_pacer", "prompt-tools/propose/change/scene_pacer")
    for path in ("journal", f"trace?chat={ARABIC}", "tools", "workspaces?name=shop", "manifest", "cost", *tools):
        await page.goto(f"{screen.served.base}/{path}")
        await expect(page.locator("main h1")).to_be_visible()
        await page.evaluate("document.documentElement.dir = 'rtl'")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
