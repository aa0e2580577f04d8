"""`POST /api/tools/{id}/call`: a call without a chat, by plain JSON."""

from __future__ import annotations

import json

from tests.server.conftest import Served

NOW = "/api/tools/core.get_current_time/call"
ORDER = "/api/tools/order_part/call"
BOLT = {"arguments": {"part": "bolt", "card": "4111-secret"}}
PUBLIC = {
    "call_id",
    "unit",
    "tool",
    "status",
    "ok",
    "content",
    "value",
    "result",
    "error_code",
    "message",
    "approval",
    "replayed",
}


async def test_a_call_that_nobody_has_to_approve_is_answered_at_once(served: Served) -> None:
    agent = await served.client("agent")
    answer = await agent.post(NOW, json={"arguments": {"timezone": "UTC"}})
    assert answer.status_code == 200
    done = answer.json()
    assert set(done) == {*PUBLIC, "attachments"}
    assert (done["tool"], done["status"], done["ok"]) == ("core__get_current_time", "done", True)
    assert done["value"]["timezone"] == "UTC"
    assert done == (await agent.get(f"/api/tools/core__get_current_time/calls/{done['call_id']}")).json()


async def test_a_call_that_a_person_must_approve_says_where_to_wait_and_runs_once(served: Served) -> None:
    user, agent = await served.client(), await served.client("agent")
    key = {"idempotency-key": "order 7"}
    asked = await agent.post(ORDER, json=BOLT, headers=key)
    assert (asked.status_code, asked.json()["status"]) == (202, "awaiting_approval")
    assert asked.json()["error_code"] == "approval_required"
    again = await agent.post(ORDER, json=BOLT, headers=key)
    assert (again.status_code, again.json()) == (202, asked.json())
    place, approval = asked.headers["location"], asked.json()["approval"]
    assert (await agent.get(place)).json() == asked.json()
    [waiting] = (await user.get("/api/approvals")).json()["approvals"]
    assert waiting["id"] == approval
    await user.post(f"/api/approvals/{approval}", json={"decision": "approve"})
    await served.world.settle()
    done = (await agent.get(place)).json()
    assert (done["status"], done["ok"], done["result"]) == ("done", True, {"order": 7})
    assert done["value"] == {"order": 7, "card": "4111-secret"}
    repeated = await agent.post(ORDER, json=BOLT, headers=key)
    assert (repeated.status_code, repeated.json()) == (200, done)


async def test_waiting_calls_are_listed_by_their_ends(served: Served) -> None:
    user, agent = await served.client(), await served.client("agent")
    parts = ("washer", "bolt", "nut")
    for part in parts:
        await agent.post(ORDER, json={"arguments": {"part": part, "card": "1"}})
    listed = (await user.get("/api/approvals")).json()["approvals"]
    assert [json.loads(call["arguments_json"])["part"] for call in listed] == [*parts]
    assert sorted(call["expires_ns"] for call in listed) == [call["expires_ns"] for call in listed]


async def test_a_key_belongs_to_its_caller_and_to_one_call(served: Served) -> None:
    user, agent = await served.client(), await served.client("agent")
    key = {"idempotency-key": "k"}
    mine = await agent.post(ORDER, json=BOLT, headers=key)
    yours = await user.post(ORDER, json=BOLT, headers=key)
    assert mine.json()["call_id"] != yours.json()["call_id"]
    other = await agent.post(ORDER, json={"arguments": {"part": "nut", "card": "x"}}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "exists")


async def test_a_call_that_fails_or_is_denied_is_answered_with_its_outcome(served: Served) -> None:
    user = await served.client()
    for tool, arguments, code in (
        ("order_part", {"part": 7}, "validation"),
        ("workspace__list", {}, "policy_denied"),
        ("no_such_tool", {}, "policy_denied"),
    ):
        answer = await user.post(f"/api/tools/{tool}/call", json={"arguments": arguments})
        failed = answer.json()
        assert (answer.status_code, failed["ok"], failed["error_code"]) == (200, False, code), tool
        assert failed["message"]


async def test_a_call_that_cannot_be_read_is_refused(served: Served) -> None:
    user = await served.client()
    for path, body, status, code in (
        (NOW, {"arguments": ["UTC"]}, 422, "validation"),
        (NOW, {"arguments": {}, "as": "user:ada"}, 422, "validation"),
        ("/api/tools/a b/call", {}, 422, "bad_tool_id"),
    ):
        refused = await user.post(path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (status, code), body
    made = (await user.post(NOW, json={"arguments": {"timezone": "UTC"}})).json()
    for place in (f"order_part/calls/{made['call_id']}", "order_part/calls/none"):
        missing = await user.get(f"/api/tools/{place}")
        assert (missing.status_code, missing.json()["code"]) == (404, "no_call"), place
