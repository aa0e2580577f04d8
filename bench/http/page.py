"""The first load of the shell in a browser with an empty cache, until a chat's message is painted."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bench.http.client import Connection
from bench.http.server import Server, serving

if TYPE_CHECKING:
    from playwright.async_api import Browser, Response

__all__ = ["run"]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LOADS = 7
CHAT, TEXT = "first", "The first message of this chat."


async def _say(server: Server) -> None:
    async with Connection(server) as connection:
        await connection.post(CHAT, 1)
        await connection.post_json(f"/api/chats/{CHAT}/messages", {"text": TEXT})


async def _loads(server: Server) -> list[tuple[float, float]]:
    """Returns what `_load` measured, for each of `LOADS` loads."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        await _load(browser, server)  # the browser starts its processes
        found = [await _load(browser, server) for _ in range(LOADS)]
        await browser.close()
    return found


async def _load(browser: Browser, server: Server) -> tuple[float, float]:
    """Returns the milliseconds until the message is painted, and the kB of the files that came until then, gzipped."""
    base = f"http://127.0.0.1:{server.port}"
    context = await browser.new_context()
    await context.request.post(f"{base}/api/login", data={"token": server.token})
    page = await context.new_page()
    answers: list[Response] = []

    def note(answer: Response) -> None:
        answers.append(answer)

    page.on("response", note)
    await page.goto(f"{base}/chats/{CHAT}", wait_until="commit")
    painted = await page.wait_for_function(
        "text => document.body?.innerText.includes(text) && performance.now()", arg=TEXT, polling="raf"
    )
    files = [each for each in answers if not urlsplit(each.url).path.startswith("/api/")]
    size = sum([len(gzip.compress(await each.body())) for each in files])
    taken_ms = float(await painted.json_value())
    await context.close()
    return taken_ms, size / 1e3


def run() -> list[tuple[str, str, str]]:
    if CHROMIUM is None:
        return [("first load of the page: not measured, this machine has no Chromium", "", "")]
    with tempfile.TemporaryDirectory() as place, serving(Path(place)) as server:
        asyncio.run(_say(server))
        found = asyncio.run(_loads(server))
    return [
        ("first load of the page, until its message is painted", f"{median(ms for ms, _ in found):,.0f} ms", ""),
        ("files of the page until then, gzipped", f"{median(kb for _, kb in found):,.0f} kB", ""),
    ]
