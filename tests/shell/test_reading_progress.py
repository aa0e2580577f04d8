"""The page says how much of a prompt a local model has read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from playwright.async_api import Browser, expect
from tests.provider import Answer
from tests.server.conftest import ENVIRONMENT, POLICY, served_on
from tests.shell.conftest import Screen
from tests.shell.steps import say
from tests.slow_provider import SlowProvider, serving_slowly

from demiurge import World


def read(tokens: int) -> dict[str, Any]:
    """Returns the chunk in which a llama.cpp server says how many of a prompt's 900 tokens it has read."""
    delta = {"choices": [{"index": 0, "delta": {"role": "assistant"}}]}
    return {**delta, "prompt_progress": {"total": 900, "processed": tokens}}


SAID = {"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}]}


@pytest_asyncio.fixture(loop_scope="session")
async def slow(tmp_path: Path, browser: Browser) -> AsyncIterator[tuple[Screen, SlowProvider]]:
    """A served world whose model reads its prompt as slowly as a test wants."""
    async with serving_slowly() as provider:
        opening = World.open(
            tmp_path / "w", [], POLICY, provider="openai-chat", base_url=provider.url, environment=ENVIRONMENT
        )
        async with opening as world, served_on(world, provider) as served:
            screen = Screen(served, browser)
            yield screen, provider
            for context in screen.contexts:
                await context.close()
            assert screen.problems == []


async def test_the_page_says_how_much_of_the_prompt_is_read(slow: tuple[Screen, SlowProvider]) -> None:
    screen, provider = slow
    events = [f"data: {json.dumps(each)}\n\n" for each in (read(300), read(600), SAID)]
    provider.say(Answer("".join((*events, "data: [DONE]\n\n")).encode()))
    page = await screen.page("/chats")
    await page.get_by_role("button", name="New chat").click()
    await say(page, "Hello?")
    status = page.locator(".turn-status")
    await expect(status).to_have_text("Answering …")
    provider.let_go(1)
    await expect(status).to_contain_text("Reading the prompt: 33 %")
    spoken = status.locator(":scope > :not([aria-hidden])")
    await expect(spoken).to_have_text("Answering …")  # a screen reader does not hear each percent
    other = await page.context.new_page()  # a tab that joins later, by the tab that leads
    await other.goto(page.url)
    await expect(other.locator(".turn-status")).to_contain_text("Reading the prompt: 33 %")
    provider.let_go(1)
    for each in (page, other):
        await expect(each.locator(".turn-status")).to_contain_text("Reading the prompt: 66 %")
    provider.let_go()
    await expect(page.locator(".markdown")).to_have_text("Yes.")
    await expect(status).to_have_text("Done")
