"""The panels beside the chats in a browser: what they show, and how they hold up with much to show."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from playwright.async_api import Route, expect
from tests.shell.conftest import Screen

PANELS = {
    "journal": ("/api/journal/head", "Loading the journal"),
    "trace?chat=c1": ("/api/trace", "Loading the trace"),
    "tools": ("/api/tools", "Loading the tools"),
    "workspaces": ("/api/workspace", "Loading the workspaces"),
    "manifest": ("/api/manifest", "Loading the manifest"),
    "cost": ("/api/cost", "Loading the cost"),
}
EMPTY: dict[str, Any] = {
    "journal": {"length": 0, "units": []},
    "trace?chat=c1": {"trees": [], "now_ns": 0},
    "tools": {"tools": [], "tools_ref": None},
    "workspaces": {"workspaces": []},
}


async def order(screen: Screen) -> None:
    """A chat whose call waits for a person."""
    provider = screen.served.provider
    call = provider.call("order_part", {"part": "bolt", "card": "4111-secret"})
    provider.say(provider.answer(call), provider.answer(provider.text("Ordered.")))
    await screen.served.world.chat("c1").send("Order a bolt")


@pytest.mark.parametrize("path", PANELS)
async def test_check_23_a_panel_says_that_it_loads_and_what_failed(screen: Screen, path: str) -> None:
    page = await screen.page("/chats")
    address, loading = PANELS[path]
    waiting = asyncio.Event()

    async def fail_late(route: Route) -> None:
        await waiting.wait()
        await route.fulfill(status=503, json={"code": "unavailable", "message": "The world is being moved."})

    await page.route(lambda url: address in url, fail_late)
    await page.goto(f"{screen.served.base}/{path}")
    await expect(page.get_by_text(loading)).to_be_visible()
    waiting.set()
    await expect(page.get_by_role("alert").first).to_contain_text("The world is being moved.")
    await page.unroute_all()
    await expect(page.get_by_role("button", name="Try again").first).to_be_visible()


@pytest.mark.parametrize("path", EMPTY)
async def test_check_23_a_panel_without_data_says_so(screen: Screen, path: str) -> None:
    page = await screen.page("/chats")

    async def nothing(route: Route) -> None:
        await route.fulfill(json=EMPTY[path])

    await page.route(lambda url: PANELS[path][0] in url, nothing)
    await page.goto(f"{screen.served.base}/{path}")
    await expect(page.locator(".empty")).to_be_visible()


async def test_tools_manifest_and_cost_show_decisions_and_unknown_costs(screen: Screen) -> None:
    await order(screen)
    page = await screen.page("/tools")
    await page.get_by_text("order_part", exact=True).click()
    opened = page.locator("details[open]")
    await expect(opened).to_contain_text("its effect is among require_approval_for_effects")
    await page.get_by_role("link", name="Manifest").click()
    await page.get_by_label("Tool, or kind of effect").fill("llm.generate")
    await page.get_by_role("button", name="Explain").click()
    await expect(page.get_by_role("region", name="Explain a decision")).to_contain_text("allow")
    await page.get_by_role("link", name="Cost").click()
    await expect(page.get_by_role("strong")).to_have_text("unknown")
    assert "$0" not in await page.locator("main").inner_text()


async def test_workspaces_show_files_versions_and_differences(screen: Screen) -> None:
    user = await screen.served.client()
    for text in ("one\ntwo\n", "one\n2\n"):
        await user.put("/api/workspace/shop/file", params={"path": "notes.txt"}, content=text.encode())
    page = await screen.page("/workspaces")
    await page.get_by_role("link", name="shop @2").click()
    await page.get_by_role("link", name="notes.txt").click()
    await expect(page.get_by_role("group", name="File notes.txt")).to_contain_text("one")
    await page.get_by_role("link", name="what changed").click()
    await expect(page.locator(".side-by-side .removed")).to_contain_text("two")
    await expect(page.locator(".side-by-side .added")).to_contain_text("2")
