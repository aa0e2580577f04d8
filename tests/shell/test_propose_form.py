"""The form in which a person proposes a prompt tool, a copy, a change or a deletion, or revises a proposal."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, Route, expect
from tests.registry.proposals import proposal_of
from tests.server.review_steps import approve
from tests.shell.conftest import Screen

SENT = "**/prompt-tools/proposals/p*"


async def fill(page: Page, given: dict[str, Any], but: tuple[str, ...] = ()) -> None:
    """Writes a proposal with two examples and two automatic test cases into the form, `but` for these fields."""
    for name, label in (("id", "Id"), ("name", "Name"), ("usageNotes", "When to use it"), ("goals", "Goals")):
        if name not in but:
            await page.get_by_label(label, exact=True).fill(given[name])
    for name in ("guardrails", "prompt", "rationale"):
        await page.get_by_label(name.capitalize(), exact=True).fill(given[name])
    await page.get_by_label("Archetype").select_option(given["archetype"])
    await page.get_by_label("Scope").select_option(given["scope"])
    for at, example in enumerate(given["examples"]):
        entry = page.get_by_role("group", name=f"Example {at + 1}", exact=True)
        await entry.get_by_label("Input").fill(example["input"])
        await entry.get_by_label("Expected").fill(example["expected"])
    for at, case in enumerate(given["testCases"]):
        entry = page.get_by_role("group", name=f"Test case {at + 1}", exact=True)
        await entry.get_by_label("Case id").fill(case["id"])
        await entry.get_by_label("Should").select_option(case["should"])
        await entry.get_by_label("Reply of a model").fill(case["reply"])
        await entry.get_by_label("Must match").fill("\n".join(case["expect"]["must_match"]))


async def sent(screen: Screen, page: Page) -> dict[str, Any]:
    """Returns the proposal whose page the form has led to."""
    await page.wait_for_url(SENT)
    user = await screen.served.client()
    found: dict[str, Any] = (await user.get(f"/api/proposals/{page.url.rsplit('/', 1)[1]}")).json()
    return found


async def test_a_new_tool_is_proposed_with_every_field(screen: Screen) -> None:
    page = await screen.page("/prompt-tools")
    await page.get_by_role("button", name="Propose a new tool").click()
    await fill(page, proposal_of())
    await page.get_by_role("button", name="Propose this tool").click()
    found = await sent(screen, page)
    assert found["body"] == proposal_of()
    assert (found["state"], found["submitted_by"]) == ("chief_review", "user:user")
    assert all(
        tool["locked"] for tool in (await (await screen.served.client()).get("/api/prompt-tools")).json()["tools"]
    )
    await page.goto(f"{screen.served.base}/prompt-tools/propose")
    await expect(page.get_by_label("Id", exact=True)).to_have_value("")  # the draft that was sent is forgotten


async def test_a_refused_proposal_says_what_is_wrong_at_each_field(screen: Screen) -> None:
    page = await screen.page("/prompt-tools/propose")
    case = {**proposal_of()["testCases"][0], "expect": {"must_match": ["("]}}
    await fill(page, proposal_of(name="", testCases=[case, proposal_of()["testCases"][1]]))
    await page.get_by_label("Rationale").fill("Too short.")
    await page.get_by_role("button", name="Propose this tool").click()
    summary = page.get_by_role("alert")
    await expect(summary).to_contain_text("3 things have to change")
    await expect(summary).to_be_focused()
    await expect(page.get_by_label("Name", exact=True)).to_have_accessible_description("has 1 to 80 characters.")
    await expect(page.get_by_label("Rationale")).to_have_attribute("aria-invalid", "true")
    await summary.get_by_role("button", name="Test case 1, expect.must_match").click()
    first = page.get_by_role("group", name="Test case 1").get_by_label("Must match")
    await expect(first).to_be_focused()
    await expect(first).to_have_attribute("aria-invalid", "true")
    await page.get_by_label("Name", exact=True).fill("Scene pacer")
    await page.get_by_label("Rationale").fill(proposal_of()["rationale"])
    await first.fill("x")
    await page.get_by_role("button", name="Propose this tool").click()
    assert (await sent(screen, page))["name"] == "Scene pacer"


@pytest.mark.parametrize("spelling", ["file_locator", "File-Locator", "core__file_reader"])
async def test_the_id_of_a_core_tool_is_refused_at_the_field_of_the_id(screen: Screen, spelling: str) -> None:
    page = await screen.page("/prompt-tools/propose")
    await fill(page, proposal_of(id=spelling))
    await page.get_by_role("button", name="Propose this tool").click()
    await expect(page.get_by_role("alert")).to_contain_text("Locked (core)")
    await expect(page.get_by_label("Id", exact=True)).to_have_attribute("aria-invalid", "true")
    assert (await (await screen.served.client()).get("/api/proposals")).json()["proposals"] == []


async def test_a_copy_of_a_core_tool_has_its_text_and_an_id_of_its_own(screen: Screen) -> None:
    user = await screen.served.client()
    await approve(user, id="line_editor_custom")
    core = (await user.get("/api/prompt-tools/line_editor")).json()
    page = await screen.page("/prompt-tools/tools/line_editor")
    await page.get_by_role("button", name="Propose a copy").click()
    await expect(page.get_by_label("Id", exact=True)).to_have_value("line_editor_custom_2")
    await expect(page.get_by_label("Name", exact=True)).to_have_value("Line Editor (copy)")
    await expect(page.get_by_label("Prompt", exact=True)).to_have_value(core["prompt"])
    await fill(page, proposal_of(id="line_editor_2", prompt=core["prompt"]))
    await page.get_by_role("button", name="Propose this tool").click()
    found = await sent(screen, page)
    assert (found["kind"], found["tool"], found["body"]["prompt"]) == ("new", "line_editor_2", core["prompt"])


async def test_a_change_begins_with_the_live_text_and_its_examples_and_names_what_it_changes(screen: Screen) -> None:
    user = await screen.served.client()
    await approve(user, target="project")
    live = (await user.get("/api/prompt-tools/scene_pacer")).json()
    page = await screen.page("/prompt-tools/tools/scene_pacer")
    await page.get_by_role("button", name="Propose a change").click()
    await expect(page.get_by_label("Id", exact=True)).not_to_be_editable()
    await page.get_by_label("Goals", exact=True).fill("Name the slow paragraphs.")
    await page.get_by_label("Rationale").fill("The goal says it with fewer words.")
    await page.get_by_role("button", name="Propose this change").click()
    found = await sent(screen, page)
    assert (found["kind"], found["base"], found["target"]) == ("modify", live["digest"], "project")
    assert found["body"]["goals"] == "Name the slow paragraphs."
    assert found["body"]["testCases"] == proposal_of()["testCases"]


async def test_a_change_says_that_the_examples_of_the_live_version_cannot_be_read(screen: Screen) -> None:
    await approve(await screen.served.client())
    page = await screen.page("/chats")

    async def fail(route: Route) -> None:
        await route.fulfill(status=404, json={"code": "erased", "message": "The text was erased."})

    await page.route("**/api/proposals/*", fail)
    await page.goto(f"{screen.served.base}/prompt-tools/propose/change/scene_pacer")
    await expect(page.get_by_text("cannot be read: write new ones. The text was erased.")).to_be_visible()
    await expect(page.get_by_label("Goals", exact=True)).to_have_value(proposal_of()["goals"])
    await expect(page.get_by_role("group", name="Example 1", exact=True).get_by_label("Input")).to_have_value("")


async def test_a_deletion_needs_a_reason_alone(screen: Screen) -> None:
    await approve(await screen.served.client())
    page = await screen.page("/prompt-tools/tools/scene_pacer")
    await page.get_by_role("button", name="Propose to delete").click()
    await expect(page.get_by_role("group", name="Test cases")).to_have_count(0)
    await page.get_by_label("Rationale").fill("Nobody has used it for a year.")
    await page.get_by_role("button", name="Propose to delete it").click()
    found = await sent(screen, page)
    assert (found["kind"], found["tool"], found["body"]["examples"]) == ("delete", "scene_pacer", [])


async def test_a_core_tool_has_no_form_for_a_change_or_a_deletion(screen: Screen) -> None:
    page = await screen.page("/prompt-tools/propose/change/line_editor")
    await expect(page.get_by_text("Locked (core)")).to_be_visible()
    await expect(page.get_by_role("form")).to_have_count(0)
    await page.goto(f"{screen.served.base}/prompt-tools/propose/delete/line_editor")
    await expect(page.get_by_role("button", name="Propose a copy")).to_be_enabled()
    await expect(page.get_by_role("form")).to_have_count(0)
    await page.goto(f"{screen.served.base}/prompt-tools/propose/change/no_such_tool")
    await expect(page.locator(".empty")).to_contain_text("There is no such prompt tool.")


async def test_a_draft_survives_a_reload_and_can_be_discarded(screen: Screen) -> None:
    page = await screen.page("/prompt-tools/propose")
    await page.get_by_label("Prompt", exact=True).fill("Half a\nprompt")
    await page.get_by_role("button", name="Add a test case").click()
    await page.get_by_role("group", name="Test case 3").get_by_label("How").select_option("manual")
    await page.reload()
    await expect(page.get_by_label("Prompt", exact=True)).to_have_value("Half a\nprompt")
    await expect(page.get_by_label("What a person looks at")).to_be_visible()
    await page.get_by_role("button", name="Discard the draft").click()
    await expect(page.get_by_label("Prompt", exact=True)).to_have_value("")
    await page.reload()
    await expect(page.get_by_label("Prompt", exact=True)).to_have_value("")
    await expect(page.get_by_text("you began this earlier")).to_have_count(0)


async def test_a_draft_says_that_the_tool_has_another_text_now(screen: Screen) -> None:
    user = await screen.served.client()
    await approve(user)
    page = await screen.page("/prompt-tools/propose/change/scene_pacer")
    await page.get_by_label("Goals", exact=True).fill("Another goal.")
    await approve(user, proposalType="modify", prompt="Read the scene. Quote two slow paragraphs.")
    await expect(page.get_by_text("What it began with has another text now.")).to_be_visible()
    await page.reload()
    await expect(page.get_by_text("What it began with has another text now.")).to_be_visible()
    await expect(page.get_by_label("Goals", exact=True)).to_have_value("Another goal.")
    await page.get_by_role("button", name="Discard the draft").click()
    await expect(page.get_by_label("Prompt", exact=True)).to_have_value("Read the scene. Quote two slow paragraphs.")


EVERY_EXPECTATION = {
    "json_only": True,
    "no_fences": True,
    "tool": "file_reader",
    "args": {"file_path": "Story/one.md"},
    "evidence": "required",
    "receipt": False,
    "must_match": ["a", " b "],
    "must_not_match": ["c"],
    "max_chars": 300,
    "stop_hook": "conflict",
}


async def test_a_returned_proposal_is_revised_and_loses_nothing_of_its_test_cases(screen: Screen) -> None:
    user, agent = await screen.served.client(), await screen.served.client("agent")
    given = {"files": {"Story/one.md": "The hall is dark."}}
    cases = [
        {**proposal_of()["testCases"][0], "given": given, "expect": EVERY_EXPECTATION},
        {"id": "looks", "should": "fail", "kind": "must_not", "check": "The remarks are rude."},
    ]
    made = (await agent.post("/api/proposals", json=proposal_of(testCases=cases))).json()
    about = {"digest": made["digest"], "reason": "Say what a slow paragraph is."}
    await user.post(f"/api/proposals/{made['id']}/needs-changes", json=about)
    page = await screen.page(f"/prompt-tools/proposals/{made['id']}", role="agent")
    await page.get_by_role("link", name="Revise this proposal").click()
    await expect(page.get_by_label("Layer")).to_be_disabled()
    await page.get_by_label("Prompt", exact=True).fill("Name paragraphs of over 80 words, each with a quote.")
    await page.get_by_role("button", name="Send the revision").click()
    await page.wait_for_url(f"**/proposals/{made['id']}")
    found = (await user.get(f"/api/proposals/{made['id']}")).json()
    assert (found["revision"], found["state"]) == (2, "chief_review")
    assert found["body"]["prompt"] == "Name paragraphs of over 80 words, each with a quote."
    assert found["body"]["testCases"] == cases


async def test_json_that_is_none_is_said_before_anything_is_sent(screen: Screen) -> None:
    page = await screen.page("/prompt-tools/propose")
    await fill(page, proposal_of())
    case = page.get_by_role("group", name="Test case 2")
    await case.get_by_text("More expectations").click()
    await case.get_by_label("Other expectations").fill("{receipt")
    await page.get_by_role("button", name="Propose this tool").click()
    await expect(page.get_by_role("alert")).to_contain_text("Test case 2, more is one JSON object")
    await case.get_by_label("Other expectations").fill('{"receipt": false}')
    await case.get_by_label("At most so many characters").fill("90")
    await page.get_by_role("button", name="Propose this tool").click()
    expect_of = (await sent(screen, page))["body"]["testCases"][1]["expect"]
    assert expect_of == {"must_match": ['"[^"]+"'], "receipt": False, "max_chars": 90}


async def test_counters_count_as_the_server_does_and_hidden_characters_are_marked(screen: Screen) -> None:
    page = await screen.page("/prompt-tools/propose")
    await page.get_by_label("Goals", exact=True).fill("😀" * 500)
    field = page.locator(".field", has=page.get_by_label("Goals", exact=True))
    await expect(field.locator(".counter")).to_contain_text("500")
    await expect(field.locator(".counter.over")).to_have_count(0)
    await page.get_by_label("Goals", exact=True).fill("😀" * 501)
    await expect(field.locator(".counter.over")).to_have_count(1)
    await page.get_by_label("Prompt", exact=True).fill("Read\u202ethe\u200bscene")
    marked = page.locator(".field-verbatim .hidden-character")
    await expect(marked).to_have_text(["U+202E", "U+200B"])


@pytest.mark.parametrize("role", ["viewer", "approver", "chief"])
async def test_a_role_that_may_not_propose_is_told_so(screen: Screen, role: str) -> None:
    page = await screen.page("/prompt-tools/propose", role=role)
    await expect(page.get_by_text("Your role may not propose; the roles user and agent may.")).to_be_visible()
    await expect(page.get_by_role("form")).to_have_count(0)


async def test_a_double_click_proposes_once_and_a_lost_answer_keeps_the_draft(screen: Screen) -> None:
    page = await screen.page("/prompt-tools/propose")
    await fill(page, proposal_of())

    async def lose(route: Route) -> None:
        await route.abort()

    await page.route("**/api/proposals", lose)
    send = page.get_by_role("button", name="Propose this tool")
    await send.click()
    await expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    await expect(page.get_by_text("It is not known whether the proposal was taken")).to_be_visible()
    await expect(page.get_by_label("Id", exact=True)).to_have_value("scene_pacer")
    await page.unroute_all()
    await send.dblclick()
    await page.wait_for_url(SENT)
    assert len((await (await screen.served.client()).get("/api/proposals")).json()["proposals"]) == 1
