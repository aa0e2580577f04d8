"""Many tabs, and pages that the browser keeps for "back", share one connection that stays open."""

from __future__ import annotations

from playwright.async_api import Page, expect
from tests.server.conftest import Served
from tests.shell.browsers import open_browser
from tests.shell.conftest import Screen

TABS = 12
"""More than the connections that a browser opens to one server."""

CAME_BACK = "addEventListener('pageshow', ({persisted}) => { if (persisted) window.cameBack = true; })"


async def answer(served: Served, text: str) -> None:
    """Has the model say `text` in the chat c1."""
    served.provider.say(served.provider.answer(served.provider.text(text)))
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Go on", "wait": True})


async def shows(page: Page, text: str) -> None:
    await expect(page.locator(".markdown", has_text=text)).to_have_count(1)


async def test_twelve_tabs_have_one_stream_and_another_takes_over_when_its_tab_closes(screen: Screen) -> None:
    await answer(screen.served, "First.")
    first = await screen.page("/chats/c1")
    await shows(first, "First.")
    streams: list[str] = []
    context = first.context
    context.on("request", lambda request: streams.append(request.url) if "/journal/stream" in request.url else None)
    tabs = [first]
    for _ in range(TABS - 1):
        tabs.append(await context.new_page())
        await tabs[-1].goto(screen.served.base + "/chats/c1")
        await shows(tabs[-1], "First.")
    await answer(screen.served, "Second.")
    for tab in tabs:
        await shows(tab, "Second.")
    assert streams == []  # the first tab's stream is older than the list
    await first.close()
    await answer(screen.served, "Third.")
    for tab in tabs[1:]:
        await shows(tab, "Third.")
    assert len(streams) == 1
    assert "from=" in streams[0]


async def test_twelve_loads_in_one_tab_and_the_ways_back_and_forward_miss_nothing(served: Served) -> None:
    await answer(served, "First.")
    async with open_browser(keeps_pages=True) as browser:
        page = await Screen(served, browser).page("/chats/c1")
        await page.context.add_init_script(CAME_BACK)
        for load in range(TABS):
            await page.goto(f"{served.base}/chats/c1?load={load}")
            await shows(page, "First.")
        seen = 0  # the pages from the third way on have had records, and go on after the last one
        for way, text in ((-2, "Second."), (1, "Third."), (-1, "Fourth."), (1, "Fifth.")):
            await answer(served, text)
            async with page.expect_request("**/journal/stream**") as opened:
                await page.evaluate(f"history.go({way})")
            seen += "from=" in (await opened.value).url
            await page.wait_for_function("() => window.cameBack === true")
            await shows(page, text)
        assert seen == 2


async def test_a_browser_without_locks_has_a_stream_while_its_page_is_in_sight(screen: Screen) -> None:
    page = await screen.page("/api/health")
    await page.add_init_script(
        "Object.defineProperty(navigator, 'locks', {value: undefined});"
        "Object.defineProperty(document, 'hidden', {get: () => window.isAway === true});"
    )
    turn = "(isAway) => { window.isAway = isAway; document.dispatchEvent(new Event('visibilitychange')); }"
    await page.goto(screen.served.base + "/chats/c1")
    for text in ("First.", "Second."):
        await answer(screen.served, text)
        await shows(page, text)
        async with page.expect_event("requestfailed", lambda request: "/journal/stream" in request.url):
            await page.evaluate(turn, True)
        await answer(screen.served, "Meanwhile " + text.lower())
        await page.evaluate(turn, False)
        await shows(page, "Meanwhile " + text.lower())
