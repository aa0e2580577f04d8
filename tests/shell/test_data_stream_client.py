"""`/api/ai/chat` read by the client that it is made for, in a browser: `useDataStreamRuntime` of npm
`@assistant-ui/react-data-stream`, and the decoder of npm `assistant-stream`.

`make data-stream-client` builds both into one file, which is committed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from playwright.async_api import Browser, Page, Route
from tests.server.conftest import Served

CLIENT = Path(__file__).parent / "data_stream_client"
BUILT = CLIENT / "built" / "built.js"
HTML = f"<!doctype html><title>Client</title><body><script>{BUILT.read_text('utf-8')}</script></body>"


class Client:
    """A chat in the client, in one page."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def say(self, text: str) -> dict[str, Any]:
        """Says something, and returns the client's message for the answer once it is over."""
        await self._page.evaluate("text => window.client.say(text)", text)
        await self._page.wait_for_function("() => !window.client.running()")
        messages: list[dict[str, Any]] = await self._page.evaluate("() => window.client.messages()")
        return messages[-1]

    async def problems(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = await self._page.evaluate("() => window.client.problems()")
        return found

    async def decode(self, body: str, size: int) -> dict[str, Any]:
        """Returns what the decoder makes of a body that arrives in pieces of `size` bytes."""
        found: dict[str, Any] = await self._page.evaluate("([body, size]) => window.decode(body, size)", [body, size])
        return found


@pytest_asyncio.fixture(loop_scope="session")
async def client(served: Served, browser: Browser) -> AsyncIterator[Client]:
    context = await browser.new_context()
    context.set_default_timeout(20_000)
    page = await context.new_page()
    secret = (await served.world.tokens.add("user:user", ["user"])).secret

    async def answer(route: Route) -> None:
        await route.fulfill(body=HTML, content_type="text/html; charset=utf-8")

    await page.route(f"{served.base}/client", answer)
    settings = {"headers": {"authorization": f"Bearer {secret}"}, "body": {"chatId": "c1"}}
    await page.add_init_script(f"window.settings = {json.dumps(settings)}")
    await page.goto(f"{served.base}/client")
    await page.wait_for_function("() => window.client")
    yield Client(page)
    await context.close()


def parts(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part for part in message["content"] if part["type"] == kind]


def text_of(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in parts(message, "text"))


def test_the_client_is_built_from_its_sources() -> None:
    digest = hashlib.sha256()
    for name in ("client.js", "package-lock.json", "vite.config.js"):
        digest.update((CLIENT / name).read_bytes())
    head = BUILT.read_text("utf-8").partition("\n")[0]
    assert head == f"/* built from {digest.hexdigest()} */", "run `make data-stream-client` and commit what it builds"


async def test_the_client_shows_a_turn_with_a_call_and_goes_on(served: Served, client: Client) -> None:
    provider = served.provider
    call = provider.call("core__get_current_time", {"timezone": "UTC"})
    provider.say(provider.answer(provider.text("I look."), call), provider.answer(provider.text("It is late.")))
    message = await client.say("How late is it?")
    assert message["status"]["type"] == "complete"
    [shown] = parts(message, "tool-call")
    assert shown["toolName"] == "core__get_current_time"
    assert shown["result"]["value"]["timezone"] == shown["result"]["redacted"]["timezone"] == "UTC"
    assert '"UTC"' in shown["result"]["content"]
    assert not shown.get("isError")
    kinds = [part["type"] for part in message["content"] if part["type"] != "data"]
    assert kinds == ["text", "tool-call", "text"]
    assert text_of(message) == "I look.It is late."
    provider.say(provider.answer(provider.text("You are welcome.")))
    assert text_of(await client.say("Thank you.")) == "You are welcome."
    assert len(provider.seen[0]["input"]) > 3, "the record is the history"
    assert await client.problems() == {"warnings": [], "errors": []}


async def test_the_client_leaves_a_call_open_that_waits_for_a_person(served: Served, client: Client) -> None:
    provider = served.provider
    call = provider.call("order_part", {"part": "bolt", "card": "canary-4111"})
    provider.say(provider.answer(call), provider.answer(provider.text("Ordered.")))
    message = await client.say("Order a bolt")
    assert message["status"] == {"type": "requires-action", "reason": "tool-calls"}
    [shown] = parts(message, "tool-call")
    assert (shown["toolName"], shown["args"], "result" in shown) == ("order_part", {"part": "bolt"}, False)
    assert "canary" not in json.dumps(message)
    [asked] = await served.world.approvals()
    assert message["metadata"]["unstable_data"][-1] == {"type": "waiting", "approvals": [asked["id"]]}
    assert len(provider.seen) == 1, "the client did not post again by itself"
    assert await client.problems() == {"warnings": [], "errors": []}


async def test_the_client_says_why_it_got_no_answer(served: Served, client: Client) -> None:
    provider = served.provider
    provider.say(provider.raw(b"{}", status=400, kind="application/json"))
    failed = await client.say("Hello")
    assert (failed["status"]["type"], failed["status"]["reason"]) == ("incomplete", "error")
    provider.say(provider.answer(provider.call("order_part", {"part": "bolt", "card": "x"})))
    await client.say("Order a bolt")
    busy = await client.say("And a nut")
    assert (busy["status"]["type"], busy["status"]["reason"]) == ("incomplete", "error")
    [refused] = (await client.problems())["errors"]
    assert refused.startswith("Status 409")
    assert "chat_busy" in refused


async def test_the_decoder_reads_a_body_however_it_is_cut(served: Served, client: Client) -> None:
    provider = served.provider
    call = provider.call("core__get_current_time", {"timezone": "UTC"})
    provider.say(provider.answer(provider.text("Té\u2028é \U0001f642"), call), provider.answer(provider.text("Late.")))
    user = await served.client()
    message = {"role": "user", "content": [{"type": "text", "text": "Hello"}]}
    body = (await user.post("/api/ai/chat", json={"messages": [message], "chatId": "c2"})).text
    again = '2:[{"type": "status", "phase": "thinking", "label": "It begins again."}]\n0:"\\n\\n"\n'
    head, _, rest = body.partition("\n")
    for whole, text in (
        (body, "Té\u2028é \U0001f642Late."),
        (f"{head}\n{again}{rest}", "\n\nTé\u2028é \U0001f642Late."),
    ):
        found = [await client.decode(whole, size) for size in (1, 3, 10, len(whole))]
        assert text_of(found[0]["message"]) == text
        assert found[0]["message"]["status"]["type"] == "complete"
        assert found[0]["warnings"] == []
        shown = [(text_of(each["message"]), parts(each["message"], "tool-call")[0]["result"]) for each in found]
        assert shown == [shown[0]] * len(found)
