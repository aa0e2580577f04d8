"""Every view of the review: axe, narrow screens, light and dark, from right to left, and old data after an error."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Route, expect
from tests.server.conftest import Served
from tests.shell.conftest import Screen
from tests.shell.review_steps import REVIEW, WITH_MANUAL, decision_of, open_proposal, post, propose, reviewed
from tests.shell.test_panel_states import ARABIC, violations

CHANGED = ".changed-part, .added"
"""The parts of a text that only the page of a proposed change shows: the words and lines that differ."""

LINE = "a_word_without_any_space_" * 12


async def fill(served: Served) -> dict[str, str]:
    """Makes proposals in several states and issues, with text from right to left and long words. Returns the views:
    by address what is there once the data are shown."""
    first = await reviewed(served)
    await post(
        served, "user", f"/api/proposals/{first['id']}/approve", digest=first["digest"], reason=ARABIC, read=True
    )
    evidence = {
        "id": "misquote",
        "should": "fail",
        "kind": "evidence",
        "given": {
            "message": "Is it slow?",
            "files": {f"Story/{LINE}.md": "The hall is dark."},
            "tool_results": [{"n": 1}],
        },
        "reply": f'It is slow.\nEvidence: Story/{LINE}.md "The hall is bright"',
        "expect": {"evidence": "required"},
    }
    change = await propose(
        served,
        proposalType="modify",
        name=f"{ARABIC} 2",
        goals=LINE,
        prompt=f"{ARABIC}\nName up to five paragraphs. See https://example.com. \u202eEnd.",
        testCases=[*WITH_MANUAL, evidence],
    )
    await post(
        served, "chief", f"/api/proposals/{change['id']}/review", digest=change["digest"], **{**REVIEW, "notes": LINE}
    )
    gone: dict[str, Any] = {"proposalType": "delete", "examples": None, "testCases": None}
    deletion = await propose(served, **gone, rationale="Nobody has used it for a year.")
    await post(served, "user", f"/api/proposals/{deletion['id']}/reject", digest=deletion["digest"], reason=LINE)
    opened = await post(
        served, "user", "/api/issues", title=f"{ARABIC} {LINE[:60]}", body=f"# {ARABIC}\n\n{LINE}", tags=[ARABIC]
    )
    await post(served, "chief", f"/api/issues/{opened['id']}/comments", body=f"- {ARABIC}\n- `{LINE}`")
    return {
        "proposals": "main li",
        f"proposals/{first['id']}": "text=It is in the catalog as version 1",
        f"proposals/{change['id']}": CHANGED,
        f"proposals/{deletion['id']}": ".removed",
        "issues": "main li",
        f"issues/{opened['id']}": ".comment li",
        f"issues/{change['decision_issue']}": ".arguments-box h3",
    }


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (360, "light"),
        (1280, "dark"),
        pytest.param(360, "dark", marks=pytest.mark.full),
        pytest.param(1280, "light", marks=pytest.mark.full),
    ],
)
async def test_axe_finds_nothing_in_any_view_and_nothing_is_wider_than_the_screen(
    screen: Screen, width: int, scheme: str
) -> None:
    views = await fill(screen.served)
    options: dict[str, Any] = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    user, chief = [await screen.page("/chats", role=role, **options) for role in ("user", "chief")]
    in_review = next(path for path, shown in views.items() if shown == CHANGED)
    for page, path in [*((user, path) for path in views), (chief, in_review)]:
        await page.goto(f"{screen.served.base}/prompt-tools/{path}")
        await expect(page.locator(views[path]).first).to_be_visible()
        await page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
        assert await violations(page) == [], path
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert await page.evaluate("document.querySelector('.panel').scrollWidth") <= width, path


async def test_a_page_from_right_to_left_is_not_wider_than_the_screen(screen: Screen) -> None:
    views = await fill(screen.served)
    page = await screen.page("/chats", viewport={"width": 360, "height": 800})
    await page.add_init_script("addEventListener('DOMContentLoaded', () => { document.documentElement.dir = 'rtl'; })")
    for path, shown in views.items():
        await page.goto(f"{screen.served.base}/prompt-tools/{path}")
        await expect(page.locator(shown).first).to_be_visible()
        assert await page.evaluate("document.documentElement.dir") == "rtl"
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert await page.evaluate("document.querySelector('.panel').scrollWidth <= innerWidth"), path


async def test_a_proposal_that_was_read_stays_with_its_date_after_a_failure(screen: Screen) -> None:
    made = await reviewed(screen.served)
    page = await open_proposal(screen, made["id"])

    async def fail(route: Route) -> None:
        await route.fulfill(status=503, json={"code": "unavailable", "message": "The world is being moved."})

    await page.route(f"**/api/proposals/{made['id']}", fail)
    await post(screen.served, "user", f"/api/proposals/{made['id']}/reject", digest=made["digest"], reason="Too short.")
    problem = page.get_by_role("alert").first
    await expect(problem).to_contain_text("What is shown was read at")
    await expect(page.get_by_role("region", name="The tool as it is proposed")).to_contain_text("Scene pacer")
    await page.unroute_all()
    await problem.get_by_role("button", name="Try again").click()
    await expect(decision_of(page)).to_contain_text("Rejected by you")


async def test_without_the_differences_a_change_is_not_approved(screen: Screen) -> None:
    first = await reviewed(screen.served)
    await post(screen.served, "user", f"/api/proposals/{first['id']}/approve", digest=first["digest"], read=True)
    made = await reviewed(screen.served, proposalType="modify", prompt="Quote two slow paragraphs of the scene.")
    page = await screen.page("/chats")
    await page.route("**/diff", lambda route: route.abort())
    await page.goto(f"{screen.served.base}/prompt-tools/proposals/{made['id']}")
    await expect(page.get_by_role("region", name="What changes").get_by_role("alert")).to_be_visible()
    await expect(decision_of(page).get_by_role("button", name="Approve")).to_be_disabled()
    await page.unroute_all()
    await page.get_by_role("button", name="Try again").click()
    await page.locator("[data-end]").scroll_into_view_if_needed()
    await decision_of(page).get_by_label("I have read the whole text").check()
    await expect(decision_of(page).get_by_role("button", name="Approve")).to_be_enabled()
