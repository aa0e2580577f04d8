"""Each page has a title of its own, at most one scrollbar, and words without marks of another format."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect
from tests.shell.conftest import Screen

TITLES = {
    "/chats": "Chats · Demiurge",
    "/chats/c1": "Orders · Chats · Demiurge",
    "/approvals": "Approvals · Demiurge",
    "/journal": "Journal · Demiurge",
    "/tools": "Tools · Demiurge",
    "/mcp-servers": "MCP servers · Demiurge",
    "/prompt-tools/propose": "Propose · Prompt Tools · Demiurge",
    "/nothing": "Demiurge",
}

SCROLLS_DOWN = """() => [document.scrollingElement, ...document.querySelectorAll('.panel')]
    .filter((each) => each.scrollHeight > each.clientHeight).length"""


async def scrollbars(page: Page) -> int:
    return int(await page.evaluate(SCROLLS_DOWN))


@pytest.mark.parametrize("width", [360, 1280])
async def test_each_page_has_a_title_of_its_own_and_one_scrollbar(screen: Screen, width: int) -> None:
    await (await screen.served.client()).post("/api/chats", json={"chat_id": "c1", "title": "Orders"})
    page = await screen.page("/", viewport={"width": width, "height": 640})
    for path, title in TITLES.items():
        await page.goto(screen.served.base + path)
        await expect(page).to_have_title(title)
        await expect(page.locator("main")).to_have_count(1)
        assert await scrollbars(page) <= 1, path
        assert "`" not in await page.locator("body").inner_text(), path
    await page.get_by_role("button", name="Log out").click()
    await expect(page).to_have_title("Log in · Demiurge")
    assert await scrollbars(page) == 0


async def test_the_field_for_a_message_has_the_focus_in_a_new_chat(screen: Screen) -> None:
    page = await screen.page("/chats")
    await page.get_by_label("Title of a new chat").fill("Parts")
    await page.get_by_role("button", name="New chat").click()
    await expect(page.get_by_label("Message", exact=True)).to_be_focused()
    await expect(page).to_have_title("Parts · Chats · Demiurge")
