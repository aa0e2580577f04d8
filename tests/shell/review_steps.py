"""Steps of the review of prompt tools that several tests of the web shell take."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Locator, Page, expect
from tests.registry.proposals import proposal_of
from tests.server.conftest import Served
from tests.shell.conftest import Screen

__all__ = [
    "REVIEW",
    "WITH_MANUAL",
    "answer_the_questions",
    "decision_of",
    "open_proposal",
    "post",
    "propose",
    "read_to_the_end",
    "reviewed",
    "revise",
    "state_of",
]

WITH_MANUAL = [*proposal_of()["testCases"], {"id": "by_eye", "should": "pass", "check": "Read the three quotes."}]
"""Test cases of which a person has to look at the last one."""

REVIEW = {"recommend": "approve", "sensible": "Yes.", "overlaps": "No.", "violates": "No.", "changes": "None."}


async def propose(served: Served, role: str = "agent", **changed: Any) -> dict[str, Any]:
    """Submits a proposal as the caller with this role."""
    client = await served.client(role)
    body = proposal_of(**changed)
    if body["proposalType"] != "new":
        live = (await client.get(f"/api/prompt-tools/{body['id']}")).json()
        body = {"baseHash": live["digest"], **body}
    answer = await client.post("/api/proposals", json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def revise(served: Served, proposal_id: str, role: str = "agent", **changed: Any) -> dict[str, Any]:
    """Replaces a proposal by a revision of it."""
    client = await served.client(role)
    answer = await client.put(f"/api/proposals/{proposal_id}", json=proposal_of(**changed))
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def post(served: Served, role: str, path: str, **body: Any) -> dict[str, Any]:
    """Posts as the caller with this role, and returns the answer, which is no error."""
    client = await served.client(role)
    answer = await client.post(path, json=body)
    assert answer.status_code in (200, 201), answer.text
    found: dict[str, Any] = answer.json()
    return found


async def reviewed(served: Served, **changed: Any) -> dict[str, Any]:
    """A proposal of an agent that the Chief has reviewed."""
    made = await propose(served, **changed)
    return await post(served, "chief", f"/api/proposals/{made['id']}/review", digest=made["digest"], **REVIEW)


async def state_of(served: Served, proposal_id: str) -> str:
    """The state of a proposal as the server says it."""
    user = await served.client()
    return str((await user.get(f"/api/proposals/{proposal_id}")).json()["state"])


async def open_proposal(screen: Screen, proposal_id: str, role: str = "user", **options: Any) -> Page:
    """The page of a proposal, once it shows the proposal."""
    page = await screen.page(f"/prompt-tools/proposals/{proposal_id}", role=role, **options)
    await expect(page.get_by_role("heading", name="The tool as it is proposed")).to_be_visible()
    return page


def decision_of(page: Page) -> Locator:
    """The part of a proposal's page that decides."""
    return page.get_by_role("region", name="Decision", exact=True)


async def read_to_the_end(page: Page) -> None:
    """Scrolls to the end of what has to be read before an approval, and ticks that it was read."""
    await page.locator("[data-end]").scroll_into_view_if_needed()
    tick = decision_of(page).get_by_label("I have read the whole text")
    if await tick.count():
        await tick.check()


async def answer_the_questions(page: Page) -> None:
    """Fills the form of the Chief's review, but for the recommendation."""
    await page.get_by_label("Does it make sense?").fill("It is clear.")
    await page.get_by_label("Does it overlap core tools?").fill("No core tool looks at the pace.")
    await page.get_by_label("Does it violate guardrails").fill("It does not.")
    await page.get_by_label("What has to change?").fill("Nothing has to.")
