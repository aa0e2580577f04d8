"""A browser that is logged in to a served world."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect
from pytest_asyncio import is_async_test
from tests.ports import reserved_port
from tests.provider import Provider
from tests.server.conftest import Served, provider, serving_world
from tests.shell.browsers import CHROMIUM, REQUIRED, open_browser

__all__ = ["Screen", "browser", "provider", "screen"]

LONGEST_MS = 15_000
"""How long a page may take to do or to show something: it finds what never comes, also on a machine that is busy."""

expect.set_options(timeout=LONGEST_MS)


@dataclass
class Screen:
    """A world in a browser. `problems` are what a page must never do: errors of scripts, breaches of the content
    security policy, requests to other hosts."""

    served: Served
    browser: Browser
    problems: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)

    async def page(
        self, path: str = "/", *, role: str = "user", actor: str = "", base: str = "", **options: Any
    ) -> Page:
        """A page that has logged in with a token of `role`, in a browser of its own. `base`: the server's address, if
        the browser reaches it by another one."""
        base = base or self.served.base
        context = await self.browser.new_context(**options)
        self.contexts.append(context)
        context.set_default_timeout(LONGEST_MS)
        made = await self.served.world.tokens.add(actor or f"user:{role}", [role])
        await context.request.post(f"{base}/api/login", data={"token": made.secret})
        page = await context.new_page()
        self._watch(page, base)
        await page.goto(base + path)
        return page

    def _watch(self, page: Page, base: str) -> None:
        page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        page.on("console", lambda message: self._on_console(message.type, message.text))
        page.on("request", lambda request: self._on_request(request.url, base))

    def _on_console(self, kind: str, text: str) -> None:
        if kind == "error" and "Failed to load resource" not in text:
            self.problems.append(f"console: {text}")

    def _on_request(self, url: str, base: str) -> None:
        if not url.startswith((base, "data:", "blob:")):
            self.problems.append(f"request: {url}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Runs the tests of this folder in the event loop of the browser that they share. Leaves out what needs a browser
    where there is none; the summary of the run says so (tests/conftest.py)."""
    for item in items:
        if Path(__file__).parent in item.path.parents and is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    if CHROMIUM is None and not REQUIRED:
        left_out = [item for item in items if "browser" in getattr(item, "fixturenames", ())]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests of a process; each page has a context of its own."""
    async with open_browser() as opened:
        yield opened


@pytest.fixture
def port() -> Iterator[int]:
    """A port at which a test serves a world, and serves it again after a restart."""
    with reserved_port() as reserved:
        yield reserved


@pytest_asyncio.fixture(loop_scope="session")
async def served(tmp_path: Path, provider: Provider) -> AsyncIterator[Served]:
    async with serving_world(tmp_path / "w", provider) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def screen(served: Served, browser: Browser) -> AsyncIterator[Screen]:
    made = Screen(served, browser)
    yield made
    for context in made.contexts:
        await context.close()
    assert made.problems == []
