"""Messages of a chat in a browser: attached files, titles, long chats, and the order of the list."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import FilePayload, Locator, Page, Route, expect
from tests.shell.conftest import Screen
from tests.shell.steps import say
from tests.wire.test_attachments import PNG, WAV

MESSAGES = 2000


def png(name: str = "dot.png", data: bytes = PNG) -> FilePayload:
    return {"name": name, "mimeType": "image/png", "buffer": data}


async def open_chat(screen: Screen) -> Page:
    page = await screen.page("/chats")
    await page.get_by_role("button", name="New chat").click()
    await expect(page.get_by_label("Message", exact=True)).to_be_visible()
    return page


async def drop(page: Page, name: str, mime: str, data: bytes) -> None:
    """Drops a file on the chat, as from a folder of the desktop."""
    transfer = await page.evaluate_handle(
        """([name, type, bytes]) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], name, {type}));
            return transfer;
        }""",
        [name, mime, list(data)],
    )
    await page.dispatch_event(".thread", "dragover", {"dataTransfer": transfer})
    await expect(page.get_by_text("Drop images and sounds here to attach them.")).to_be_visible()
    await page.dispatch_event(".thread", "drop", {"dataTransfer": transfer})
    await expect(page.get_by_text("Drop images and sounds here to attach them.")).to_have_count(0)


def send_button(page: Page) -> Locator:
    return page.get_by_role("button", name="Send")


async def test_one_message_has_a_model_and_a_choice_of_a_tool_of_its_own(screen: Screen) -> None:
    provider = screen.served.provider
    provider.say(provider.answer(provider.text("Nine.")))
    page = await open_chat(screen)
    await page.get_by_text("Model and tools for the next message").click()
    await page.get_by_label("Model", exact=True).fill("gpt-5-nano")
    await page.get_by_label("Choice of a tool").select_option(label="it must call this tool")
    await page.get_by_label("Tool", exact=True).fill("no_such_tool")
    await say(page, "How many?")
    await expect(page.get_by_role("alert")).to_contain_text("no_such_tool")
    await expect(page.get_by_label("Message", exact=True)).to_have_value("How many?")
    await page.get_by_label("Choice of a tool").select_option(label="it may call none")
    await send_button(page).click()
    await expect(page.locator(".markdown")).to_have_text("Nine.")
    assert (provider.seen[-1]["model"], provider.seen[-1]["tool_choice"]) == ("gpt-5-nano", "none")
    await expect(page.get_by_label("Model", exact=True)).to_have_value("")
    await say(page, "And now?")
    await expect(page.locator(".markdown")).to_have_count(2)
    assert provider.seen[-1]["model"] != "gpt-5-nano"


async def test_an_image_and_a_sound_are_attached_sent_and_shown(screen: Screen) -> None:
    provider = screen.served.provider
    provider.say(provider.answer(provider.text("A dot.")))
    page = await open_chat(screen)
    await page.locator("input[type=file][multiple]").set_input_files([png()])
    await drop(page, "sound.wav", "audio/x-wav", WAV)
    files = page.get_by_role("list", name="Attached files").get_by_role("listitem")
    await expect(files).to_have_text([re.compile("^dot.png 70 B"), re.compile("^sound.wav 44 B")])
    await page.get_by_role("button", name="Remove sound.wav").click()
    await expect(files).to_have_count(1)
    await say(page, "What is this?")
    await expect(page.locator(".markdown")).to_have_text("A dot.")
    await expect(page.get_by_role("list", name="Attached files")).to_have_count(0)
    assert "data:image/png;base64" in str(provider.seen[-1])
    for _ in range(2):
        image = page.get_by_role("img", name="Attached by the user")
        await expect(image).to_have_js_property("naturalWidth", 1)
        await page.reload()


async def test_a_sound_is_shown_with_a_player(screen: Screen) -> None:
    page = await open_chat(screen)
    await drop(page, "sound.wav", "audio/wav", WAV)
    await expect(send_button(page)).to_be_enabled()
    await send_button(page).click()
    await expect(page.get_by_label("Attached sound")).to_be_visible()
    assert await page.get_by_label("Attached sound").get_attribute("src")


@pytest.mark.parametrize(
    ("name", "mime", "size", "why"),
    [
        ("notes.txt", "text/plain", 3, "It is no PNG, JPEG, GIF or WebP image and no WAV or MP3 sound."),
        ("page.svg", "image/svg+xml", 3, "It is no PNG, JPEG, GIF or WebP image and no WAV or MP3 sound."),
        ("large.png", "image/png", (10 << 20) + 1, "It has 10 MB; 10 MB is the most."),
    ],
)
async def test_a_file_that_no_message_takes_is_refused_by_name(
    screen: Screen, name: str, mime: str, size: int, why: str
) -> None:
    page = await open_chat(screen)
    stored: list[str] = []
    page.on("request", lambda request: stored.append(request.url) if request.url.endswith("/api/blob") else None)
    given: FilePayload = {"name": name, "mimeType": mime, "buffer": b"x" * size}
    await page.locator("input[type=file][multiple]").set_input_files([given])
    await expect(page.get_by_role("alert")).to_have_text(why)
    await page.get_by_label("Message", exact=True).fill("Look")
    await expect(send_button(page)).to_be_disabled()
    await page.get_by_role("button", name=f"Remove {name}").click()
    await expect(send_button(page)).to_be_enabled()
    assert stored == []


async def test_bytes_that_the_server_refuses_leave_the_message_in_its_place(screen: Screen) -> None:
    page = await open_chat(screen)
    await page.locator("input[type=file][multiple]").set_input_files([png(data=b"no image")])
    await expect(send_button(page)).to_be_enabled()
    await say(page, "Look")
    await expect(page.get_by_role("alert")).to_contain_text("The attachment can't be taken")
    await expect(page.get_by_label("Message", exact=True)).to_have_value("Look")
    await expect(page.get_by_role("list", name="Attached files").get_by_role("listitem")).to_have_count(1)
    assert screen.served.provider.seen == []


async def test_a_message_that_is_said_again_has_its_attachments(screen: Screen) -> None:
    provider = screen.served.provider
    provider.say(
        provider.raw(b'{"error": {"message": "no"}}', 400, "application/json"), provider.answer(provider.text("A dot."))
    )
    page = await open_chat(screen)
    await page.locator("input[type=file][multiple]").set_input_files([png()])
    await expect(send_button(page)).to_be_enabled()
    await send_button(page).click()
    await page.get_by_role("button", name="Say it again").click()
    await expect(page.locator(".markdown")).to_have_text("A dot.")
    await expect(page.get_by_role("img", name="Attached by the user")).to_have_count(2)
    assert "data:image/png;base64" in str(provider.seen[-1])


async def test_enter_sends_and_shift_enter_begins_a_line(screen: Screen) -> None:
    provider = screen.served.provider
    provider.say(provider.answer(provider.text("Two lines.")))
    page = await open_chat(screen)
    await page.get_by_label("Message", exact=True).press_sequentially("one")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("two")
    assert provider.seen == []
    await page.keyboard.press("Enter")
    await expect(page.locator(".message.user .plain")).to_have_text("one\ntwo")
    await expect(page.locator(".markdown")).to_have_text("Two lines.")


async def test_a_chat_is_renamed_and_other_windows_say_so(screen: Screen) -> None:
    await (await screen.served.client()).post("/api/chats", json={"chat_id": "c1", "title": "Shop"})
    page, other = await screen.page("/chats/c1"), await screen.page("/chats/c1", role="viewer")
    await expect(other.get_by_role("heading", name="Shop")).to_be_visible()
    await expect(other.get_by_role("button", name="Rename")).to_have_count(0)
    await page.get_by_role("button", name="Rename").click()
    title = page.get_by_label("Title of this chat")
    await expect(title).to_be_focused()
    await title.fill("  ")
    await expect(page.get_by_role("button", name="Save")).to_be_disabled()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Rename")).to_be_focused()
    await page.keyboard.press("Enter")
    await title.fill("סדנה ‮x")
    await page.keyboard.press("Enter")
    for each in (page, other):
        await expect(each.locator(".chat-head h1")).to_have_text("סדנה U+202Ex")
        await expect(each.locator(".chat-list li")).to_have_text(["סדנה U+202Ex"])
    records = await (await screen.served.client("viewer")).get("/api/journal?unit=demiurge/Demiurge@1/c1")
    renamed = [each for each in records.json()["records"] if each["body"].get("value", {}).get("$tag") == "ChatRenamed"]
    assert [each["caller"]["actor"] for each in renamed] == ["user:user"]


async def test_a_title_that_cannot_be_saved_says_why_and_stays(screen: Screen) -> None:
    await (await screen.served.client()).post("/api/chats", json={"chat_id": "c1", "title": "Shop"})
    page = await screen.page("/chats/c1")
    await page.get_by_role("button", name="Rename").click()
    problem = {"code": "unavailable", "message": "The disk is full."}

    async def refuse(route: Route) -> None:
        await (route.fulfill(status=503, json=problem) if route.request.method == "PATCH" else route.continue_())

    await page.route("**/api/chats/c1", refuse)
    await page.get_by_label("Title of this chat").fill("Workshop")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("The disk is full.")
    await expect(page.get_by_label("Title of this chat")).to_have_value("Workshop")


async def test_the_chat_in_which_something_happened_last_is_on_top(screen: Screen) -> None:
    user = await screen.served.client()
    for title in ("First", "Second"):
        await user.post("/api/chats", json={"chat_id": title.lower(), "title": title})
    page = await screen.page("/chats")
    await expect(page.locator(".chat-list li")).to_have_text(["Second", "First"])
    screen.served.provider.say(screen.served.provider.answer(screen.served.provider.text("Yes.")))
    await user.post("/api/chats/first/messages", json={"text": "Hello", "wait": True})
    await expect(page.locator(".chat-list li")).to_have_text(["First", "Second"])


def long_chat(messages: int) -> list[dict[str, Any]]:
    """Messages of a chat, of a person and of the model in turn."""
    return [
        {
            "request_id": place // 2 + 1,
            "role": "assistant" if place % 2 else "user",
            "ref": "",
            "text": f"**Answer** {place // 2 + 1}\n\n" + "line\n\n" * 3 if place % 2 else f"Message {place // 2 + 1}",
        }
        for place in range(messages)
    ]


async def open_long_chat(screen: Screen) -> Page:
    """A page with a chat of 2,000 messages, of which only the last two are of the record."""
    provider = screen.served.provider
    provider.say(provider.answer(provider.text("The real answer.")))
    user = await screen.served.client()
    await user.post("/api/chats/c1/messages", json={"text": "The real message", "wait": True})
    page = await screen.page("/chats")

    async def with_past(route: Route) -> None:
        asked = re.search(r"since=(\d+)", route.request.url)
        since = int(asked[1]) if asked else 0
        body = await (await route.fetch(url=re.sub(r"since=\d+", "since=0", route.request.url))).json()
        real = [{**each, "request_id": each["request_id"] + MESSAGES // 2} for each in body["messages"]]
        past = [each for each in long_chat(MESSAGES) if each["request_id"] >= since]
        await route.fulfill(json={**body, "messages": [*past, *real]})

    await page.route("**/api/chats/c1/messages?**", with_past)
    await page.goto(f"{screen.served.base}/chats/c1")
    await expect(page.get_by_text("The real answer.")).to_be_in_viewport()
    return page


async def test_of_a_chat_of_2000_messages_only_a_window_is_mounted(screen: Screen) -> None:
    page = await open_long_chat(screen)
    messages = page.locator(".message")
    assert 50 <= await messages.count() <= 100
    assert await page.evaluate("document.querySelectorAll('*').length") < 2000
    await expect(page.get_by_role("button", name="Show earlier messages (975 turns before)")).to_have_count(1)
    for _ in range(4):
        await page.get_by_role("button", name="Show earlier messages").click()
        assert await messages.count() <= 100
    await expect(page.get_by_role("button", name="Show later messages")).to_have_count(1)
    await page.get_by_role("button", name="To the newest").click()
    await expect(page.get_by_text("The real answer.")).to_be_in_viewport()
    assert await messages.count() <= 100


async def test_check_17_the_message_in_view_stays_when_earlier_ones_are_shown(screen: Screen) -> None:
    page = await open_long_chat(screen)
    await page.locator(".viewport").evaluate("(box) => box.scrollTo(0, 0)")
    first = page.locator(".message").first
    await expect(first).to_be_in_viewport()
    name = await first.get_attribute("id")
    kept = page.locator(f"[id='{name}']")
    top = await kept.evaluate("(each) => each.getBoundingClientRect().top")
    await page.get_by_role("button", name="Show earlier messages").click()
    await expect(page.locator(".message").first).not_to_have_attribute("id", str(name))
    await expect(kept).to_be_in_viewport()
    assert abs(await kept.evaluate("(each) => each.getBoundingClientRect().top") - top) < 2
    await page.get_by_role("button", name="To the newest").click()
    await expect(page.get_by_text("The real answer.")).to_be_in_viewport()


async def test_a_message_that_was_erased_is_gone_without_a_reload(screen: Screen) -> None:
    provider = screen.served.provider
    provider.say(provider.answer(provider.text("Noted.")))
    user = await screen.served.client()
    await user.post("/api/chats/c1/messages", json={"text": "My secret words", "wait": True})
    await user.post("/api/chats/c1/messages", json={"text": "Something else", "wait": True})
    page = await screen.page("/chats/c1")
    await expect(page.get_by_text("My secret words")).to_be_visible()
    [said, *_] = (await user.get("/api/chats/c1/messages")).json()["messages"]
    await screen.served.world.erase(said["ref"], "a wish")
    await expect(page.get_by_text("This message was erased. a wish")).to_be_visible()
    await expect(page.get_by_text("My secret words")).to_have_count(0)
