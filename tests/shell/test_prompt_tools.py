"""The catalog of prompt tools in a browser: its rows, the page of a tool, and the form of a proposal."""

from __future__ import annotations

from playwright.async_api import expect
from tests.shell.conftest import Screen


async def test_the_tabs_of_prompt_tools_have_addresses_of_their_own(screen: Screen) -> None:
    page = await screen.page("/chats")
    await page.get_by_role("link", name="Prompt Tools").click()
    tabs = page.get_by_role("navigation", name="Prompt Tools")
    await expect(page.locator("main").get_by_text("line_editor")).to_be_visible()
    for label, path, said in (
        ("Proposals", "/prompt-tools/proposals", "Nothing is proposed."),
        ("Issues", "/prompt-tools/issues", "There is no issue."),
    ):
        await tabs.get_by_role("link", name=label).click()
        await expect(page.get_by_text(said)).to_be_visible()
        assert page.url.endswith(path)
        await page.reload()
        await expect(page.get_by_text(said)).to_be_visible()
        await expect(tabs.locator("[aria-current=page]")).to_have_text(label)
