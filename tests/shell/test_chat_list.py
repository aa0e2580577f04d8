"""The list of chats in a browser: what it reads does not grow with the number of chats."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.async_api import Page, expect
from tests.shell.conftest import Screen

CHATS = 120


async def make_chats(screen: Screen) -> None:
    """Makes chats `c0` to `c119`. The last of them was made last."""
    user = await screen.served.client()
    for number in range(CHATS):
        await user.post("/api/chats", json={"chat_id": f"c{number}", "title": f"Chat {number}"})


def watch_chat_reads(page: Page) -> list[str]:
    """Returns a list that grows with each read of chats: the id of one chat, or `limit=N` for a window of them."""
    reads: list[str] = []

    def note(url: str) -> None:
        path, query = urlsplit(url).path, parse_qs(urlsplit(url).query)
        if path == "/api/chats":
            reads.append(f"limit={query['limit'][0]}")
        elif path.startswith("/api/chats/") and path.count("/") == 3:
            reads.append(path.rsplit("/", 1)[1])

    page.on("request", lambda request: note(request.url) if request.method == "GET" else None)
    return reads


async def test_a_record_of_a_chat_makes_the_list_read_that_chat_alone(screen: Screen) -> None:
    await make_chats(screen)
    page = await screen.page("/chats")
    rows = page.locator(".chat-list li")
    await expect(rows).to_have_count(50)
    user = await screen.served.client()
    await user.patch("/api/chats/c117", json={"title": "Shown"})
    await expect(rows.first).to_have_text("Shown")  # the stream is open, and what it began with is read
    reads = watch_chat_reads(page)
    provider = screen.served.provider
    provider.say(provider.answer(provider.text("Yes.")))
    await user.post("/api/chats/c3/messages", json={"text": "Hello", "wait": True})
    await user.patch("/api/chats/c3", json={"title": "Renamed"})
    await expect(rows.first).to_have_text("Renamed")
    await user.patch("/api/chats/c118", json={"title": "Renamed too"})
    await expect(rows.first).to_have_text("Renamed too")
    await expect(rows.nth(1)).to_have_text("Renamed")
    await expect(rows.get_by_text("Renamed")).to_have_count(2)
    assert {"c3", "c118"} <= set(reads) <= {"c3", "c118", "c117"}  # a late read of the first rename


async def test_more_chats_are_read_window_by_window(screen: Screen) -> None:
    await make_chats(screen)
    page = await screen.page("/chats")
    rows = page.locator(".chat-list li")
    await expect(rows).to_have_count(50)
    reads = watch_chat_reads(page)
    more = page.get_by_role("button", name="Show more chats")
    await more.click()
    await expect(rows).to_have_count(100)
    await more.click()
    await expect(rows).to_have_count(CHATS)
    await expect(more).to_have_count(0)
    await expect(rows.first).to_have_text("Chat 119")
    await expect(rows.last).to_have_text("Chat 0")
    assert [read for read in reads if read != "limit=50"] == []


async def test_a_search_finds_a_chat_that_is_not_in_the_window(screen: Screen) -> None:
    await make_chats(screen)
    page = await screen.page("/chats")
    rows = page.locator(".chat-list li")
    await expect(rows).to_have_count(50)
    await page.get_by_label("Search chats").fill("chat 7")
    await expect(rows).to_have_text([f"Chat {number}" for number in (*range(79, 69, -1), 7)])
    await page.get_by_label("Search chats").fill("no such title")
    await expect(page.get_by_text("No chat has this in its title or id.")).to_be_visible()
    await page.get_by_label("Title of a new chat").fill("Another")
    await page.get_by_role("button", name="New chat").click()
    await expect(page.get_by_label("Search chats")).to_have_value("")
    await expect(rows.first).to_have_text("Another")


async def test_a_chat_is_archived_and_found_among_the_archived_ones(screen: Screen) -> None:
    user = await screen.served.client()
    for number in range(2):
        await user.post("/api/chats", json={"chat_id": f"c{number}", "title": f"Chat {number}"})
    await user.post("/api/chats", json={})
    page = await screen.page("/chats/c1")
    rows = page.locator(".chat-list li")
    await expect(rows.first).to_have_text(re.compile(r"^Untitled, \d+ \w+ \d\d:\d\d$"))
    await page.get_by_role("button", name="Archive", exact=True).click()
    await expect(rows).to_have_count(2)
    await page.get_by_label("Archived chats").check()
    await expect(rows).to_have_text(["Chat 1"])
    await page.get_by_role("button", name="Unarchive").click()
    await expect(page.get_by_text("No chat is archived.")).to_be_visible()
    await page.get_by_label("Archived chats").uncheck()
    await expect(rows.first).to_have_text("Chat 1")


async def test_a_chat_is_deleted_with_a_reason_and_leaves_the_list(screen: Screen) -> None:
    user = await screen.served.client()
    for number in range(2):
        await user.post("/api/chats", json={"chat_id": f"c{number}", "title": f"Chat {number}"})
    page = await screen.page("/chats/c1")
    rows = page.locator(".chat-list li")
    await expect(rows).to_have_text(["Chat 1", "Chat 0"])
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_label("Reason, which is recorded")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Delete", exact=True)).to_be_focused()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_role("button", name="Delete for good")).to_be_disabled()
    await page.get_by_label("Reason, which is recorded").fill("she asked")
    await page.get_by_role("button", name="Delete for good").click()
    await expect(page.get_by_text("Choose a chat, or begin a new one.")).to_be_visible()
    await expect(rows).to_have_text(["Chat 0"])
    assert (await user.get("/api/chats/c1")).status_code == 404


async def test_a_title_that_the_model_proposes_appears_by_itself(screen: Screen) -> None:
    screen.served.provider.title = "Planting a Hedge"
    screen.served.provider.say(screen.served.provider.answer(screen.served.provider.text("In autumn.")))
    page = await screen.page("/chats")
    await page.get_by_role("button", name="New chat").click()
    await page.get_by_label("Message", exact=True).fill("When do I plant a hedge?")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Planting a Hedge")).to_be_visible()
    await expect(page.locator(".chat-list li")).to_have_text(["Planting a Hedge"])


async def test_only_a_user_is_offered_to_rename_and_archive(screen: Screen) -> None:
    user = await screen.served.client()
    await user.post("/api/chats", json={"chat_id": "c1", "title": "Chat 1"})
    page = await screen.page("/chats/c1", role="agent")
    await expect(page.get_by_role("heading", name="Chat 1")).to_be_visible()
    await expect(page.get_by_role("button", name="Rename")).to_have_count(0)
    await expect(page.get_by_role("button", name="Archive", exact=True)).to_have_count(0)
    await expect(page.get_by_role("button", name="Delete", exact=True)).to_have_count(0)


async def test_a_chat_is_downloaded_from_its_head(screen: Screen) -> None:
    user = await screen.served.client()
    await user.post("/api/chats", json={"chat_id": "c1", "title": "Chat 1"})
    page = await screen.page("/chats/c1")
    await page.get_by_text("Export", exact=True).click()
    async with page.expect_download() as begun:
        await page.get_by_role("link", name="Markdown").click()
    download = await begun.value
    assert download.suggested_filename == "chat.md"
    assert (await download.path()).read_text("utf-8").startswith("# Chat 1\n")


async def test_an_exported_chat_is_imported_from_a_file(screen: Screen) -> None:
    provider = screen.served.provider
    provider.say(provider.answer(provider.text("Good day.")))
    user = await screen.served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Hello", "wait": True})
    exported = (await user.get("/api/chats/c1/export")).content
    page = await screen.page("/chats")
    chosen = page.get_by_label("Import a chat")
    await chosen.set_input_files({"name": "x.json", "mimeType": "application/json", "buffer": b"not JSON"})
    await expect(page.get_by_text("This file is not JSON.")).to_be_visible()
    await chosen.set_input_files({"name": "chat.json", "mimeType": "application/json", "buffer": exported})
    await expect(page.locator(".message.user")).to_contain_text("imported, with its answer")
    await expect(page.locator(".markdown")).to_have_text("Good day.")
