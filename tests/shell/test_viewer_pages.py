"""The pages of a viewer: the words of chats, and none of what redaction withholds."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

from playwright.async_api import Page, Request, Route, expect
from tests.server.conftest import Served
from tests.shell.conftest import Screen
from tests.shell.steps import ask_for_order, card_of
from tests.wire.test_attachments import PNG

PATHS = {
    "/chats": "Untitled, ",
    "/chats/c1": "Order waiting",
    "/approvals": "Your role does not see calls that wait.",
    "/journal": "order_part",
    "/journal?unit=demiurge/Demiurge@1/c1": "order_part",
    "/trace?chat=c1": "order_part",
    "/tools": "order_part",
    "/workspaces": "",
    "/manifest": "",
    "/cost": "",
}
"""The pages, each with a text that is on it once its data are there."""

KEEP_STREAMED = """
    window.streamed = [];
    const Real = EventSource;
    window.EventSource = class extends Real {
        constructor(...given) {
            super(...given);
            const keep = (event) => streamed.push(event.data);
            for (const type of ["record", "frame", "message"]) this.addEventListener(type, keep);
        }
    };
"""


@dataclass
class Received:
    """What a browser was sent: the bodies of answers, and what came on the stream."""

    page: Page
    bodies: list[str] = field(default_factory=list)
    open: set[Request] = field(default_factory=set)

    async def begin(self) -> None:
        await self.page.add_init_script(KEEP_STREAMED)
        await self.page.route(lambda url: "/api/" in url and "/stream" not in url, self._keep)

    async def _keep(self, route: Route) -> None:
        self.open.add(route.request)
        answer = await route.fetch()
        self.bodies.append((await answer.body()).decode("utf-8", "replace"))
        await route.fulfill(response=answer)
        self.open.discard(route.request)

    async def settled(self, before: int) -> None:
        """Waits until more answers than `before` have come, and no request is under way."""
        while len(self.bodies) <= before or self.open:
            await asyncio.sleep(0.05)

    async def all(self) -> list[str]:
        """What came until now, on this page and on those before it, with the document of the page."""
        return [*self.bodies, *await self.page.evaluate("streamed"), await self.page.content()]


async def decide(served: Served, path: str, body: dict[str, object]) -> None:
    """Decides the one call that waits, as the user."""
    user = await served.client()
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    answer = await user.post(f"/api/approvals/{asked['id']}{path}", json=body)
    assert answer.status_code == 200, answer.text
    await served.world.settle()


async def order_with(served: Served, call_id: str, card: str) -> None:
    provider = served.provider
    call = provider.call("order_part", {"part": call_id, "card": card}, call_id)
    provider.say(provider.answer(call), provider.answer(provider.text("Ordered.")))
    user = await served.client()
    stored = (await user.post("/api/blob", content=PNG + b"canary-attached-" + call_id.encode())).json()["hash"]
    attached = [{"mime": "image/png", "bytes_ref": stored}]
    sent = await user.post(
        "/api/chats/c1/messages", json={"text": f"Order {call_id}", "attachments": attached, "wait": True}
    )
    assert sent.json()["status"] == "awaiting_approval"


async def test_check_12_a_secret_is_in_no_answer_no_page_no_stream_and_no_download_of_a_viewer(screen: Screen) -> None:
    served = screen.served
    page = await screen.page("/login-is-done", role="viewer")
    received = Received(page)
    await received.begin()
    await page.goto(f"{served.base}/chats")
    seen: list[str] = []
    await order_with(served, "approved", "canary-approved")
    await decide(served, "", {"decision": "approve", "reason": "canary-reason"})
    await order_with(served, "changed", "canary-proposed")
    changed = '{"part": "changed", "card": "canary-changed"}'
    await decide(served, "", {"decision": "approve", "arguments_json": changed})
    await order_with(served, "ruled", "canary-ruled")
    pattern = {"part": {"any": True}, "card": {"like": "canary-ru*"}}
    await decide(served, "/rule", {"pattern": pattern, "reason": "canary-why"})
    await order_with(served, "waiting", "canary-waiting")
    for path, text in PATHS.items():
        before = len(received.bodies)
        await page.goto(served.base + path)
        await expect(page.locator("#root").filter(has_text=text).locator("main").first).to_be_visible()
        await received.settled(before)
        await page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        seen += await received.all()
    assert sum("Order changed" in each for each in seen) > 1, "the words of the chat are shown"
    refs = sorted({ref for each in seen for ref in re.findall("sha256:[0-9a-f]{64}", each)})
    downloads = [await page.request.get(f"{served.base}/api/blob/{ref}") for ref in refs]
    assert {answer.status for answer in downloads} == {200, 404}
    seen += [(await answer.body()).decode("utf-8", "replace") for answer in downloads]
    assert [each[:200] for each in seen if "canary-" in each] == []


async def test_a_viewer_sees_that_a_chat_waits_and_that_the_turn_ends(screen: Screen) -> None:
    await ask_for_order(screen.served)
    page = await screen.page("/chats/c1", role="viewer")
    await expect(page.locator(".chat-list .state")).to_have_text("waits for a person")
    await expect(page.locator(".turn-status")).to_have_text("A person has to decide")
    await expect(page.locator(".tool .state")).to_have_text("waits for a person")
    await expect(page.locator(".tool")).to_contain_text("Your role does not see the arguments.")
    await expect(card_of(page)).to_have_count(0)
    await expect(page.get_by_label("Message", exact=True)).to_have_count(0)
    await expect(page.get_by_text("Your role reads this chat, and does not write in it.")).to_be_visible()
    await decide(screen.served, "", {"decision": "approve", "reason": "fine"})
    await expect(page.locator(".markdown")).to_have_text("Ordered.")
    await expect(page.locator(".tool .state")).to_have_text("done")
    await expect(page.locator(".tool .outcome")).to_contain_text("Approved by user:user")
    await expect(page.locator(".tool .outcome")).to_contain_text("your role does not see the reason")
    await page.goto(f"{screen.served.base}/approvals")
    await expect(page.get_by_text("Your role does not see calls that wait.")).to_be_visible()


async def test_a_viewer_is_told_that_a_file_was_attached(screen: Screen) -> None:
    await order_with(screen.served, "bolt", "x")
    page = await screen.page("/chats/c1", role="viewer")
    await expect(page.get_by_text("An image was attached; your role does not see it.")).to_be_visible()
    await expect(page.locator(".message img")).to_have_count(0)
