"""A Chromium for tests of the web shell: the one of the machine, never one that is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Browser

__all__ = ["CHROMIUM", "NOT_RUN", "REQUIRED", "open_browser"]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

_WITHOUT_INTERFACE = shutil.which("chromium-headless-shell")
"""The path of Chromium's headless program, None where it is not installed. A test takes a third less CPU in it. It has
no back/forward cache: a test of that cache runs in CHROMIUM."""

_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-gpu-compositing", "--disable-software-rasterizer"]
"""Without a graphics card, a browser would else emulate one, at a quarter of the CPU of a test."""

REQUIRED = os.environ.get("DEMIURGE_TEST_BROWSER") == "1"
"""True where the suite fails without a browser, as in CI."""

NOT_RUN = "The browser tests of the web shell were NOT RUN: this machine has no Chromium (apt install chromium)."


@asynccontextmanager
async def open_browser(*, keeps_pages: bool = False) -> AsyncIterator[Browser]:
    """Yields a browser without a window. `keeps_pages`: a page that was left is kept for "back", as people have it."""
    from playwright.async_api import async_playwright

    assert CHROMIUM is not None, NOT_RUN
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM if keeps_pages else _WITHOUT_INTERFACE or CHROMIUM,
            args=_ARGUMENTS,
            ignore_default_args=["--disable-back-forward-cache"] if keeps_pages else None,
        )
        try:
            yield browser
        finally:
            await browser.close()
