"""The questions of a tool over HTTP: what each role sees of them, and their one answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.provider import Provider
from tests.server.asking_tools import MESSAGE, asked, serving_asking
from tests.server.conftest import Served


@pytest.fixture
async def served(tmp_path: Path, provider: Provider) -> AsyncIterator[Served]:
    async with serving_asking(tmp_path / "w", provider) as found:
        yield found


async def test_a_form_is_answered_and_the_call_goes_on(served: Served) -> None:
    waiting = await asked(served)
    [question] = waiting["input"]["questions"]
    assert (waiting["input"]["server"], waiting["asks"], waiting["expires_ns"]) == ("tours", None, None)
    assert (question["kind"], question["message"], question["url"]) == ("form", MESSAGE, None)
    assert [field["kind"] for field in question["fields"]] == ["text", "integer", "choice", "choices", "boolean"]
    approver, user = await served.client("approver"), await served.client()
    path = f"/api/approvals/{waiting['id']}/answer"
    answered = await approver.post(path, json={"content": {"name": "Ada", "extras": ["bag"]}})
    assert (answered.status_code, answered.json()["decision"]) == (200, "answered")
    late = await user.post(path, json={"action": "decline"})
    assert (late.status_code, late.json()["code"]) == (409, "decided")
    await served.world.settle()
    turn = (await user.get("/api/chats/c1/turns/1")).json()
    assert (turn["status"], turn["text"]) == ("done", "Booked.")
    assert '"content": {"extras": ["bag"], "name": "Ada", "nights": 2}' in str(served.provider.seen[-1])


async def test_a_request_that_is_no_answer_is_refused_with_the_fields_at_fault(served: Served) -> None:
    waiting = await asked(served)
    user = await served.client()
    path = f"/api/approvals/{waiting['id']}/answer"
    bodies: tuple[dict[str, Any], ...] = (
        {},
        {"answer": "Ada", "content": {"name": "Ada"}},
        {"action": "maybe"},
        {"answers": {"who": {"action": "accept"}}, "action": "accept"},
        {"answer": "Ada"},
        {"content": {}},
        {"action": "decline", "content": {"name": "Ada"}},
        {"answers": {"other": {"action": "accept"}}},
    )
    for body in bodies:
        assert (await user.post(path, json=body)).status_code == 422, body
    wrong = await user.post(path, json={"content": {"name": "A", "nights": 10}})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "bad_answer")
    assert wrong.json()["details"]["fields"] == {
        "name": "must have at least 2 characters",
        "nights": "must be at most 9",
    }
    approve = await user.post(f"/api/approvals/{waiting['id']}", json={"decision": "approve"})
    assert approve.json()["code"] == "answer_needed"
    assert len((await user.get("/api/approvals")).json()["approvals"]) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"answers": {"pay": {"action": "accept"}, "why": {"content": {"text": "Rest."}}}},
        {"content": {"why": {"text": "Rest."}}},
        {"action": "accept", "content": {"why": {"text": "Rest."}}},
    ],
)
async def test_several_questions_are_answered_by_their_keys(given: dict[str, Any], served: Served) -> None:
    waiting = await asked(served, "Lima")
    user = await served.client()
    await user.post(f"/api/approvals/{waiting['id']}/answer", json={"content": {"name": "Ada"}})
    await served.world.settle()
    [second] = (await user.get("/api/approvals")).json()["approvals"]
    assert [(each["kind"], each["host"]) for each in second["input"]["questions"]] == [
        ("url", "pay.example"),
        ("text", ""),
    ]
    answered = await user.post(f"/api/approvals/{second['id']}/answer", json=given)
    assert answered.status_code == 200
    await served.world.settle()
    assert "Rest." in str(served.provider.seen[-1])


async def test_a_viewer_sees_neither_questions_nor_answers(served: Served) -> None:
    waiting = await asked(served)
    user, viewer = await served.client(), await served.client("viewer")
    assert (await viewer.get("/api/approvals")).status_code == 403
    assert (await viewer.post(f"/api/approvals/{waiting['id']}/answer", json={"action": "cancel"})).status_code == 403
    await user.post(f"/api/approvals/{waiting['id']}/answer", json={"content": {"name": "canary-5d03"}})
    await served.world.settle()
    seen = (await viewer.get("/api/journal")).text + (await viewer.get("/api/chats/c1/messages")).text
    assert "canary-5d03" not in seen
    assert "Who travels" not in seen
