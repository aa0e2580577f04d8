"""Events over HTTP, as seed 001 sends them."""

from __future__ import annotations

import json

from tests.server.conftest import Served

CHAT = "demiurge/ChatEvent@1"


async def test_the_smoke_test_of_the_seed_works_over_http(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Hi.")))
    user = await served.client()
    made = {"chat_id": "chat-1", "title": "First chat", "created_at_ms": 1737460000000}
    sent = await user.post("/api/events", json={"schema": CHAT, "value": {"$tag": "ChatCreated", "$value": made}})
    assert sent.status_code == 202
    assert set(sent.json()) == {"unit", "seq", "event_hash"}
    message = {"role": "user", "content": [{"type": "text", "text": "Hello from AOS"}]}
    stored = await user.post("/api/blob", content=json.dumps(message).encode())
    assert stored.status_code == 201
    said = {
        "chat_id": "chat-1",
        "request_id": 1,
        "text": "Hello",
        "message_ref": stored.json()["hash"],
        "model": "gpt-4o-mini",
        "provider": "openai-responses",
        "max_tokens": 128,
    }
    sent = await user.post("/api/events", json={"schema": CHAT, "value": {"$tag": "UserMessage", "$value": said}})
    assert sent.status_code == 202, sent.text
    await served.world.settle()
    for module in ("demiurge/Demiurge@1", "demiurge%2FDemiurge%401"):
        state = (await user.get(f"/api/state/{module}?key=chat-1")).json()
        assert [m["role"] for m in state["messages"]] == ["user", "assistant"]
    answer = await user.get(f"/api/blob/{state['messages'][-1]['message_ref']}")
    assert "Hi." in answer.text
    where = sent.json()
    outcome = (await user.get(f"/api/events/{where['unit']}/{where['seq']}")).json()
    assert outcome == {**where, "state": "done", "code": None, "message": None}
    cells = await user.get("/api/state/demiurge/Demiurge@1/cells")
    assert cells.json()["keys"] == ["chat-1"]


async def test_the_outcome_of_a_refused_message_can_be_read(served: Served) -> None:
    user = await served.client()
    stored = await user.post("/api/blob", content=b'{"role":"user","content":"x"}')
    said = {"chat_id": "none", "request_id": 1, "text": "Hello", "message_ref": stored.json()["hash"], "model": "m"}
    value = {"$tag": "UserMessage", "$value": {**said, "provider": "openai-responses", "max_tokens": 9}}
    where = (await user.post("/api/events", json={"schema": CHAT, "value": value})).json()
    outcome = (await user.get(f"/api/events/{where['unit']}/{where['seq']}")).json()
    assert (outcome["state"], outcome["code"]) == ("failed", "chat_unknown")


async def test_an_idempotency_key_makes_one_event(served: Served) -> None:
    user = await served.client()
    made = {"chat_id": "c", "title": "T", "created_at_ms": 1}
    body = {"schema": CHAT, "value": {"$tag": "ChatCreated", "$value": made}}
    first, second = [await user.post("/api/events", json=body, headers={"idempotency-key": "k1"}) for _ in range(2)]
    assert first.json() == second.json()
    made["title"] = "Other"
    taken = await user.post("/api/events", json=body, headers={"idempotency-key": "k1"})
    assert (taken.status_code, taken.json()["code"]) == (409, "key_taken")


async def test_bodies_that_are_no_strict_json_are_refused(served: Served) -> None:
    user = await served.client()
    headers = {"content-type": "application/json"}
    for body in (b'{"schema":"a","schema":"b"}', b'{"schema":"a","value":NaN}', b"[" * 100000, b"{", b'"\xff"'):
        answer = await user.post("/api/events", content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_json")
    unknown = await user.post("/api/events", json={"schema": "a/B@1", "value": 1})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_schema")
    wrong = await user.post("/api/events", json={"schema": CHAT, "value": {"$tag": "ChatCreated", "$value": {}}})
    assert wrong.status_code == 422
