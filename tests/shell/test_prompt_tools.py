"""The catalog of prompt tools in a browser: its rows, the page of a tool, and the form of a proposal."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Route, expect
from tests.registry.proposals import proposal_of
from tests.server.review_steps import approve
from tests.shell.conftest import Screen


async def test_the_tabs_of_prompt_tools_have_addresses_of_their_own(screen: Screen) -> None:
    page = await screen.page("/chats")
    await page.get_by_role("link", name="Prompt Tools").click()
    tabs = page.get_by_role("navigation", name="Prompt Tools")
    await expect(page.locator("main").get_by_text("line_editor")).to_be_visible()
    for label, path, said in (
        ("Proposals", "/prompt-tools/proposals", "Nothing is proposed."),
        ("Issues", "/prompt-tools/issues", "There is no issue."),
    ):
        await tabs.get_by_role("link", name=label).click()
        await expect(page.get_by_text(said)).to_be_visible()
        assert page.url.endswith(path)
        await page.reload()
        await expect(page.get_by_text(said)).to_be_visible()
        await expect(tabs.locator("[aria-current=page]")).to_have_text(label)


async def test_the_catalog_says_which_tools_are_locked_and_of_which_layer_and_version_the_others_are(
    screen: Screen,
) -> None:
    user = await screen.served.client()
    await approve(user)
    await approve(user, proposalType="modify", goals="Name the slow paragraphs.")
    await approve(user, target="project", name="Pacer of this project")
    page = await screen.page("/prompt-tools")
    rows = page.get_by_role("list", name="Prompt tools").get_by_role("listitem")
    await expect(rows).to_have_count(17)
    await expect(rows.filter(has_text="Locked (core)")).to_have_count(16)
    own = rows.filter(has_text="Pacer of this project")
    await expect(own.locator(".tag")).to_have_text(["project", "version 1", "Editor", "hides that of the layer user"])
    await approve(user, id="other_tool", name="Other tool")  # the page reads again by itself
    await expect(rows.filter(has_text="Other tool")).to_be_visible()


async def test_the_catalog_is_filtered_by_text_archetype_and_layer_and_a_reload_keeps_the_filters(
    screen: Screen,
) -> None:
    await approve(await screen.served.client())
    page = await screen.page("/prompt-tools")
    rows = page.get_by_role("list", name="Prompt tools").get_by_role("listitem")
    await page.get_by_label("Archetype").select_option("Editor")
    await expect(rows).to_have_count(3)
    await page.get_by_label("Layer").select_option("user")
    await expect(rows.locator("code")).to_have_text(["scene_pacer"])
    await page.reload()
    await expect(rows.locator("code")).to_have_text(["scene_pacer"])
    await page.get_by_label("Layer").select_option("")
    await page.get_by_label("Find").fill("PROSE")
    await expect(rows.locator("code")).to_have_text(["prose_analyzer"])
    await page.get_by_label("Find").fill("no such words")
    await expect(page.get_by_role("status").filter(has_text="0 of 17 prompt tools.")).to_be_visible()


async def test_tools_are_reached_by_keys(screen: Screen) -> None:
    page = await screen.page("/prompt-tools")
    items = page.get_by_role("list", name="Prompt tools").get_by_role("link")
    await items.first.focus()
    await page.keyboard.press("ArrowDown")
    await expect(items.nth(1)).to_be_focused()
    await page.keyboard.press("End")
    await expect(items.last).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Beat Architect")).to_be_visible()
    assert page.url.endswith("/prompt-tools/tools/beat_architect")


async def test_a_catalog_of_a_thousand_tools_mounts_a_hundred_rows_at_a_time(screen: Screen) -> None:
    page = await screen.page("/chats")
    core = (await (await screen.served.client()).get("/api/prompt-tools/line_editor")).json()
    many = [{**core, "id": f"tool_{at}", "name": f"Tool {at}", "locked": False, "version": 1} for at in range(1000)]

    async def answer(route: Route) -> None:
        await route.fulfill(json={"tools": many})

    await page.route("**/api/prompt-tools", answer)
    await page.goto(f"{screen.served.base}/prompt-tools")
    rows = page.get_by_role("list", name="Prompt tools").get_by_role("listitem")
    await expect(rows).to_have_count(100)
    await page.get_by_role("button", name="More prompt tools (900)").click()
    await expect(rows).to_have_count(200)
    await page.get_by_label("Find").fill("tool_99")
    await expect(rows).to_have_count(11)


async def test_a_core_tool_can_be_copied_and_neither_changed_nor_deleted(screen: Screen) -> None:
    page = await screen.page("/prompt-tools/tools/line_editor")
    await expect(page.get_by_text("Locked (core)")).to_be_visible()
    for name in ("Propose a change", "Propose to delete"):
        button = page.get_by_role("button", name=name)
        await expect(button).to_be_disabled()
        await expect(button).to_have_accessible_description(re.compile("nobody can change or delete it"))
    await expect(page.get_by_role("button", name="Propose a copy")).to_be_enabled()
    await expect(page.get_by_role("heading", name="Approved versions")).to_have_count(0)


@pytest.mark.parametrize(
    ("role", "may_propose", "sees_history"),
    [("viewer", False, False), ("approver", False, True), ("chief", False, True), ("agent", True, True)],
)
async def test_a_role_sees_and_proposes_what_it_may(
    screen: Screen, role: str, may_propose: bool, sees_history: bool
) -> None:
    await approve(await screen.served.client())
    page = await screen.page("/prompt-tools/tools/scene_pacer", role=role)
    for name in ("Propose a copy", "Propose a change", "Propose to delete"):
        await expect(page.get_by_role("button", name=name)).to_be_enabled(enabled=may_propose)
    await expect(page.get_by_text("Your role may not propose")).to_have_count(0 if may_propose else 1)
    await expect(page.get_by_role("link", name="Version 1")).to_have_count(1 if sees_history else 0)
    await expect(page.get_by_text("Your role does not see the approved versions.")).to_have_count(
        0 if sees_history else 1
    )
    await expect(page.get_by_role("link", name="its proposal")).to_have_count(2 if sees_history else 0)


async def test_the_page_of_a_tool_has_its_whole_text_verbatim_and_who_approved_it(screen: Screen) -> None:
    proposal = await approve(
        await screen.served.client(), goals="<b>bold</b> & plain", prompt="\n".join(f"Line {at}." for at in range(300))
    )
    page = await screen.page("/prompt-tools")
    await page.get_by_role("link", name="Scene pacer").click()
    card = page.get_by_role("region", name="Scene pacer")
    await expect(card).to_contain_text("by user:user")
    await expect(card).to_contain_text("<b>bold</b> & plain")
    await expect(card.locator("pre").last).to_contain_text("Line 299.")
    live = (await (await screen.served.client()).get("/api/prompt-tools/scene_pacer")).json()
    await expect(card.locator("code", has_text="sha256:")).to_have_text(live["digest"])
    await card.get_by_role("link", name="its proposal").click()
    assert page.url.endswith(f"/prompt-tools/proposals/{proposal['id']}")


async def test_versions_are_read_and_compared_and_a_reload_keeps_what_is_open(screen: Screen) -> None:
    user = await screen.served.client()
    await approve(user)
    await approve(user, proposalType="modify", prompt="Read the scene. Quote two slow paragraphs.")
    page = await screen.page("/prompt-tools/tools/scene_pacer")
    versions = page.get_by_role("list", name="Versions").get_by_role("listitem")
    await expect(versions).to_have_count(2)
    await expect(versions.first).to_contain_text("live")
    await page.get_by_role("link", name="Version 1").click()
    text = page.get_by_role("region", name="Version 1")
    await expect(text).to_contain_text("Name up to three paragraphs")
    await expect(text.get_by_role("heading", name="Version 1")).to_be_focused()
    await page.get_by_role("link", name="what changed").click()
    await page.reload()
    changes = page.get_by_role("region", name="Changed from version 1 to 2")
    await expect(changes.locator("td.removed")).to_contain_text("Name up to three paragraphs")
    await expect(changes.locator("td.added")).to_contain_text("Quote two slow paragraphs.")
    await page.get_by_role("spinbutton", name="From version").fill("2")
    await page.get_by_role("spinbutton", name="to", exact=True).fill("1")
    await page.get_by_role("button", name="Compare").click()
    backwards = page.get_by_role("region", name="Changed from version 2 to 1")
    await expect(backwards.locator("td.added")).to_contain_text("Name up to three paragraphs")
    await approve(user, proposalType="modify", prompt="A third text.")  # the page reads again by itself
    await expect(versions).to_have_count(3)
    await expect(page.get_by_role("region", name="Scene pacer")).to_contain_text("A third text.")


async def test_a_rollback_is_a_proposal_with_a_reason(screen: Screen) -> None:
    user = await screen.served.client()
    await approve(user)
    await approve(user, proposalType="modify", prompt="Read the scene. Quote two slow paragraphs.")
    page = await screen.page("/prompt-tools/tools/scene_pacer")
    await page.get_by_role("button", name="Roll back to this version").click()
    send = page.get_by_role("button", name="Propose this version")
    await expect(page.get_by_role("heading", name="Roll back to version 1")).to_be_focused()
    await expect(send).to_be_disabled()
    await page.get_by_label("Why go back").fill("The first text gave better quotes.")
    await send.click()
    await page.wait_for_url("**/prompt-tools/proposals/p*")
    [made] = (await user.get("/api/proposals", params={"state": "chief_review"})).json()["proposals"]
    found = (await user.get(f"/api/proposals/{made['id']}")).json()
    assert (found["kind"], found["body"]["rationale"]) == ("modify", "The first text gave better quotes.")
    assert found["body"]["prompt"] == proposal_of()["prompt"]
    assert (await user.get("/api/prompt-tools/scene_pacer")).json()["version"] == 2


async def test_a_deleted_tool_has_its_versions_and_an_unknown_one_is_an_error(screen: Screen) -> None:
    user = await screen.served.client()
    await approve(user)
    await approve(user, proposalType="delete")
    page = await screen.page("/prompt-tools/tools/scene_pacer")
    await expect(
        page.get_by_text("Deleted: scene_pacer is not in the catalog. Its versions are below.")
    ).to_be_visible()
    await expect(page.get_by_role("list", name="Versions").get_by_role("listitem")).to_have_count(2)
    await expect(page.get_by_role("button", name="Roll back to this version")).to_have_count(1)
    await page.goto(f"{screen.served.base}/prompt-tools/tools/no_such_tool")
    await expect(page.get_by_role("alert")).to_contain_text("There is no prompt tool no_such_tool")


async def test_a_viewer_has_the_catalog_alone(screen: Screen) -> None:
    page = await screen.page("/prompt-tools", role="viewer")
    await expect(page.get_by_role("navigation", name="Prompt Tools").get_by_role("link")).to_have_text(["Catalog"])
    await expect(page.get_by_role("button", name="Propose a new tool")).to_be_disabled()
    await page.goto(f"{screen.served.base}/prompt-tools/proposals")
    await expect(page.get_by_role("alert")).to_contain_text("role_missing")


async def test_long_words_do_not_make_a_narrow_screen_wider(screen: Screen) -> None:
    await approve(await screen.served.client(), id="w" * 48, name="W" * 80, usageNotes="W" * 500, prompt="W" * 2000)
    page = await screen.page("/prompt-tools", viewport={"width": 360, "height": 800})
    tool = f"/tools/{'w' * 48}"
    for path in ("", tool, f"{tool}?version=1", f"/propose/delete/{'w' * 48}", "/proposals?state=approved"):
        await page.goto(f"{screen.served.base}/prompt-tools{path}")
        await expect(page.get_by_text("W" * 80).first).to_be_visible()
        assert await page.evaluate("document.querySelector('.panel').scrollWidth") <= 360, path


async def test_a_tool_whose_text_was_erased_is_named_and_an_older_version_can_be_proposed_again(screen: Screen) -> None:
    user = await screen.served.client()
    await approve(user)
    await approve(user, proposalType="modify", prompt="Read the scene. Quote two slow paragraphs.")
    live = (await user.get("/api/prompt-tools/scene_pacer")).json()
    await screen.served.world.erase(live["digest"], "It was asked for.")
    page = await screen.page("/prompt-tools/tools/scene_pacer")
    await expect(page.get_by_text("Erased: scene_pacer is not in the catalog. Its versions are below.")).to_be_visible()
    await page.get_by_role("button", name="Roll back to this version").click()
    await page.get_by_label("Why go back").fill("The newer text had to be erased.")
    await page.get_by_role("button", name="Propose this version").click()
    await page.wait_for_url("**/prompt-tools/proposals/p*")
