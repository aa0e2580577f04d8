"""A turn as it stands, and what a person sees of a call that waits."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.server.conftest import Served


async def test_a_turn_says_its_calls_tokens_and_that_its_cost_is_unknown(served: Served) -> None:
    served.provider.say(served.provider.answer(served.provider.text("Good day.")))
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Hello", "wait": True})
    turn = (await user.get("/api/chats/c1/turns/1")).json()
    assert (turn["status"], turn["prompt_tokens"], turn["completion_tokens"]) == ("done", 10, 5)
    assert turn["cost_usd"] is None
    assert (await user.get("/api/chats/c1/turns/2")).status_code == 404


async def test_the_cost_of_a_request_that_was_stopped_is_unknown(served: Served) -> None:
    """The provider may charge for what it wrote so far; nobody knows how much."""
    served.provider.say(served.provider.answer(served.provider.text("Good day."), held=True))
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Hello"})
    assert await asyncio.to_thread(served.provider.asked.wait, 30)
    running = (await user.get("/api/chats/c1/turns/1")).json()
    assert (running["status"], running["error_code"], running["text"]) == ("running", None, "")
    waits = await user.post("/api/tools/order_part/call", json={"arguments": {"part": "bolt", "card": "x"}})
    assert waits.json()["status"] == "awaiting_approval"  # a call outside of the chat
    assert (await user.get("/api/chats/c1/turns/1")).json()["status"] == "running"
    await user.post("/api/chats/c1/cancel")
    await served.world.settle()
    turn = (await user.get("/api/chats/c1/turns/1")).json()
    assert (turn["status"], turn["error_code"]) == ("failed", "cancelled")
    assert turn["cost_usd"] is None


async def test_a_turn_that_was_stopped_at_a_call_costs_what_its_answers_cost(served: Served) -> None:
    answer = served.provider.answer(served.provider.call("order_part", {"part": "bolt", "card": "x"}))
    served.provider.say(replace(answer, headers={"x-litellm-response-cost": "0.0201"}))
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    await user.post("/api/chats/c1/cancel")
    await served.world.settle()
    turn = (await user.get("/api/chats/c1/turns/1")).json()
    assert (turn["error_code"], turn["cost_usd"]) == ("cancelled", "0.0201")


async def test_a_request_that_the_provider_rejected_costs_nothing(served: Served) -> None:
    served.provider.say(served.provider.raw(b'{"error": {"message": "no"}}', 400, "application/json"))
    user = await served.client()
    await user.post("/api/chats/c1/messages", json={"text": "Hello", "wait": True})
    turn = (await user.get("/api/chats/c1/turns/1")).json()
    assert (turn["error_code"], turn["cost_usd"]) == ("invalid_request", "0")


async def test_a_waiting_call_says_its_chat_effect_rule_and_times(served: Served) -> None:
    call = served.provider.call("order_part", {"part": "bolt", "card": "x"})
    served.provider.say(served.provider.answer(call))
    user = await served.client()
    await user.post("/api/chats", json={"chat_id": "c1", "title": "Shop"})
    await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    found = (await user.get("/api/approvals")).json()
    [asked] = found["approvals"]
    assert (asked["chat_id"], asked["title"], asked["effect"]) == ("c1", "Shop", "state_change")
    assert (asked["server"], asked["trust"]) == (None, None)
    assert asked["rules"] == [{"rule": "require_approval_for_effects", "effect": "state_change"}]
    assert asked["card"] == {
        "asker": "",
        "description": "Order a part.",
        "effect": "It changes the state of this world (state_change).",
        "why": "A person is asked because its effect is among require_approval_for_effects.",
    }
    assert asked["asked_ns"] < found["now_ns"] < asked["expires_ns"]
    assert (await user.get("/api/chats/c1/turns/1")).json()["status"] == "awaiting_approval"


async def test_a_viewer_reads_the_words_of_a_chat_without_what_redaction_withholds(served: Served) -> None:
    call = served.provider.call("order_part", {"part": "bolt", "card": "canary-4111"})
    served.provider.say(served.provider.answer(call), served.provider.answer(served.provider.text("Ordered.")))
    user, viewer = await served.client(), await served.client("viewer")
    await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    said = (await viewer.get("/api/chats/c1/messages")).json()["messages"]
    assert [(message["role"], message["text"]) for message in said] == [("user", "Order a bolt"), ("assistant", "")]
    assert said[1]["tool_calls"] == [
        {"id": said[1]["tool_calls"][0]["id"], "name": "order_part", "arguments_json": None}
    ]
    turn = (await viewer.get("/api/chats/c1/turns/1")).json()
    assert (turn["status"], turn["tool_calls"][0]["arguments_json"]) == ("awaiting_approval", None)
    assert (await viewer.get("/api/approvals")).status_code == 403
    [asked] = (await user.get("/api/approvals")).json()["approvals"]
    await user.post(f"/api/approvals/{asked['id']}", json={"decision": "approve"})
    await served.world.settle()
    turn = (await viewer.get("/api/chats/c1/turns/1")).json()
    assert (turn["status"], turn["text"]) == ("done", "Ordered.")
    for path in ("/api/chats/c1/messages", "/api/chats/c1/turns/1", "/api/chats", "/api/chats/c1"):
        assert "canary-4111" not in (await viewer.get(path)).text


async def test_a_viewer_is_told_which_chats_wait_for_a_person(served: Served) -> None:
    call = served.provider.call("order_part", {"part": "bolt", "card": "x"})
    served.provider.say(served.provider.answer(call))
    user, viewer = await served.client(), await served.client("viewer")
    await user.post("/api/chats", json={"chat_id": "idle"})
    await user.post("/api/chats/c1/messages", json={"text": "Order a bolt", "wait": True})
    chats = (await viewer.get("/api/chats")).json()["chats"]
    assert [(chat["chat_id"], chat["status"], chat["waiting"]) for chat in chats] == [
        ("c1", "awaiting_approval", True),
        ("idle", "new", False),
    ]
    assert (await viewer.get("/api/chats/c1")).json()["status"] == "awaiting_approval"
