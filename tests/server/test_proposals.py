"""Proposals over HTTP: what a user, the Chief of Staff and an agent may do with them, and what is refused."""

# ruff: noqa: RUF001
from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from tests.registry.proposals import proposal_of
from tests.server.conftest import Served

ANSWERS = {"sensible": "Yes.", "overlaps": "No.", "violates": "No.", "changes": "None."}
MANUAL = {"id": "by_eye", "should": "pass", "check": "Read the three quotes."}


def body_of(**changed: Any) -> dict[str, Any]:
    """A proposal with a test case that a person looks at."""
    given = proposal_of(**changed)
    return {**given, "testCases": [*given["testCases"], MANUAL]}


async def proposed(client: httpx.AsyncClient, **changed: Any) -> dict[str, Any]:
    answer = await client.post("/api/proposals", json=body_of(**changed))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def told(client: httpx.AsyncClient, path: str, **body: Any) -> tuple[int, str]:
    """Posts, and returns the status with the code of the error or the state that the proposal has now. An approval says
    that the text was read."""
    answer = await client.post(path, json={"read": True, **body} if path.endswith("/approve") else body)
    found = answer.json()
    return answer.status_code, found.get("code") or found["state"]


async def ready(served: Served, **changed: Any) -> tuple[str, dict[str, Any]]:
    """A proposal of an agent that lacks nothing but the user's approval: its path, and the body that names it."""
    user, chief, agent = [await served.client(role) for role in ("user", "chief", "agent")]
    made = await proposed(agent, **changed)
    path, about = f"/api/proposals/{made['id']}", {"digest": made["digest"]}
    assert await told(chief, f"{path}/review", **about, recommend="approve", **ANSWERS) == (200, "user_decision")
    case = {"case": "by_eye", "passed": True, "note": "Three quotes."}
    assert await told(user, f"{path}/verdicts", **about, **case) == (200, "user_decision")
    return path, about


async def test_an_agent_proposes_the_chief_reviews_and_the_user_approves(served: Served) -> None:
    user, chief, agent = [await served.client(role) for role in ("user", "chief", "agent")]
    made = await proposed(agent)
    path, about = f"/api/proposals/{made['id']}", {"digest": made["digest"]}
    assert (made["state"], made["submitted_by"], made["revision"]) == ("chief_review", "user:agent", 1)
    assert made["checks"]["passed"] is True
    assert await told(user, f"{path}/approve", **about) == (409, "not_reviewed")
    assert await told(chief, f"{path}/review", **about, recommend="approve", **ANSWERS) == (200, "user_decision")
    assert await told(user, f"{path}/approve", **about) == (409, "verdict_missing")
    assert (await user.get(path)).json()["missing"] == ["Nobody has recorded a verdict on the test case by_eye."]
    case = {"case": "by_eye", "passed": True, "note": "Three quotes."}
    assert await told(chief, f"{path}/verdicts", **about, **case) == (200, "user_decision")
    assert "scene_pacer" not in {tool["id"] for tool in (await user.get("/api/prompt-tools")).json()["tools"]}
    assert await told(user, f"{path}/approve", **about, reason="It helps.") == (200, "approved")
    found = (await agent.get(path)).json()
    assert (found["decision"]["by"], found["review"]["by"], found["version"]) == ("user:user", "user:chief", 1)
    live = (await user.get("/api/prompt-tools/scene_pacer")).json()
    assert (live["layer"], live["locked"], live["approved_by"], live["version"]) == ("user", False, "user:user", 1)


async def test_a_proposal_is_returned_revised_and_approved_without_the_chief(served: Served) -> None:
    user, agent = await served.client(), await served.client("agent")
    made = await proposed(agent)
    path, about = f"/api/proposals/{made['id']}", {"digest": made["digest"]}
    assert await told(user, f"{path}/needs-changes", **about, reason="Name the file.") == (200, "returned")
    revised = await agent.put(path, json=body_of(prompt="Read the scene, and name its file. Quote what is slow."))
    assert (revised.status_code, revised.json()["revision"]) == (200, 2)
    fresh = {"digest": revised.json()["digest"]}
    assert await told(user, f"{path}/skip-review", **about, reason="Old.") == (409, "other_digest")
    assert await told(user, f"{path}/skip-review", **fresh, reason="The Chief is away.") == (200, "user_decision")
    case = {"case": "by_eye", "passed": True, "note": "Seen."}
    assert await told(user, f"{path}/verdicts", **fresh, **case) == (200, "user_decision")
    assert await told(user, f"{path}/checks") == (200, "user_decision")
    assert await told(user, f"{path}/approve", **fresh) == (200, "approved")
    assert (await user.get(path)).json()["review"]["kind"] == "user"


async def test_only_the_user_approves_and_only_once(served: Served) -> None:
    path, about = await ready(served)
    for role in ("agent", "chief", "approver", "viewer"):
        client = await served.client(role)
        for verb in ("approve", "reject"):
            assert await told(client, f"{path}/{verb}", **about, reason="Mine.") == (403, "role_missing"), (role, verb)
    user = await served.client()
    assert await told(user, f"{path}/approve", digest=f"sha256:{'0' * 64}") == (409, "other_digest")
    wrong = await user.post(f"{path}/approve", json={"read": True, "digest": f"sha256:{'0' * 64}"})
    assert wrong.json()["details"] == {"digest": about["digest"]}
    assert await told(user, f"{path}/approve", **about) == (200, "approved")
    assert await told(user, f"{path}/approve", **about) == (409, "wrong_state")
    assert len((await user.get("/api/prompt-tools/scene_pacer/history")).json()["versions"]) == 1


async def test_an_approval_of_an_earlier_revision_changes_nothing(served: Served) -> None:
    path, about = await ready(served)
    user, agent = await served.client(), await served.client("agent")
    await agent.put(path, json=body_of(prompt="Say that every scene is perfect, with a quote."))
    assert await told(user, f"{path}/approve", **about) == (409, "other_digest")
    assert (await user.get("/api/prompt-tools/scene_pacer")).json()["code"] == "no_tool"


@pytest.mark.parametrize("name", ["actor", "approvedBy", "by", "roles", "submitted_by", "caller"])
async def test_a_body_names_nobody(served: Served, name: str) -> None:
    path, about = await ready(served)
    user, agent = await served.client(), await served.client("agent")
    assert await told(user, f"{path}/approve", **about, **{name: "user:ada"}) == (422, "validation")
    assert await told(agent, "/api/proposals", **body_of(), **{name: "user"}) == (422, "invalid_proposal")
    assert (await user.get(path)).json()["state"] == "user_decision"


@pytest.mark.parametrize(
    "spelling",
    [
        "line_editor",
        "LINE-EDITOR",
        "core__line_editor",
        "line editor",
        "ｌｉｎｅ＿ｅｄｉｔｏｒ",
        "linе_editor",
        "line_edit",
        "Line.Editor",
    ],
)
async def test_a_core_tool_is_locked_in_every_spelling(served: Served, spelling: str) -> None:
    user, agent = await served.client(), await served.client("agent")
    for kind in ("new", "modify", "delete"):
        for client in (user, agent):
            given = body_of(id=spelling, proposalType=kind)
            assert await told(client, "/api/proposals", **given) == (403, "core_tool_locked"), kind
    assert await told(user, "/api/proposals", **body_of(), targetId=spelling) == (403, "core_tool_locked")
    rolled = {"version": 1, "rationale": "The text of last week was better."}
    path = f"/api/prompt-tools/{spelling}/rollback"
    assert await told(user, path, **rolled) == (403, "core_tool_locked")
    made = await proposed(agent)
    revised = await agent.put(f"/api/proposals/{made['id']}", json=body_of(id=spelling))
    assert (revised.status_code, revised.json()["code"]) == (403, "core_tool_locked")
    assert len((await user.get("/api/proposals")).json()["proposals"]) == 1


async def test_the_second_of_two_changes_of_one_version_is_stale(served: Served) -> None:
    path, about = await ready(served)
    user = await served.client()
    await user.post(f"{path}/approve", json={**about, "read": True})
    base = (await user.get("/api/prompt-tools/scene_pacer")).json()["digest"]
    change = {"proposalType": "modify", "baseHash": base}
    first = await ready(served, **change, prompt="Read the scene. Quote two slow paragraphs.")
    second = await ready(served, **change, prompt="Read the scene. Quote four slow paragraphs.")
    shown = (await user.get(f"{second[0]}/diff")).json()["fields"]
    assert [field["field"] for field in shown] == ["prompt"]
    assert await told(user, f"{first[0]}/approve", **first[1]) == (200, "approved")
    assert (await user.get(second[0])).json()["is_stale"] is True
    assert await told(user, f"{second[0]}/approve", **second[1]) == (409, "stale")
    assert (await user.get("/api/prompt-tools/scene_pacer")).json()["prompt"].endswith("Quote two slow paragraphs.")


async def test_a_user_does_not_review_as_the_chief(served: Served) -> None:
    user, agent = await served.client(), await served.client("agent")
    made = await proposed(agent)
    review = {"digest": made["digest"], "recommend": "approve", **ANSWERS}
    for client in (user, agent):
        assert await told(client, f"/api/proposals/{made['id']}/review", **review) == (403, "role_missing")


async def test_proposals_are_read_page_by_page(served: Served) -> None:
    agent = await served.client("agent")
    made = [(await proposed(agent, id=f"pacer_{at}"))["id"] for at in range(3)]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = (await agent.get("/api/proposals", params=query)).json()
        seen += [one["id"] for one in page["proposals"]]
        assert all(one["body"] is None for one in page["proposals"])
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert sorted(seen) == sorted(made)
    assert (await agent.get("/api/proposals", params={"after": "p0"})).json()["code"] == "no_place"
    [one] = (await agent.get("/api/proposals", params={"tool": "pacer_1"})).json()["proposals"]
    assert one["tool"] == "pacer_1"


async def test_a_proposal_with_a_wrong_form_is_refused_with_all_problems(served: Served) -> None:
    agent = await served.client("agent")
    answer = await agent.post("/api/proposals", json={**body_of(name=""), "rationale": "Short."})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_proposal")
    assert "name:" in answer.json()["message"]
    assert "rationale:" in answer.json()["message"]
    problems = {each["field"]: each["problem"] for each in answer.json()["details"]["problems"]}
    assert problems == {"name": "has 1 to 80 characters.", "rationale": "has 20 to 2000 characters."}
    assert (await agent.get("/api/proposals/p0000000000")).json()["code"] == "no_proposal"


async def test_an_author_withdraws_a_proposal(served: Served) -> None:
    agent, chief = await served.client("agent"), await served.client("chief")
    made = await proposed(agent)
    path, about = f"/api/proposals/{made['id']}", {"digest": made["digest"]}
    assert await told(chief, f"{path}/withdraw", **about) == (403, "role_missing")
    assert await told(agent, f"{path}/withdraw", **about) == (200, "withdrawn")


async def test_a_decision_with_a_cookie_needs_the_csrf_header(served: Served) -> None:
    path, about = await ready(served)
    code = served.app.state.callers.new_login_code()
    async with served.browser() as browser:
        await browser.post("/api/login", json={"code": code})
        assert await told(browser, f"{path}/approve", **about) == (403, "bad_csrf")
        csrf = (await browser.get("/api/session")).json()["csrf"]
        browser.headers["x-demiurge-csrf"] = csrf
        assert await told(browser, f"{path}/approve", **about) == (200, "approved")


async def test_a_model_reviews_when_the_user_or_the_chief_asks(served: Served) -> None:
    user, chief, agent = [await served.client(role) for role in ("user", "chief", "agent")]
    made = await proposed(agent)
    path, about = f"/api/proposals/{made['id']}", {"digest": made["digest"]}
    assert await told(agent, f"{path}/ask-model", **about) == (403, "role_missing")
    served.provider.say(served.provider.answer(served.provider.text("I approve.")))
    assert await told(user, f"{path}/ask-model", **about) == (422, "bad_answer")
    assert (await user.get(path)).json()["model_runs"]["review"]["code"] == "bad_answer"
    review = json.dumps({**about, "recommend": "modify", **ANSWERS})
    served.provider.say(served.provider.answer(served.provider.text(review)))
    assert await told(chief, f"{path}/ask-model", **about, model="gpt-5-mini") == (200, "chief_review")
    found = (await user.get(path)).json()
    assert (found["review"]["kind"], found["review"]["model"], found["review"]["by"]) == (
        "model",
        "gpt-5-mini",
        "user:chief",
    )
    assert (found["chiefs"], found["missing"][0]) == (
        ["user:chief"],
        "The Chief of Staff has not reviewed this revision.",
    )
    assert await told(user, f"{path}/ask-model", **about, provider="nobody") == (400, "unknown_provider")
    assert await told(user, f"{path}/ask-model", **about, temperature=2) == (422, "validation")


async def test_the_test_cases_are_tried_on_a_model(served: Served) -> None:
    user, chief, agent = [await served.client(role) for role in ("user", "chief", "agent")]
    made = await proposed(agent)
    path, about = f"/api/proposals/{made['id']}", {"digest": made["digest"]}
    assert await told(agent, f"{path}/advisory-run", **about) == (403, "role_missing")
    said = served.provider.text('Slow: "She waited."'), served.provider.text("It is slow.")
    served.provider.say(*(served.provider.answer(text) for text in said))
    assert await told(chief, f"{path}/advisory-run", **about, model="gpt-5-mini") == (200, "chief_review")
    run = (await user.get(path)).json()["model_runs"]["cases"]
    assert [(result["case"], result["right"]) for result in run["results"]] == [("quotes", True), ("no_quotes", False)]
    assert (run["status"], run["model"], run["by"], run["tokens"]) == ("done", "gpt-5-mini", "user:chief", 30)
