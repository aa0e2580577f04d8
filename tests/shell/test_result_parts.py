"""The card of a call in a browser: how far it is while it runs, and the images, sounds and files of its result."""

from __future__ import annotations

import threading
from pathlib import Path

from playwright.async_api import Browser, expect
from tests.provider import Provider
from tests.server.conftest import ENVIRONMENT, LONGEST_S, served_on
from tests.shell.conftest import Screen
from tests.wire.test_attachments import PNG, WAV

from demiurge import Redaction, ToolContext, ToolEffect, ToolPolicy, ToolResult, World, tool
from demiurge.tools import Audio, File, Image


async def test_a_card_shows_progress_and_then_the_parts_of_the_result(
    tmp_path: Path, provider: Provider, browser: Browser
) -> None:
    seen = threading.Event()

    @tool(effect=ToolEffect.READ_ONLY, redaction=Redaction.message_only(parts=True))
    def plot(*, context: ToolContext) -> ToolResult[None]:
        """Plot."""
        context.progress(3, 10, "three\u202eof ten")
        assert seen.wait(LONGEST_S)
        table = File(data=b"a,b\n", mime="text/csv", name="grüße.csv")
        return ToolResult("One plot.", parts=[Image(data=PNG, name="plot.png"), Audio(data=WAV, name="song"), table])

    provider.say(provider.answer(provider.call("plot", {})), provider.answer(provider.text("There.")))
    opening = World.open(
        tmp_path / "w",
        [plot],
        ToolPolicy(("plot",)),
        provider="openai-responses",
        base_url=provider.url,
        environment=ENVIRONMENT,
    )
    async with opening as world, served_on(world, provider) as served:
        screen = Screen(served, browser)
        user = await served.client()
        await user.post("/api/chats/c1/messages", json={"text": "Plot it."})
        page = await screen.page("/chats/c1")
        card = page.get_by_label("Call of plot")
        await expect(card.get_by_role("progressbar", name="Progress")).to_have_attribute("value", "3")
        await expect(card).to_contain_text("3 of 10")
        await expect(card).to_contain_text("three<U+202E>of ten")
        seen.set()
        await expect(card.get_by_role("img", name="plot.png")).to_have_js_property("naturalWidth", 1)
        await expect(card.get_by_role("progressbar")).to_have_count(0)
        await expect(card.get_by_label("song")).to_be_visible()
        async with page.expect_download() as download:
            await card.get_by_role("link", name="Download grüße.csv").click()
        assert (await download.value).suggested_filename == "grüße.csv"
        for context in screen.contexts:
            await context.close()
        assert screen.problems == []
