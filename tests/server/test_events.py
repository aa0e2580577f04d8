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
    assert (outcome["state"], outcome["code"]) == ("refused", "chat_unknown")


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


async def said(served: Served, request_id: int, **more: object) -> dict[str, object]:
    """Sends a message to the chat c1 as an event; returns the place of the event."""
    user = await served.client()
    stored = await user.post("/api/blob", content=b'{"role":"user","content":[{"type":"text","text":"x"}]}')
    value = {"chat_id": "c1", "request_id": request_id, "text": "", "message_ref": stored.json()["hash"]}
    settings = {"model": "m", "provider": "openai-responses", "max_tokens": 9, **more}
    body = {"schema": CHAT, "value": {"$tag": "UserMessage", "$value": {**value, **settings}}}
    sent = await user.post("/api/events", json=body)
    assert sent.status_code == 202, sent.text
    return dict(sent.json())


async def outcome(served: Served, where: dict[str, object], separator: str = "/") -> tuple[str, str | None]:
    user = await served.client()
    unit = str(where["unit"]).replace("/", separator)
    found = (await user.get(f"/api/events/{unit}/{where['seq']}")).json()
    return found["state"], found["code"]


async def test_an_outcome_says_that_the_chat_was_busy_or_the_request_stale(served: Served) -> None:
    user, call = await served.client(), served.provider.call("order_part", {"part": "bolt", "card": "x"})
    served.provider.say(served.provider.answer(call), served.provider.answer(served.provider.text("Ordered.")))
    await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    busy = await said(served, 2)
    assert await outcome(served, busy) == ("refused", "chat_busy")
    assert await outcome(served, {**busy, "seq": 0}, "%2F") == ("done", None)
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    await user.post(f"/api/approvals/{asked['id']}", json={"decision": "approve"})
    await served.world.settle()
    stale = await said(served, 1)
    assert await outcome(served, stale) == ("refused", "request_stale")
    assert busy["unit"] == stale["unit"]
    assert busy["seq"] != stale["seq"]


async def test_equal_events_have_one_hash_and_places_of_their_own(served: Served) -> None:
    user = await served.client()
    body = {
        "schema": CHAT,
        "value": {"$tag": "ChatCreated", "$value": {"chat_id": "c", "title": "T", "created_at_ms": 1}},
    }
    first, second = [(await user.post("/api/events", json=body)).json() for _ in range(2)]
    assert first["event_hash"] == second["event_hash"]
    assert (first["unit"], first["seq"]) != (second["unit"], second["seq"])


async def test_a_message_names_a_toolset_of_chosen_tools(served: Served) -> None:
    user = await served.client()
    chosen = (await user.get("/api/tools", params={"tool": ["core__get_current_time", "order_part"]})).json()
    assert [tool["id"] for tool in chosen["tools"]] == ["core__get_current_time", "order_part"]
    await user.post("/api/chats", json={"chat_id": "c1"})
    served.provider.say(served.provider.answer(served.provider.text("Fine.")))
    where = await said(served, 1, tools_ref=chosen["tools_ref"])
    await served.world.settle()
    assert await outcome(served, where) == ("done", None)
    assert [tool["name"] for tool in served.provider.seen[-1]["tools"]] == ["core__get_current_time", "order_part"]
    assert (await user.get("/api/tools", params={"tool": "no_such"})).status_code == 404


async def test_a_reader_that_polls_sees_every_record_once(served: Served) -> None:
    user = await served.client()
    seen: list[int] = []
    start = 0
    for name in ("a", "b", "c", None):
        page = (await user.get("/api/journal", params={"from": start, "limit": 2})).json()
        while page["records"]:
            seen += [record["position"] for record in page["records"]]
            start = seen[-1] + 1
            assert page["next"] in (start, None)
            page = (await user.get("/api/journal", params={"from": start, "limit": 2})).json()
        if name is not None:
            await user.post("/api/chats", json={"chat_id": name})
    whole = (await user.get("/api/journal?limit=1000")).json()["records"]
    assert seen == [record["position"] for record in whole]
    assert len(seen) > 9
