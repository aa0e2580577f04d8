"""Issues over HTTP: own ones, and those by which a proposal is reviewed and decided."""

from __future__ import annotations

from typing import Any

from tests.registry.proposals import proposal_of
from tests.server.conftest import Served


async def skipped(served: Served) -> dict[str, Any]:
    """A proposal of an agent that waits for the user."""
    user, agent = await served.client(), await served.client("agent")
    made = (await agent.post("/api/proposals", json=proposal_of())).json()
    about = {"digest": made["digest"], "reason": "A test."}
    found: dict[str, Any] = (await user.post(f"/api/proposals/{made['id']}/skip-review", json=about)).json()
    return found


async def test_an_issue_is_opened_commented_on_closed_and_opened_again(served: Served) -> None:
    user, agent, approver = [await served.client(role) for role in ("user", "agent", "approver")]
    given = {"title": "The draft has two endings", "body": "Chapter 9.", "tags": ["draft"], "priority": "high"}
    answer = await agent.post("/api/issues", json=given)
    made = answer.json()
    assert (answer.status_code, made["status"], made["opened_by"]) == (201, "open", "user:agent")
    path = f"/api/issues/{made['id']}"
    said = await approver.post(f"{path}/comments", json={"body": "Keep the first."})
    assert said.status_code == 201
    assert [(each["by"], each["body"]) for each in said.json()["comments"]] == [("user:approver", "Keep the first.")]
    assert (await approver.post(f"{path}/close")).json()["code"] == "role_missing"
    assert (await user.post(f"{path}/close")).json()["status"] == "closed"
    assert (await agent.post(f"{path}/reopen")).json()["status"] == "open"
    assert (await user.post(f"{path}/close", json={"reason": "Done."})).json()["comments"][-1]["body"] == "Done."
    assert (await agent.post(f"{path}/reopen", json={"reason": "Not yet."})).json()["comments"][-1][
        "action"
    ] == "reopen"
    assert (await user.get(path)).json()["body"] == "Chapter 9."


async def test_issues_are_chosen_and_read_page_by_page(served: Served) -> None:
    user = await served.client()
    for title, priority in (("One", "low"), ("Two", "high"), ("Three", "low")):
        await user.post("/api/issues", json={"title": title, "priority": priority, "tags": [title.lower()]})
    low = (await user.get("/api/issues", params={"priority": "low"})).json()
    assert {issue["title"] for issue in low["issues"]} == {"One", "Three"}
    [two] = (await user.get("/api/issues", params={"tag": "two", "status": "open"})).json()["issues"]
    assert two["title"] == "Two"
    first = (await user.get("/api/issues", params={"limit": 2})).json()
    rest = (await user.get("/api/issues", params={"limit": 2, "after": first["next"]})).json()
    assert {issue["title"] for issue in (*first["issues"], *rest["issues"])} == {"One", "Two", "Three"}
    assert rest["next"] is None


async def test_the_user_decides_on_a_proposal_by_its_issue(served: Served) -> None:
    waiting = await skipped(served)
    user, digest = await served.client(), waiting["digest"]
    path = f"/api/issues/{waiting['decision_issue']}"
    shown = (await user.get(path)).json()
    assert (shown["status"], shown["actions"]) == ("waiting-on-user", ["approve", "needs_changes", "reject"])
    assert (shown["proposal"], shown["digest"]) == (waiting["id"], digest)
    for role in ("agent", "approver", "viewer"):
        client = await served.client(role)
        refused = await client.post(f"{path}/actions", json={"action": "approve", "read": True, "digest": digest})
        assert (refused.status_code, refused.json()["code"]) == (403, "role_missing"), role
    unread = await user.post(f"{path}/actions", json={"action": "approve"})
    assert (unread.status_code, unread.json()["code"]) == (422, "digest_missing")
    other = await user.post(f"{path}/actions", json={"action": "approve", "digest": f"sha256:{'0' * 64}"})
    assert (other.status_code, other.json()["code"]) == (409, "other_digest")
    named = await user.post(
        f"{path}/actions", json={"action": "approve", "read": True, "digest": digest, "actor": "user:ada"}
    )
    assert (named.status_code, named.json()["code"]) == (422, "validation")
    done = await user.post(f"{path}/actions", json={"action": "approve", "read": True, "digest": digest})
    assert (done.status_code, done.json()["status"], done.json()["actions"]) == (200, "closed", [])
    again = await user.post(f"{path}/actions", json={"action": "approve", "read": True, "digest": digest})
    assert (again.status_code, again.json()["code"]) == (409, "no_action")
    assert (await user.get("/api/prompt-tools/scene_pacer")).json()["approved_by"] == "user:user"


async def test_an_issue_of_a_proposal_is_not_closed_by_hand(served: Served) -> None:
    waiting = await skipped(served)
    user = await served.client()
    for issue in (waiting["review_issue"], waiting["decision_issue"]):
        answer = await user.post(f"/api/issues/{issue}/close")
        assert (answer.status_code, answer.json()["code"]) == (409, "not_allowed")
    missing = await user.get("/api/issues/issue-0")
    assert (missing.status_code, missing.json()["code"]) == (404, "no_issue")
