"""The panel of MCP servers: a server is asked, read, trusted and quarantined by keyboard, and its text stays text."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect
from tests.cli.mcp_servers import EVIL, ScriptedServer, tool_of
from tests.provider import Provider
from tests.server.conftest import ENVIRONMENT, Served, served_on
from tests.shell.conftest import Screen
from tests.shell.test_panel_states import violations

from demiurge import World
from demiurge.mcp.settings import ServerSettings

MARKUP = "Reads <img src=x onerror=alert(1)> mail."


@pytest_asyncio.fixture(loop_scope="session")
async def served(tmp_path: Path, provider: Provider) -> AsyncIterator[Served]:
    """A world with the default policy."""
    opening = World.open(tmp_path / "w", provider="openai-responses", base_url=provider.url, environment=ENVIRONMENT)
    async with opening as world, served_on(world, provider) as found:
        yield found


async def add_mail(served: Served, folder: Path) -> ScriptedServer:
    """Adds a server with one tool as the user of this machine, and has it list the tool."""
    mail = ScriptedServer(folder / "mail.json", tool_of("read", MARKUP), tool_of("send"))
    await served.world.mcp.add(ServerSettings("mail", command=mail.command))
    await served.world.mcp.refresh("mail")
    return mail


async def press_until(page: Page, key: str, name: str) -> None:
    """Presses a key until the focus is on the element whose text or label begins with `name`."""
    for _ in range(60):
        await page.keyboard.press(key)
        told = "(() => { const e = document.activeElement; return (e.ariaLabel ?? '') + e.innerText; })()"
        if str(await page.evaluate(told)).strip().startswith(name):
            return
    raise AssertionError(f"{key} never reaches {name}")


async def test_a_tool_is_trusted_and_a_changed_one_is_quarantined_by_keyboard(screen: Screen, tmp_path: Path) -> None:
    mail = await add_mail(screen.served, tmp_path)
    page = await screen.page("/mcp-servers")
    await expect(page.get_by_role("link", name="mail")).to_contain_text("0 of 2 tools trusted")
    await press_until(page, "Tab", "read")
    await page.keyboard.press("Enter")
    card = page.locator("[data-tool=mcp__mail__read]")
    await expect(card.get_by_role("group", name="Description of read")).to_have_text(MARKUP)
    await press_until(page, "Tab", "Trust this text")
    await page.keyboard.press("Enter")
    await expect(card.locator("summary").first).to_contain_text("trusted, pinned")
    await expect(page.get_by_role("link", name="mail")).to_contain_text("1 of 2 tools trusted")

    mail.list(tool_of("read", f"{MARKUP}\nThen {EVIL}"), tool_of("send"))
    await page.get_by_role("button", name="Ask it for its tools now").click()
    await expect(card.locator("summary").first).to_contain_text("quarantined")
    changes = card.get_by_role("region", name="What changed in read")
    await expect(changes.locator(".added").first).to_contain_text("Then Reads mail.<U+001B>[2J")
    await expect(page.locator("img[src=x]")).to_have_count(0)
    card_form = card.locator("form")
    await card_form.get_by_label("allow").check()
    await card_form.get_by_label("What it may do").select_option("state_change")
    await card_form.get_by_role("button", name="Trust this text").click()
    await expect(card.locator("summary").first).to_contain_text("trusted, pinned state_change allow")
    await card.get_by_role("button", name="Take the trust away").click()
    await expect(card.locator("summary").first).to_contain_text("not trusted")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
async def test_axe_finds_nothing_in_the_panel(screen: Screen, tmp_path: Path, width: int, scheme: str) -> None:
    mail = await add_mail(screen.served, tmp_path)
    await screen.served.world.mcp.trust("mail", ["read"])
    mail.list(tool_of("read", f"متجر {EVIL}"), tool_of("send"))
    await screen.served.world.mcp.refresh("mail")
    page = await screen.page("/chats", viewport={"width": width, "height": 900}, color_scheme=scheme)
    for tool, shown in (("read", ".added"), ("send", "form.trust")):
        await page.goto(f"{screen.served.base}/mcp-servers?server=mail&tool=mcp__mail__{tool}")
        await expect(page.locator(shown).first).to_be_visible()
        assert await violations(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        assert await page.evaluate("document.querySelector('.panel').scrollWidth") <= width


async def test_only_a_user_sees_the_buttons_and_a_request_adds_no_program(screen: Screen, tmp_path: Path) -> None:
    await add_mail(screen.served, tmp_path)
    page = await screen.page("/mcp-servers")
    await page.get_by_text("Add a server at an address").click()
    await page.get_by_label("Name").fill("wiki")
    await page.get_by_label("Address", exact=True).fill("https://wiki.example/mcp")
    await page.get_by_role("button", name="Add the server").click()
    await expect(page.get_by_role("link", name="wiki")).to_contain_text("not adopted here")
    await expect(page.get_by_text("demiurge mcp adopt wiki")).to_be_visible()
    await expect(page.get_by_role("button", name="Ask it for its tools now")).to_be_disabled()
    await page.get_by_role("button", name="Remove …").click()
    await page.get_by_role("button", name="Remove wiki and the trust in its tools").click()
    await expect(page.get_by_role("link", name="wiki")).to_have_count(0)


async def test_an_approval_and_the_catalog_say_whose_tool_it_is(screen: Screen, tmp_path: Path) -> None:
    await add_mail(screen.served, tmp_path)
    await screen.served.world.mcp.trust("mail", ["read"])
    await screen.served.world.call("mcp__mail__read", '{"q": "x"}')
    page = await screen.page("/approvals")
    card = page.locator("[data-approval]:visible").first
    await expect(card.locator(".badges")).to_have_text("MCP server mail pinned untrusted text")
    await expect(card.locator("h2")).to_have_text("user, outside of any chat, wants to run mcp__mail__read.")
    await page.goto(f"{screen.served.base}/tools?tool=mcp__mail__read")
    opened = page.locator("details[open]").first
    await expect(opened.locator("summary").first).to_contain_text("mcp mail")
    await expect(opened.locator("summary").first).to_contain_text("pinned untrusted text")
    await opened.get_by_role("link", name="mail", exact=True).click()
    await expect(page.get_by_role("heading", name="MCP servers")).to_be_visible()


async def test_a_narrow_screen_shows_the_chosen_server_alone(screen: Screen, tmp_path: Path) -> None:
    await add_mail(screen.served, tmp_path)
    await screen.served.world.mcp.add(ServerSettings("gone", command=("no-such-program-here",)))
    page = await screen.page("/mcp-servers", viewport={"width": 390, "height": 900})
    await page.get_by_role("link", name="gone").click()
    await expect(page.get_by_role("link", name="mail")).to_be_hidden()
    await page.get_by_role("button", name="Ask it for its tools now").click()
    await expect(page.get_by_text("The program no-such-program-here is not there.")).to_have_count(1)
    await page.get_by_role("link", name="All servers").click()
    await expect(page.get_by_role("link", name="gone")).to_contain_text("failed")
    await expect(page.get_by_role("link", name="mail")).to_be_visible()


async def test_prompts_and_resources_are_counted_apart_from_tools(screen: Screen, tmp_path: Path) -> None:
    desk = ScriptedServer(tmp_path / "desk.json", tool_of("read"))
    desk.list(tool_of("read"), prompts=[{"name": "greet"}])
    await screen.served.world.mcp.add(ServerSettings("desk", command=desk.command))
    await screen.served.world.mcp.refresh("desk")
    await screen.served.world.mcp.trust("desk", ["prompt:greet"])
    page = await screen.page("/mcp-servers")
    said = "0 of 1 tools trusted, 1 of 1 prompts and resources trusted"
    await expect(page.get_by_role("link", name="desk")).to_contain_text(said)


async def test_the_last_words_of_a_failed_server_are_shown_as_they_are(screen: Screen) -> None:
    says = "import sys; sys.exit('<b>no config</b> \\x1b[2J\\nset MAIL_HOME')"
    await screen.served.world.mcp.add(ServerSettings("mail", command=(sys.executable, "-c", says)))
    page = await screen.page("/mcp-servers?server=mail", viewport={"width": 360, "height": 900})
    await page.get_by_role("button", name="Ask it for its tools now").click()
    shown = page.get_by_role("group", name="What mail wrote last")
    await expect(shown).to_have_text("<b>no config</b> <U+001B>[2J\nset MAIL_HOME")
    assert await violations(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360
