"""A question of the model over HTTP: what each role sees of it, and its one answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.provider import Provider
from tests.server.conftest import Served
from tests.server.test_connect import apart, token

from demiurge import World
from demiurge.errors import Conflict, InvalidValue

ASK = "core__ask_user"
WHERE = {"question": "Where to?", "choices": ["Rome", "Oslo"]}
CANARY = "canary-5d03"
UNIT = "demiurge/Demiurge@1/c1"


async def asked(served: Served, arguments: Mapping[str, Any] = WHERE) -> str:
    """Has the model ask a question in the chat `c1`. Returns the id under which it waits."""
    call = Provider.call(ASK, arguments)
    served.provider.say(Provider.answer(call), Provider.answer(Provider.text("Booked.")))
    user = await served.client()
    turn = (await user.post("/api/chats/c1/messages", json={"text": "Book a trip", "wait": True})).json()
    assert turn["status"] == "awaiting_approval"
    [waiting] = (await user.get("/api/approvals")).json()["approvals"]
    return str(waiting["id"])


async def test_a_question_is_answered_once_and_the_second_person_is_told(served: Served) -> None:
    waiting = await asked(served)
    user, approver = await served.client(), await served.client("approver")
    [shown] = (await approver.get("/api/approvals")).json()["approvals"]
    assert (shown["asks"], shown["expires_ns"]) == ({**WHERE, "allow_other": True}, None)
    answered = await approver.post(f"/api/approvals/{waiting}/answer", json={"answer": "Oslo"})
    assert answered.json() == {"id": waiting, "decision": "answered", "unit": UNIT}
    late = await user.post(f"/api/approvals/{waiting}/answer", json={"answer": "Rome"})
    assert (late.status_code, late.json()["code"]) == (409, "decided")
    assert (late.json()["details"]["by"], late.json()["details"]["verdict"]) == ("user:approver", "answered")
    await served.world.settle()
    turn = (await user.get("/api/chats/c1/turns/1")).json()
    assert (turn["status"], turn["text"], turn["tool_calls"][0]["result"]) == ("done", "Booked.", {"choice": 1})


async def test_a_request_that_is_no_answer_is_refused(served: Served) -> None:
    waiting = await asked(served, {**WHERE, "allow_other": False})
    user, viewer = await served.client(), await served.client("viewer")
    path = f"/api/approvals/{waiting}"
    for body, status, code in (
        ({"answer": "rome"}, 422, "bad_answer"),
        ({"answer": "  "}, 422, "bad_answer"),
        ({"answer": ""}, 422, None),
        ({"answer": "x" * 8001}, 422, None),
        ({"choice": 1}, 422, None),
    ):
        refused = await user.post(f"{path}/answer", json=body)
        assert refused.status_code == status, body
        assert code is None or refused.json()["code"] == code
    assert (await user.post(path, json={"decision": "approve"})).json()["code"] == "answer_needed"
    assert (await user.post(f"{path}/rule", json={})).json()["code"] == "answer_needed"
    assert (await viewer.post(f"{path}/answer", json={"answer": "Rome"})).status_code == 403
    assert (await user.post("/api/approvals/00/answer", json={"answer": "Rome"})).status_code == 404
    assert (await user.get("/api/journal", params={"unit": UNIT, "kind": "approval"})).json()["records"] == []


async def test_the_stream_of_a_turn_ends_with_the_question_unanswered(served: Served) -> None:
    call = Provider.call(ASK, WHERE)
    served.provider.say(Provider.answer(call), Provider.answer(Provider.text("Booked.")))
    user = await served.client()
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Book a trip"}]}], "chatId": "c1"}
    text = (await user.post("/api/ai/chat", json=body)).text
    [waiting] = (await user.get("/api/approvals")).json()["approvals"]
    assert '"waiting"' in text
    assert waiting["id"] in text
    assert "Where to?" not in text, "the question is private: GET /api/approvals has it for those who may answer"
    assert "\na:" not in text, "the call has no result"


async def test_a_connected_world_answers_a_question(served: Served) -> None:
    waiting = await asked(served)
    secret = await token(served, "user")

    async def answer() -> None:
        async with World.connect(served.base, secret) as world:
            [shown] = await world.approvals()
            assert (shown["id"], shown["asks"]) == (waiting, {**WHERE, "allow_other": True})
            with pytest.raises(InvalidValue):
                await world.answer(waiting, " ")
            await world.answer(waiting, "Rome")
            with pytest.raises(Conflict) as late:
                await world.answer(waiting, "Oslo")
            assert late.value.details["verdict"] == "answered"

    await apart(answer())
    await served.world.settle()
    assert (await served.world.chat("c1").reply()).text == "Booked."


async def test_a_viewer_sees_neither_the_question_nor_the_answer(served: Served) -> None:
    waiting = await asked(served, {"question": f"Is it {CANARY}?", "choices": [f"{CANARY}-yes", f"{CANARY}-no"]})
    user, viewer = await served.client(), await served.client("viewer")
    assert (await viewer.get("/api/approvals")).status_code == 403
    await user.post(f"/api/approvals/{waiting}/answer", json={"answer": f"{CANARY}-yes"})
    await served.world.settle()
    [record] = (await user.get("/api/journal", params={"unit": UNIT, "kind": "approval"})).json()["records"]
    answer = (await user.get(f"/api/blob/{record['body']['answer_ref']}")).text
    assert CANARY in answer
    assert (await viewer.get(f"/api/blob/{record['body']['answer_ref']}")).status_code == 404
    for path in ("/api/journal", "/api/chats/c1/messages", "/api/chats/c1/turns/1", "/api/trace?event=" + UNIT):
        found = await viewer.get(path)
        assert CANARY not in found.text, path
