"""The shell marks an answer whose evidence does not hold, in words, also on a narrow screen."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser, expect
from tests.provider import Provider
from tests.server.conftest import ENVIRONMENT, served_on
from tests.shell.conftest import Screen
from tests.shell.test_panel_states import violations

from demiurge import World

INVENTED = "rcpt_0123456789abcdef0123456789abcdef"


async def test_an_answer_with_an_invented_receipt_is_marked(
    tmp_path: Path, provider: Provider, browser: Browser
) -> None:
    opening = World.open(tmp_path / "w", provider="openai-responses", base_url=provider.url, environment=ENVIRONMENT)
    provider.say(provider.answer(provider.text(f"It is dark.\n\nEvidence: Story/one.md line 1 {INVENTED}")))
    async with opening as world, served_on(world, provider) as served:
        user = await served.client()
        sent = await user.post("/api/chats/c1/messages", json={"text": "Is it?", "wait": True})
        assert [found["code"] for found in sent.json()["reply"]["findings"]] == ["unknown_receipt"]
        turn = (await user.get("/api/chats/c1/turns/1")).json()
        assert turn["findings"] == sent.json()["reply"]["findings"]
        listed = (await user.get("/api/chats/c1/messages")).json()["messages"]
        assert listed[1]["findings"] == turn["findings"]
        screen = Screen(served, browser)
        page = await screen.page("/chats/c1", viewport={"width": 360, "height": 740})
        mark = page.locator("[data-evidence]")
        await expect(mark.locator(".tag")).to_have_text("evidence does not hold")
        await expect(mark).to_contain_text(f"Line 3: No recorded call gave the receipt {INVENTED}.")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await violations(page) == []
        await page.context.close()
